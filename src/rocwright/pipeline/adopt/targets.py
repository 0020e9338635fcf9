"""For which GPU targets an adopted set is: what names of packages tell, and what is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rocwright.errors import InvalidInput
from rocwright.model.gpu import base_targets, matching_family
from rocwright.pipeline.adopt.find import Judged
from rocwright.store.adopt.offered import Catalogue, Offered, device_of, label_of
from rocwright.store.layout import MULTI_ARCH

_LIBRARIES = "rocm-sdk-libraries-"


def named_targets(files: Sequence[Offered], families: Mapping[str, tuple[str, ...]]) -> tuple[str, ...]:
    """The targets that names of packages tell: of device packages, else of the family of the libraries."""
    devices = base_targets(target for one in files if (target := device_of(one.project)[1]))
    return devices or families.get(_library_family(files, families) or "", ())


def _library_family(files: Iterable[Offered], families: Mapping[str, tuple[str, ...]]) -> str | None:
    """The family in the name of the one package with libraries."""
    spelled = {name.lower(): name for name in families}
    named = {one.project.removeprefix(_LIBRARIES) for one in files if one.project.startswith(_LIBRARIES)}
    return spelled.get(one := named.pop(), one) if len(named) == 1 else None


def family_of(
    files: Iterable[Offered], targets: tuple[str, ...], families: Mapping[str, tuple[str, ...]]
) -> str:
    """By the name of the one package with libraries, or by the targets; else `none`."""
    named = _library_family(files, families)
    if named is not None and families.get(named, ()) in ((), targets):
        return named
    if not targets:
        return "none"
    return matching_family(targets, families) or (targets[0] if len(targets) == 1 else MULTI_ARCH)


def offered_targets(
    found: Judged, catalogue: Catalogue, families: Mapping[str, tuple[str, ...]]
) -> tuple[str, ...]:
    """The targets that names tell for a set, those left out of it because nobody asked for them included.

    `catalogue` is all that the index offers.
    """
    built = found.found
    devices = {
        target
        for project, files in catalogue.files.items()
        if (target := device_of(project)[1])
        and any(
            one.version == built.root[1] or label_of(project, one.version) == built.label for one in files
        )
    }
    return base_targets(devices) or named_targets(found.files, families)


def require_targets(wanted: tuple[str, ...], there: tuple[str, ...], found: Judged) -> None:
    """Raise `InvalidInput` for a target that the set has no code for."""
    without = [one for one in wanted if one not in there]
    if without:
        has = f"it has code for {', '.join(there)}" if there else "none of its files is for a GPU target"
        raise InvalidInput(
            f"{found.name} has no code for {', '.join(without)}; {has}",
            next_step="ask for targets that it has, or for another set: --list-sets shows all",
        )

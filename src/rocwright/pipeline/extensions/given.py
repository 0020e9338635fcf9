"""The torch that a build is made against, and what that needs: chosen among what places offer, by Python."""

from __future__ import annotations

import ast
import platform as system
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
from packaging.requirements import Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.utils import canonicalize_name
from packaging.version import Version

from rocwright.builder.decide.environment import label_of_torch
from rocwright.builder.decide.extension import in_force
from rocwright.builder.decide.plan import BuiltWheel
from rocwright.builder.pins import environment_of
from rocwright.errors import UsageError, WrongTorch
from rocwright.model.project import TORCH
from rocwright.pipeline.extensions.sources import Offers
from rocwright.store.adopt.offered import (
    Offered,
    SetChoice,
    comes_into_question,
    exact_pin,
    is_rocm,
    label_of,
    plain,
)
from rocwright.system.files import sha256_file
from rocwright.wheel.metadata import exact_version
from rocwright.wheel.read import Wheel, open_wheel, read_member
from rocwright.wheel.tags import allows


class Foundation(msgspec.Struct, frozen=True):
    """Wheels that a build is made against, `requirements` of theirs that come from the user's index.

    `rocm` is the version of ROCm that torch stands on, as a local version spells it, and `exact` the one that
    its wheel requires; empty where it does not say.
    """

    wheels: tuple[BuiltWheel, ...]
    requirements: tuple[str, ...] = ()
    rocm: str = ""
    exact: str = ""


def find_given(
    offers: Offers,
    *,
    torch: str | None,
    pythons: Sequence[str],
    platform: str,
    named: str = "",
    needs: Iterable[str] = (),
    built: Collection[str] = (),
) -> Foundation:
    """torch for each of the Pythons (`3.12`), and of `needs` and of what these require all that is offered.

    The wheel of torch with the file name `named` goes before all others where it fits. What is `built` in the
    same run is not taken.

    Raises `UsageError` where no torch or several fit, or a need is not offered, `WrongTorch` for one that is
    not for ROCm, `InvalidWheel` for a damaged one.
    """
    version = _version(offers, torch, pythons, platform, named)
    chosen = _Chosen(offers, platform, built, named)
    for python in pythons:
        root = chosen.take(Requirement(f"{TORCH}==={version}"), python)
        assert root is not None
        _require_hip_of(root)
        for name in needs:
            if chosen.take(Requirement(name), python) is None:
                raise UsageError(
                    f"{name} is needed, is not built here, and {offers.names} has none for Python {python} "
                    f"and torch {version}",
                    next_step=f"build it as well: --project {name}==VERSION",
                )
    return chosen.given()


def given_of(wheels: Iterable[BuiltWheel]) -> Foundation:
    """The same for wheels that are there; raises `WrongTorch` and `InvalidWheel` likewise."""
    found = _Chosen(None, "")
    for wheel in wheels:
        opened = open_wheel(Path(wheel.path))
        if opened.name == TORCH:
            _require_hip_of(opened)
        found.add(wheel, opened)
    return found.given()


def _version(
    offers: Offers, asked: str | None, pythons: Sequence[str], platform: str, named: str = ""
) -> str:
    """The one version of torch that is meant."""
    offered = [one for one in offers.of(TORCH) if one.is_wheel]
    by_python = {
        python: {one.version for one in _fitting(offered, python, platform, asked, named)}
        for python in pythons
    }
    for python, versions in by_python.items():
        if not versions:
            raise UsageError(
                f"there is no torch for Python {python} on {platform} in {offers.names}: only "
                f"{_named({one.version for one in offered})}, for others or withdrawn"
                if offered
                else f"there is no torch in {offers.names}",
                next_step="give the place that has it: --find-links DIRECTORY, or --index-url of a set",
            )
    common = set.intersection(*by_python.values())
    meant = {
        version for version in common if asked is None or exactly(asked).contains(version, prereleases=True)
    }
    # As installers do: one that was withdrawn is taken where nothing else is meant.
    meant = meant & {one.version for one in offered if one.link.yanked is None} or meant
    if len(meant) == 1:
        return meant.pop()
    if asked is not None and not meant:
        raise UsageError(
            f"--torch {asked}: {offers.names} has {_named(common or set.union(*by_python.values()))}",
            next_step="name one of them",
        )
    if not meant:
        each = "; ".join(f"{python}: {_named(found)}" for python, found in by_python.items())
        raise UsageError(f"no torch is there for every Python: {each}", next_step="build for fewer Pythons")
    raise UsageError(
        f"{offers.names} has several versions of torch: {_named(meant)}",
        next_step=f"name one, such as --torch {max(meant, key=Version)}",
    )


def exactly(text: str) -> SpecifierSet:
    """What `--torch` asks for, with or without its local part; raises `UsageError` for no version."""
    try:
        return SpecifierSet(f"=={text}")
    except InvalidSpecifier as error:
        raise UsageError(
            f"--torch {text} is not a version", next_step="write it like 2.9.1+rocm7.10.0"
        ) from error


def _named(versions: Collection[str]) -> str:
    return ", ".join(sorted(versions, key=Version))


# How the tags of wheels spell a machine, on Linux and on Windows.
_MACHINES = (("x86_64", "amd64"), ("aarch64", "arm64"))


def _fits(one: Offered, python: str, platform: str, exact: str | None) -> bool:
    """Whether a wheel can be installed for that Python on this machine, and is not withdrawn (PEP 592).

    One that is withdrawn stays where its version is asked for exactly.
    """
    machine = system.machine().lower()
    spelled = next((names for names in _MACHINES if machine in names), (machine,))
    return (
        comes_into_question(one, SetChoice(version=exact, pythons=(python,), platform=platform))
        and any(tag.endswith(("-any", *spelled)) for tag in one.tags)
        and allows(one.link.requires_python, python)
    )


def _fitting(
    offered: Iterable[Offered], python: str, platform: str, exact: str | None, named: str
) -> list[Offered]:
    """The wheels that fit; only the one that is `named`, where that does."""
    found = [one for one in offered if one.is_wheel and _fits(one, python, platform, exact)]
    return [one for one in found if one.name == named] or found


class _Chosen:
    """Wheels taken so far, and what of their requirements is not offered."""

    def __init__(
        self, offers: Offers | None, platform: str, built: Collection[str] = (), named: str = ""
    ) -> None:
        self.offers, self.platform, self.built, self.named = offers, platform, built, named
        self.wheels: list[BuiltWheel] = []
        # Without its marker, and for which Pythons it is.
        self.left: dict[str, list[str]] = {}
        self.rocm = self.exact = ""

    def take(self, wanted: Requirement, python: str) -> Wheel | None:
        """Take the newest that fits, also what is taken already, and what it requires; None for none.

        Raises `UsageError` where what is taken already is another than what is wanted.
        """
        assert self.offers is not None
        project, exact = canonicalize_name(wanted.name), exact_pin(wanted)
        known = self._known(python).get(project)
        if known is not None:
            if not wanted.specifier.contains(known.version, prereleases=True):
                raise UsageError(
                    f"{project} {known.version} is taken, and what goes with it requires "
                    f"{project}{wanted.specifier}",
                    next_step="give places whose wheels belong together",
                )
            return open_wheel(Path(known.path))
        fitting = [
            one
            for one in _fitting(self.offers.of(project), python, self.platform, exact, self.named)
            if wanted.specifier.contains(one.version, prereleases=True)
        ]
        # An index has wheels of one version for several torches, whose labels sort as they like.
        label = self._label(python)
        fitting.sort(
            key=lambda one: (one.link.yanked is None, label in one.version, Version(one.version)),
            reverse=True,
        )
        wheel = next((wheel for wheel in self._opened(fitting) if self._agrees(wheel, python)), None)
        if wheel is None:
            return None
        path = wheel.path
        size = path.stat().st_size
        taken = BuiltWheel(
            project,
            wheel.version,
            str(path),
            sha256_file(path),
            size,
            wall_s=0,
            cpu_s=0,
            peak_rss=0,
            python=python,
        )
        self.add(taken, wheel)
        return wheel

    def _known(self, python: str) -> dict[str, BuiltWheel]:
        return {wheel.project: wheel for wheel in self.wheels if wheel.python == python}

    def _label(self, python: str) -> str:
        """What the wheels that stand on the torch that is taken have in their local versions."""
        torch = self._known(python).get(TORCH)
        return label_of_torch(torch.version).removeprefix("+") if torch is not None else ""

    def _opened(self, offered: Iterable[Offered]) -> Iterator[Wheel]:
        assert self.offers is not None
        for one in offered:
            yield open_wheel(self.offers.path(one))

    def _agrees(self, wheel: Wheel, python: str) -> bool:
        """Whether it is for this Python, and what is taken already is what it requires of that."""
        known = self._known(python)
        # A directory tells only here what a page tells beside the name.
        return allows(wheel.metadata.requires_python, python) and all(
            wanted.specifier.contains(known[name].version, prereleases=True)
            for wanted in _required(wheel, python)
            if (name := canonicalize_name(wanted.name)) in known
        )

    def add(self, taken: BuiltWheel, wheel: Wheel) -> None:
        """A wheel, and what it requires."""
        self.wheels.append(taken)
        if taken.project == TORCH:
            self.rocm = label_of(TORCH, wheel.version) or ""
        for wanted in _required(wheel, taken.python):
            name = canonicalize_name(wanted.name)
            if is_rocm(name):
                if taken.project == TORCH and (version := exact_version(wanted)) is not None:
                    self.rocm, self.exact = version.replace("+", "."), version
            elif name in self.built:
                continue
            elif self.offers is None or self.take(wanted, taken.python) is None:
                self._leave(taken, wanted)

    def _leave(self, taken: BuiltWheel, wanted: Requirement) -> None:
        """To the user's index, which has no build for a ROCm."""
        pin = exact_pin(wanted)
        if self.offers is not None and pin is not None and Version(pin).local:
            raise UsageError(
                f"{taken.project} {taken.version} requires {wanted.name}=={pin}, which "
                f"{self.offers.names} does not have",
                next_step="give the place that has it as well: --find-links DIRECTORY",
            )
        self.left.setdefault(plain(wanted), []).append(taken.python)

    def given(self) -> Foundation:
        """All of it; what another wheel here is, is required of nobody else."""
        names = {wheel.project for wheel in self.wheels}
        pythons = {wheel.python for wheel in self.wheels if wheel.python}
        left = []
        for text, wanted in self.left.items():
            if canonicalize_name(Requirement(text).name) in names:
                continue
            if "" in wanted or pythons <= {*wanted}:
                left.append(text)
            else:
                numbers = dict.fromkeys(python.rstrip("t") for python in wanted)
                left += [f'{text} ; python_version == "{number}"' for number in numbers]
        return Foundation(tuple(self.wheels), tuple(left), self.rocm, self.exact)


def _required(wheel: Wheel, python: str) -> Iterator[Requirement]:
    """What a wheel requires where it is installed for that Python, whichever others it serves."""
    environment, number = environment_of(wheel.tags), python.rstrip("t")
    if number:
        environment |= {"python_version": number, "python_full_version": f"{number}.0"}
    return in_force(wheel.metadata.requires_dist, environment)


def _require_hip_of(wheel: Wheel) -> None:
    """Raise `WrongTorch` unless `torch/version.py` names a HIP."""
    name = "torch/version.py"
    text = read_member(wheel, name).decode("utf-8", "replace") if name in wheel.member else ""
    require_hip(text, wheel.path)


def require_hip(text: str, where: Path) -> None:
    """Raise `WrongTorch` unless this text of torch/version.py names a HIP."""
    if not _assigned(text).get("hip"):
        raise WrongTorch(
            f"{where.name} is a torch without HIP: torch/version.py has no version of it",
            where=where,
            next_step="give the place of a torch for ROCm, or name one with --torch",
        )


def _assigned(text: str) -> Mapping[str, object]:
    """The plain values of a module by name."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return {}
    found: dict[str, object] = {}
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        value = getattr(node, "value", None)
        if isinstance(value, ast.Constant):
            found |= {target.id: value.value for target in targets if isinstance(target, ast.Name)}
    return found

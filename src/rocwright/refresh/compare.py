"""What a source says beside what the tables say: added, changed, vanished; and what a person must decide."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Literal

import msgspec

from rocwright.model.gpu import in_order
from rocwright.refresh import texts
from rocwright.refresh.places import Read, SourcePlace, path_of

Kind = Literal["added", "changed", "vanished", "conflict", "noted"]
Rows = list[dict[str, Any]]
_DAY = re.compile(r"[0-9]{4}(-[0-9]{2}){0,2}")


class FactChange(msgspec.Struct, frozen=True):
    """A difference between a source and the tables.

    `key` is the fact, as `data explain` spells it; `path` leads to its value in the table, or, with `row`, to
    the list that has the row of this name. `new` is what the source says, `old` what the table says.
    `noted` is what a person has to decide, `conflict` what somebody wrote otherwise by hand; both are told,
    not written.
    """

    kind: Kind
    key: str
    table: str = ""
    path: tuple[str, ...] = ()
    row: str = ""
    old: Any = None
    new: Any = None
    source: str = ""
    url: str = ""
    as_of: str = ""
    says: str = ""


class FactTables(msgspec.Struct, frozen=True):
    """The tables as they are, with an overlay in them, as plain values."""

    values: Mapping[str, Mapping[str, Any]]

    def entries(self, table: str, area: str) -> dict[str, Any] | None:
        """A table of names with values, None where this version has none of that name."""
        found = self.values[table].get(area)
        return dict(found) if isinstance(found, dict) else None

    def rows(self, table: str, area: str, by: str) -> dict[str, dict[str, Any]]:
        """Rows by their name; later ones take the place of earlier ones."""
        return {str(row[by]): row for row in self.values[table].get(area, [])}

    def with_(self, change: FactChange) -> FactTables:
        """The tables with a change that is to be written, so that another source adds to it."""
        table = {**self.values[change.table]}
        area = table[change.path[0]]
        table[change.path[0]] = [*area, change.new] if change.row else {**area, change.path[-1]: change.new}
        return FactTables({**self.values, change.table: table})

    @property
    def targets(self) -> set[str]:
        """Every target that a family or the list of further ones has."""
        families = self.values["families"]["families"].values()
        return {one for members in families for one in members} | set(
            self.values["device_files"]["further_targets"]
        )


Changes = Iterable[FactChange]
Reader = Callable[[SourcePlace, FactTables], tuple[Read, Iterator[FactChange]]]


def noted(key: str, says: str) -> FactChange:
    """What a person has to decide."""
    return FactChange("noted", key, says=says)


def entries(tables: FactTables, table: str, area: str, found: Mapping[str, Any]) -> Iterator[FactChange]:
    """Names with values that a source has all of."""
    held = tables.entries(table, area)
    if held is None:
        yield noted(f"{table}.{area}", f"this rocwright has no such table; the source says {found}")
        return
    for name, new in found.items():
        if name not in held or not _same(held[name], new):
            kind: Kind = "changed" if name in held else "added"
            key = f"{table}.{area}.{name}"
            yield FactChange(kind, key, table, (area, name), old=held.get(name), new=new)
    for name in held:
        # A target is a family of its own name, too: that is nothing that a source would list.
        if name not in found and held[name] != [name]:
            key = f"{table}.{area}.{name}"
            yield FactChange("vanished", key, table, (area, name), old=held[name])


def _same(held: Any, new: Any) -> bool:
    """Whether two values say the same; the order of a list says nothing."""
    return sorted(held) == sorted(new) if isinstance(held, list) and isinstance(new, list) else held == new


def row(table: str, area: str, name: str, old: dict[str, Any] | None, new: dict[str, Any]) -> FactChange:
    """A row of a list that is new, or has other fields."""
    kind: Kind = "added" if old is None else "changed"
    return FactChange(kind, f"{table}.{area}.{name}", table, (area,), name, old, new)


def new_targets(tables: FactTables, found: Iterable[str]) -> Iterator[FactChange]:
    """Targets that no table knows: each becomes a family of its own name."""
    for one in in_order(set(found) - tables.targets):
        yield FactChange("added", f"families.families.{one}", "families", ("families", one), new=[one])


# -- one reader for each source


def _targets(place: SourcePlace, tables: FactTables) -> tuple[Read, Iterator[FactChange]]:
    read = place.read(path_of(place.url))
    declared = texts.target_families(read.text, read.url)
    found = {family: list(in_order(members)) for family, members in declared.items()}
    return read, entries(tables, "families", "families", found)


def _matrix(place: SourcePlace, tables: FactTables) -> tuple[Read, Iterator[FactChange]]:
    read = place.read(path_of(place.url))
    found = texts.family_tiers(read.text, read.url)
    return read, _tiers(tables, found)


def _tiers(tables: FactTables, found: Mapping[str, Mapping[str, Any]]) -> Iterator[FactChange]:
    held = tables.rows("families", "family", "name")
    families = tables.entries("families", "families") or {}
    for name, said in found.items():
        old = held.get(name)
        if name not in families and name not in tables.targets:
            yield noted(
                f"families.family.{name}", f"it is built ({said['tier']}), but is no family of the table"
            )
            continue
        new = {"name": name, **(old or {}), "tier": said["tier"]}
        for platform in ("linux", "windows"):
            label = said.get(platform)
            if label is None:
                new.pop(platform, None)
            elif platform not in new:
                new[platform] = {"pools": [{"label": label}]} if label else {}
        if new != old:
            yield row("families", "family", name, old, new)
    for name in held.keys() - found.keys():
        yield FactChange("vanished", f"families.family.{name}", "families", ("family",), name, held[name])


def _pytorch(place: SourcePlace, tables: FactTables) -> tuple[Read, Iterator[FactChange]]:
    read = place.read(path_of(place.url))
    found = texts.release_matrix(read.text, read.url)
    return read, _profiles(tables, found)


def _profiles(tables: FactTables, found: Mapping[str, Mapping[str, list[str]]]) -> Iterator[FactChange]:
    for name, old in tables.rows("profiles", "profile", "name").items():
        said = found.get(old["release_type"])
        if said is None:
            continue
        new = {**old, "pythons": said["pythons"], "refs": said["refs"]}
        new.pop("refs_windows", None)
        if said["refs_windows"] != said["refs"]:
            new["refs_windows"] = said["refs_windows"]
        if new != old:
            yield row("profiles", "profile", name, old, new)
    lines = {line["ref"] for line in tables.rows("projects", "line", "name").values()}
    for ref in dict.fromkeys(ref for said in found.values() for ref in said["refs"]):
        if ref not in lines:
            yield noted("projects.line", f"{ref} is built, and no version of PyTorch has this branch")


def _device_extras(place: SourcePlace, tables: FactTables) -> tuple[Read, Iterator[FactChange]]:
    read = place.read(path_of(place.url))
    found = texts.device_extras(read.text, read.url)
    return read, _extras(tables, found)


def _extras(tables: FactTables, found: Mapping[str, str]) -> Iterator[FactChange]:
    yield from new_targets(tables, found)
    named = tables.values["landing"].get("gpus", {})
    chips = tables.rows("gpus", "chip", "name").values()
    for target, products in found.items():
        here = [chip for chip in chips if chip["target"] == target]
        processors = [one for one in re.findall(r"Ryzen [^/,]+", products) if here]
        missing = [one.strip() for one in processors if all(one.strip() not in _sold_in(c) for c in here)]
        if missing and len(here) == 1:
            (old,) = here
            new = {**old, "processors": [*_sold_in(old), *missing]}
            yield row("gpus", "chip", old["name"], old, new)
        elif missing or (target not in named and not here):
            yield noted(f"landing.gpus.{target}", f"its GPUs are called {products}")


def _sold_in(chip: Mapping[str, Any]) -> list[str]:
    return list(chip.get("processors", []))


def _supported(place: SourcePlace, tables: FactTables) -> tuple[Read, Iterator[FactChange]]:
    read = place.read(path_of(place.url))
    found = texts.supported_targets(read.text, read.url)
    held = {one for hardware in tables.values["compat"]["hardware"] for one in hardware["targets"]}

    def changes() -> Iterator[FactChange]:
        yield from new_targets(tables, found)
        for target in in_order(set(found) - held):
            yield noted("compat.hardware", f"{target} ({found[target]}) is in no row of data types")

    return read, changes()


def _version(place: SourcePlace, tables: FactTables) -> tuple[Read, Iterator[FactChange]]:
    read = place.read(path_of(place.url))
    found = texts.rocm_version(read.text, read.url)
    known = [line["rocm"] for line in tables.values["compat_libraries"]["release"]]

    def changes() -> Iterator[FactChange]:
        if not any(_numbers(one) >= _numbers(found) for one in known):
            yield noted(
                "compat_libraries.release", f"ROCm {found} is being made; the newest row is {known[0]}"
            )

    return read, changes()


def _numbers(version: str) -> list[int]:
    return [int(one) for one in version.split(".")]


_BOOTSTRAP = ("rocm_bootstrap/targets.py", "rocm_bootstrap/package_metadata.py")


def _bootstrap(place: SourcePlace, tables: FactTables) -> tuple[Read, Iterator[FactChange]]:
    files, version = place.package("rocm-bootstrap", _BOOTSTRAP)
    where = f"rocm-bootstrap {version}"
    found = texts.bootstrap_targets(files[_BOOTSTRAP[0]], where)
    owners = texts.bootstrap_owners(files[_BOOTSTRAP[1]], where)

    def changes() -> Iterator[FactChange]:
        yield from new_targets(tables, found)
        yield from entries(tables, "families", "owners", owners)

    return Read("", version, place.url), changes()


def _boards(place: SourcePlace, tables: FactTables) -> tuple[Read, Iterator[FactChange]]:
    read = place.read("data/amdgpu.ids", "usr/share/libdrm/amdgpu.ids", "amdgpu.ids")
    found = texts.board_names(read.text, read.url)
    return read, _sold_as(tables, found)


def _sold_as(tables: FactTables, found: Mapping[tuple[str, str], str]) -> Iterator[FactChange]:
    known: set[str] = set()
    for name, old in tables.rows("gpus", "chip", "name").items():
        known.update(old["ids"])
        held = {
            (key.partition(":")[0], revision): text
            for key, text in old.get("names", {}).items()
            for revision in key.partition(":")[2].split()
        }
        said = {at: text for at, text in found.items() if at[0] in old["ids"]}
        if said.items() - held.items():
            yield row("gpus", "chip", name, old, {**old, "names": _by_name({**held, **said})})
        for device, revision in sorted(held.keys() - said.keys()):
            key = f"gpus.chip.{name}.names.{device}:{revision}"
            yield FactChange("vanished", key, "gpus", old=held[device, revision])
    left = sorted({device for device, _ in found} - known)
    if left:
        yield noted("gpus.chip", f"devices with a name that no chip of the table has: {' '.join(left)}")


def _by_name(names: Mapping[tuple[str, str], str]) -> dict[str, str]:
    """As the table has them: `DEVICE:REVISION REVISION …` to the name, in the order of devices."""
    revisions: dict[tuple[str, str], list[str]] = defaultdict(list)
    for (device, revision), text in sorted(names.items()):
        revisions[device, text].append(revision)
    return {f"{device}:{' '.join(all_)}": text for (device, text), all_ in revisions.items()}


def _pci(place: SourcePlace, tables: FactTables) -> tuple[Read, Iterator[FactChange]]:
    read = place.read("pci.ids", "usr/share/misc/pci.ids", "usr/share/hwdata/pci.ids")
    found, day = texts.pci_chips(read.text, read.url)
    return Read("", day or read.as_of, read.url), _ids(tables, found)


def _driver(place: SourcePlace, tables: FactTables) -> tuple[Read, Iterator[FactChange]]:
    read = place.read("drivers/gpu/drm/amd/amdgpu/amdgpu_drv.c", "amdgpu_drv.c")
    return read, _ids(tables, texts.driver_chips(read.text, read.url))


def _ids(tables: FactTables, found: Mapping[str, str]) -> Iterator[FactChange]:
    """Device ids that a list has beside known ones under one name. No list has every id: none vanishes.

    Which chip a name means is told by the ids that both have. A name that goes with several chips says no
    target: pci.ids calls all Instincts since MI300 by one name.
    """
    rows = tables.rows("gpus", "chip", "name")
    chip_of = {one: name for name, chip in rows.items() for one in chip["ids"]}
    meant: dict[str, set[str]] = defaultdict(set)
    new: dict[str, list[str]] = defaultdict(list)
    for one, name in found.items():
        if one in chip_of:
            meant[name].add(chip_of[one])
        else:
            new[name].append(one)
    added: dict[str, list[str]] = defaultdict(list)
    for name, ids in new.items():
        if len(meant[name]) == 1:
            added[next(iter(meant[name]))] += ids
        elif meant[name]:
            yield noted(
                "gpus.chip",
                f"{name}: {' '.join(ids)} may be any of {', '.join(sorted(meant[name]))}",
            )
    for chip, ids in added.items():
        old = rows[chip]
        yield row("gpus", "chip", chip, old, {**old, "ids": sorted([*old["ids"], *ids])})


def _csv(place: SourcePlace, tables: FactTables) -> tuple[Read, Iterator[FactChange]]:
    read = place.read(path_of(place.url))
    libraries = {row["name"].lower(): row["name"] for row in tables.values["compat_libraries"]["library"]}
    found = texts.release_rows(read.text, libraries, read.url)
    newest = max(found, key=_numbers)
    return Read("", f"ROCm {newest}", read.url), _compatibility(tables, found, read.url)


def _compatibility(tables: FactTables, found: Mapping[str, dict[str, Any]], url: str) -> Iterator[FactChange]:
    rows = tables.rows("compat_libraries", "release", "rocm")
    for rocm, said in found.items():
        told = {key: value for key, value in said.items() if value}
        old = rows.get(rocm)
        new = {"rocm": rocm, "source": url, **(old or {}), **told}
        if old is not None:
            # Order says nothing here, and what a page leaves out another said.
            for field in ("torch", "targets", "absent"):
                if field in old and set(old[field]) >= set(told.get(field, ())):
                    new[field] = old[field]
            new["versions"] = {**old.get("versions", {}), **told.get("versions", {})}
        if new != old:
            yield row("compat_libraries", "release", rocm, old, new)


READERS: dict[str, Reader] = {
    "therock-targets": _targets,
    "therock-matrix": _matrix,
    "therock-pytorch": _pytorch,
    "therock-extras": _device_extras,
    "therock-gpus": _supported,
    "therock-version": _version,
    "rocm-bootstrap": _bootstrap,
    "amdgpu-ids": _boards,
    "pci-ids": _pci,
    "amdgpu-drv": _driver,
    "rocm-matrix": _csv,
}


def older(read: str, held: str) -> bool:
    """Whether what was read is older than what the tables were read from: days, or releases of ROCm."""
    if read.startswith("ROCm ") and held.startswith("ROCm "):
        return _numbers(read[5:]) < _numbers(held[5:])
    if not (_DAY.fullmatch(read) and _DAY.fullmatch(held)):
        return False
    length = min(len(read), len(held))
    return read[:length] < held[:length]

"""Split trees and sets of wheels, sound and damaged, alone and against what was split."""

from __future__ import annotations

import shutil
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kpack_cases import (
    KERNEL,
    OBJECTS,
    TARGETS,
    Case,
    build_fat,
    build_of,
    code,
    header_of,
    in_reference_layout,
    put,
    relocation_to,
    section,
    split_case,
    write_archive,
)

from oracle.fat_library import bundle, ccob
from rocwright.device_code.kpack import Marker
from rocwright.device_code.tree.split import split_tree
from rocwright.device_code.verify.report import RULES, KpackReport
from rocwright.device_code.verify.verify import verify
from rocwright.device_code.wheel.wheel import split_wheel
from rocwright.errors import InvalidInput
from trees import write
from wheels import record_row, write_wheel

DATABASE = "lib/rocblas/library/TensileLibrary_Type_HH_gfx942.co"
IMAGE = "lib/aotriton.images/amd-gfx11xx/flash.aks2"


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("sound")
    return split_case(folder / "prefix", build_fat(folder / "fat"))


@dataclass(frozen=True)
class Trees:
    """A fat tree and what it was split into, by hand."""

    fat: Path
    split: Path


def base(target: str) -> str:
    return target.partition(":")[0]


@pytest.fixture
def trees(sound: Case, tmp_path: Path) -> Trees:
    made = Trees(tmp_path / "rocm", tmp_path / "split")
    for part in ("generic", *map(base, TARGETS), "gfx11"):
        (made.split / part).mkdir(parents=True, exist_ok=True)
    generic = made.split / "generic"
    for name, part, data in (
        ("share/doc/x.txt", "generic", b"for everybody"),
        (DATABASE, "gfx942", code("gfx942")),
        (IMAGE, "gfx11", b"images of several targets"),
    ):
        for path in (made.fat / name, made.split / part / name):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    for root in (made.fat, generic):
        (root / "lib").mkdir(exist_ok=True)
        (root / "lib" / "libfat.so.1").symlink_to("libfat.so")
    shutil.copy2(sound.fat, made.fat / "lib" / "libfat.so")
    shutil.copy2(sound.host, generic / "lib" / "libfat.so")
    (generic / "lib" / "libfat.so").chmod(sound.fat.stat().st_mode & 0o777)
    for target in TARGETS:
        folder = made.split / base(target) / ".kpack"
        folder.mkdir(exist_ok=True)
        shutil.copy2(sound.archive(target), folder)
    return made


def found(report: KpackReport) -> set[str]:
    return {finding.rule for finding in report.findings}


def test_a_split_tree_against_the_fat_one(trees: Trees) -> None:
    report = verify([trees.split], against=[trees.fat])
    assert report.findings == ()
    assert report.identical == OBJECTS
    assert report.libraries == ("generic/lib/libfat.so",)
    assert "gfx942/.kpack/fat_gfx942.kpack" in report.archives


def test_its_parts_may_be_named_one_by_one(trees: Trees) -> None:
    report = verify(sorted(trees.split.iterdir()))
    assert report.findings == ()
    assert len(report.archives) == len(TARGETS)


def test_a_tree_of_databases_alone(trees: Trees) -> None:
    """A library whose code is all in files for one target needs no archive."""
    for path in [
        *trees.split.rglob("fat_*.kpack"),
        *trees.split.rglob("libfat*"),
        *trees.fat.rglob("libfat*"),
    ]:
        path.unlink()
    report = verify([trees.split], against=[trees.fat])
    assert report.findings == ()
    assert report.passed
    assert report.parts == ("generic", "gfx11", "gfx942")


def test_one_target_alone(trees: Trees) -> None:
    report = verify([trees.split / "gfx942"])
    assert report.passed
    assert report.libraries == ()


def test_merged_again_everything_is_in_its_place(trees: Trees, tmp_path: Path) -> None:
    """Device files beside the host's are right where no parts are."""
    for part in sorted(trees.split.iterdir()):
        shutil.copytree(part, tmp_path / "merged", dirs_exist_ok=True, symlinks=True)
    report = verify([tmp_path / "merged"], against=[trees.fat])
    assert report.findings == ()
    assert report.identical == OBJECTS


def test_artifacts_that_the_project_splits(sound: Case, tmp_path: Path) -> None:
    artifact = tmp_path / "in" / "rand_lib_gfx94X-dcgpu"
    stage = artifact / "math-libs" / "rand" / "stage"
    (stage / "lib").mkdir(parents=True)
    shutil.copy2(sound.fat, stage / "lib" / "libfat.so")
    (artifact / "artifact_manifest.txt").write_text("math-libs/rand/stage\n")
    split_tree(tmp_path / "in", tmp_path / "out")
    report = verify([tmp_path / "out"], against=[tmp_path / "in"])
    assert report.findings == ()
    assert report.identical == OBJECTS
    report = verify([tmp_path / "out"], against=[artifact])
    assert report.findings == ()
    assert report.identical == OBJECTS


def move(trees: Trees, name: str, old: str, new: str) -> None:
    target = trees.split / new / name
    target.parent.mkdir(parents=True, exist_ok=True)
    (trees.split / old / name).rename(target)


TREE_DAMAGES: dict[str, tuple[Callable[[Trees], object], str, str]] = {
    "database in generic": (
        lambda t: move(t, DATABASE, "gfx942", "generic"),
        "kpack-device-file",
        "it serves gfx942 and is in the part for all GPUs",
    ),
    "archive in generic": (
        lambda t: move(t, ".kpack/fat_gfx942.kpack", "gfx942", "generic"),
        "kpack-device-file",
        "it serves gfx942 and is in the part for all GPUs",
    ),
    "archive in another target": (
        lambda t: move(t, ".kpack/fat_gfx942.kpack", "gfx942", "gfx90a"),
        "kpack-foreign",
        "it serves gfx942 and is in the part for gfx90a",
    ),
    "group's file in a target": (
        lambda t: move(t, IMAGE, "gfx11", "gfx942"),
        "kpack-foreign",
        "it serves gfx11 and is in the part for gfx942",
    ),
    "code of another target in a database": (
        lambda t: write(t.split / "gfx942" / DATABASE, code("gfx90a")),
        "kpack-machine",
        "it serves gfx942 and holds code for gfx90a",
    ),
    "bundle of another target in a database": (
        lambda t: write(t.split / "gfx942" / DATABASE, ccob(bundle([("gfx906", code("gfx906"))]))),
        "kpack-machine",
        "it serves gfx942 and holds code for gfx906",
    ),
    "damaged bundle in a database": (
        lambda t: write(t.split / "gfx942" / DATABASE, b"CCOB" + bytes(100)),
        "kpack-readable",
        "header version 0",
    ),
    "database of no known target": (
        lambda t: write(t.split / "generic" / "lib/rocblas/library/T_gfx9999.co", b"?"),
        "kpack-unplaced",
        "gfx9999 is not a known target",
    ),
    "one path in two parts": (
        lambda t: write(t.split / "gfx942" / "share/doc/x.txt", b"for everybody"),
        "kpack-overlap",
        "generic holds share/doc/x.txt too",
    ),
    "directory of nobody": (
        lambda t: write(t.split / "logs" / "x", b""),
        "kpack-layout",
        "belongs to no target",
    ),
    "archive of a target is gone": (
        lambda t: shutil.rmtree(t.split / "gfx942"),
        "kpack-missing",
        "no archive has code for wrapper 1",
    ),
}


@pytest.mark.parametrize("damage", TREE_DAMAGES)
def test_damages_of_a_tree_are_found(trees: Trees, damage: str) -> None:
    change, rule, text = TREE_DAMAGES[damage]
    change(trees)
    report = verify([trees.split])
    assert any(text in f.cause for f in report.findings if f.rule == rule), report.findings


# Against the original.


def host(trees: Trees) -> Path:
    return trees.split / "generic" / "lib" / "libfat.so"


def archive(trees: Trees, target: str) -> Path:
    return trees.split / base(target) / ".kpack" / f"fat_{target}.kpack"


def rodata(trees: Trees) -> None:
    put(host(trees), section(host(trees), ".rodata").offset, b"?")


def other_relocation(trees: Trees) -> None:
    wrappers = section(host(trees), ".hipFatBinSegment")
    own = {wrappers.addr + 24 * i + 8 for i in range(3)}
    table = section(host(trees), ".rela.dyn")
    data = host(trees).read_bytes()
    for at in range(table.offset, table.offset + table.size, 24):
        place, kind, addend = struct.unpack_from("<QQq", data, at)
        if kind == 8 and place not in own:
            put(host(trees), at + 16, struct.pack("<q", addend + 8))
            return
    raise LookupError


def counted_by_target(trees: Trees) -> None:
    """What a splitter does that counts code objects instead of following wrappers: TU 2 becomes 1."""
    objects = {(KERNEL, 0): code("gfx1100", b"0"), (KERNEL, 1): code("gfx1100", b"2")}
    write_archive(archive(trees, "gfx1100"), "gfx1100", objects)


def exchanged(trees: Trees) -> None:
    objects = {(KERNEL, i): code("gfx942", str(n).encode()) for i, n in ((0, 0), (1, 2), (2, 1))}
    write_archive(archive(trees, "gfx942"), "gfx942", objects)


AGAINST: dict[str, tuple[Callable[[Trees], object], str, str]] = {
    "file lost": (
        lambda t: (t.split / "generic/share/doc/x.txt").unlink(),
        "kpack-lost",
        "it is in no part",
    ),
    "file invented": (
        lambda t: write(t.split / "generic/share/y.txt", b""),
        "kpack-invented",
        "the original has no such file",
    ),
    "file changed": (
        lambda t: write(t.split / "generic/share/doc/x.txt", b"for somebody "),
        "kpack-differs",
        "it is not the original's file",
    ),
    "link changed": (
        lambda t: (
            (t.split / "generic/lib/libfat.so.1").unlink(),
            (t.split / "generic/lib/libfat.so.1").symlink_to("libfit.so"),
        ),
        "kpack-differs",
        "the original leads to libfat.so, this to libfit.so",
    ),
    "mode changed": (lambda t: host(t).chmod(0o600), "kpack-mode", "its mode is 600"),
    "code lost": (
        lambda t: write_archive(archive(t, "gfx1100"), "gfx1100", {(KERNEL, 0): code("gfx1100", b"0")}),
        "kpack-lost",
        "no archive has code for gfx1100 for wrapper 2",
    ),
    "code invented": (
        lambda t: write_archive(
            archive(t, "gfx1100"),
            "gfx1100",
            {(KERNEL, i): code("gfx1100", str(i).encode()) for i in range(3)},
        ),
        "kpack-invented",
        "has no code for gfx1100 for wrapper 1",
    ),
    "code of another wrapper": (
        exchanged,
        "kpack-differs",
        "lib/libfat.so#1 for gfx942 is not the original's",
    ),
    "index counted by target": (counted_by_target, "kpack-invented", "no code for gfx1100 for wrapper 1"),
    "code changed": (
        lambda t: write_archive(
            archive(t, "gfx942"),
            "gfx942",
            {(KERNEL, i): code("gfx942", str(i).encode()) + b"!" * (i == 1) for i in range(3)},
        ),
        "kpack-differs",
        "lib/libfat.so#1 for gfx942",
    ),
    "byte of a section": (rodata, "kpack-host", "the bytes of section .rodata changed"),
    "relocation": (other_relocation, "kpack-host", "the bytes of section .rela.dyn changed"),
    "symbol": (
        lambda t: put(host(t), section(host(t), ".dynsym").offset + 24 + 8, b"\1"),
        "kpack-host",
        "the bytes of section .dynsym changed",
    ),
    "section moved": (
        lambda t: put(host(t), header_of(host(t), ".fat_tail") + 16, struct.pack("<Q", 0x40)),
        "kpack-host",
        "section .fat_tail was at",
    ),
    "section renamed": (
        lambda t: put(host(t), header_of(host(t), ".comment"), struct.pack("<I", 0)),
        "kpack-host",
        "section .comment is lost",
    ),
    "section resized": (
        lambda t: put(host(t), header_of(host(t), ".comment") + 32, b"\1"),
        "kpack-host",
        "section .comment has another type, other flags or another size",
    ),
    "entry point": (lambda t: put(host(t), 24, b"\x99"), "kpack-host", "its entry point was"),
    "upper half of the reserved word": (
        lambda t: put(host(t), section(host(t), ".hipFatBinSegment").offset + 20, b"\1"),
        "kpack-host",
        "the upper half of word 16 of wrapper 0 changed",
    ),
    "dynamic table": (
        lambda t: put(host(t), section(host(t), ".dynamic").offset + 8, b"\1"),
        "kpack-host",
        "the bytes of section .dynamic changed",
    ),
    "original that is no fat library": (
        lambda t: shutil.copy2(host(t), t.fat / "lib" / "libfat.so"),
        "kpack-original",
        "it cannot be compared with its original",
    ),
    "original that is not there": (
        lambda t: (t.fat / "lib" / "libfat.so").unlink(),
        "kpack-original",
        "there is no original to compare it with",
    ),
}


@pytest.mark.parametrize("damage", AGAINST)
def test_what_only_the_original_tells(trees: Trees, damage: str) -> None:
    change, rule, text = AGAINST[damage]
    change(trees)
    report = verify([trees.split], against=[trees.fat])
    assert not report.passed
    assert any(text in f.cause for f in report.findings if f.rule == rule), report.findings


def test_the_wrapper_of_one_relocation_leads_elsewhere_only_by_its_marker(trees: Trees) -> None:
    """The relocations of wrappers are not the original's, and nothing else of the table may differ."""
    wrappers = section(host(trees), ".hipFatBinSegment")
    put(host(trees), relocation_to(host(trees), wrappers.addr + 8) + 8, b"\7")
    rules = found(verify([trees.split], against=[trees.fat]))
    assert "kpack-wrapper" in rules


# Wheels.


def pack_wheel(
    folder: Path,
    project: str,
    files: Mapping[str, bytes],
    *,
    version: str = "1.0",
    deflate_archives: bool = False,
    wrong_record: bool = False,
    **options: Any,
) -> Path:
    """A wheel that keeps archives as they are."""
    stored = [name for name in files if name.endswith(".kpack") and not deflate_archives]
    record = {name: record_row(name, data + b"!") for name, data in files.items() if wrong_record}
    tag = "py3-none-linux_x86_64"
    return write_wheel(folder, project, version, files, tag=tag, stored=stored, record=record, **options)


@pytest.fixture
def wheels(sound: Case, tmp_path: Path) -> Wheels:
    return Wheels(sound, tmp_path / "dist")


class Wheels:
    """A fat wheel, a host wheel and one device wheel for each target, written by hand."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.folder = case, folder
        self.fat = pack_wheel(folder.with_name("fat"), "pkg", {"pkg/lib/libfat.so": case.fat.read_bytes()})
        self.targets = sorted({base(target) for target in TARGETS})
        self.host()
        for target in self.targets:
            self.device(target)

    def host(self, more: Mapping[str, bytes] | None = None, **options: object) -> Path:
        options.setdefault("extras", [f"device-{target}" for target in self.targets])
        options.setdefault(
            "requires",
            [f'amd-pkg-device-{target}==1.0 ; extra == "device-{target}"' for target in self.targets],
        )
        files = {"pkg/lib/libfat.so": self.case.host.read_bytes(), **(more or {})}
        return pack_wheel(self.folder, "pkg", files, **options)

    def device(self, target: str, more: Mapping[str, bytes] | None = None, **options: object) -> Path:
        files = {
            f"pkg/.kpack/fat_{full}.kpack": self.case.archive(full).read_bytes()
            for full in TARGETS
            if base(full) == target
        }
        options.setdefault("requires", ["pkg==1.0"])
        return pack_wheel(self.folder, f"amd-pkg-device-{target}", {**files, **(more or {})}, **options)


def test_wheels_against_the_fat_wheel(wheels: Wheels) -> None:
    report = verify([wheels.folder], against=[wheels.fat])
    assert report.findings == ()
    assert report.notes[0].rule == "kpack-partial"
    assert report.identical == OBJECTS
    assert report.libraries == ("pkg-1.0-py3-none-linux_x86_64.whl:pkg/lib/libfat.so",)


def test_wheels_that_the_project_splits(wheels: Wheels, tmp_path: Path) -> None:
    split_wheel(wheels.fat, tmp_path / "out")
    report = verify(sorted((tmp_path / "out").glob("*.whl")), against=[wheels.fat])
    assert report.findings == ()
    assert report.identical == OBJECTS


def test_wheels_of_two_projects_against_their_fat_wheels(wheels: Wheels, tmp_path: Path) -> None:
    second = pack_wheel(tmp_path / "fat", "other", {"other/libfat.so": wheels.case.fat.read_bytes()})
    for fat in (wheels.fat, second):
        split_wheel(fat, tmp_path / "out")
    parts = sorted((tmp_path / "out").glob("*.whl"))
    report = verify(parts, against=[second, wheels.fat])
    assert (report.findings, report.identical) == ((), 2 * OBJECTS)
    assert verify(parts, against=[tmp_path / "fat"]) == report
    assert "kpack-original" in found(verify(parts, against=[wheels.fat]))
    # Whose device wheels are not there, that one has no code: not that of the other.
    for part in (tmp_path / "out").glob("amd_other_*"):
        part.unlink()
    rest = sorted((tmp_path / "out").glob("*.whl"))
    for against in ((), (second, wheels.fat)):
        told = {finding.rule: finding.file for finding in verify(rest, against=against).findings}
        assert told["kpack-missing"].startswith("other-"), told
        assert not {"kpack-stranger", "kpack-same-name", "kpack-differs"} & set(told)


def test_originals_of_no_one_set_are_refused(wheels: Wheels, tmp_path: Path) -> None:
    again = pack_wheel(tmp_path / "again", "other", {"pkg/lib/libfat.so": wheels.case.fat.read_bytes()})
    with pytest.raises(InvalidInput, match="have one place"):
        verify([wheels.folder], against=[wheels.fat, again])
    for odd in (wheels.case.root, wheels.case.fat):
        with pytest.raises(InvalidInput, match="cannot be an original beside others"):
            verify([wheels.folder], against=[wheels.fat, odd])


def test_device_wheels_alone(wheels: Wheels) -> None:
    report = verify(sorted(wheels.folder.glob("amd_*.whl")))
    assert report.passed
    assert report.libraries == ()


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def member_byte(path: Path, name: str) -> None:
    """Damage the compressed bytes of a member."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(name)
    put(path, info.header_offset + 30 + len(name) + info.compress_size // 2, bytes(64))


WHEEL_DAMAGES: dict[str, tuple[Callable[[Wheels], object], str, str]] = {
    "cut wheel": (
        lambda w: cut(w.device("gfx942")),
        "kpack-wheel",
        "is a damaged archive",
    ),
    "byte of a compressed library": (
        lambda w: member_byte(w.host(), "pkg/lib/libfat.so"),
        "kpack-readable",
        "pkg/lib/libfat.so",
    ),
    "RECORD of other bytes": (lambda w: w.device("gfx942", wrong_record=True), "kpack-record", "RECORD says"),
    "archive compressed again": (
        lambda w: w.device("gfx942", deflate_archives=True),
        "kpack-deflated",
        "pkg/.kpack/fat_gfx942.kpack is compressed again",
    ),
    "no pin": (lambda w: w.device("gfx942", requires=["pkg>=1.0"]), "kpack-pin", "it pins none of pkg"),
    "pin of another version": (
        lambda w: w.device("gfx942", requires=["pkg==1.1"]),
        "kpack-pin",
        "it requires pkg 1.1, but 1.0 is here",
    ),
    "extra of another version": (
        lambda w: w.host(
            requires=['amd-pkg-device-gfx942==1.1 ; extra == "device-gfx942"'], extras=["device-gfx942"]
        ),
        "kpack-extra",
        "but 1.0 is here",
    ),
    "extra that is not offered": (
        lambda w: w.host(extras=["device-gfx942"]),
        "kpack-extra",
        "no extra that it provides brings amd-pkg-device-gfx1100",
    ),
    "device wheel of no extra": (
        lambda w: w.host(
            requires=['amd-pkg-device-gfx942==1.0 ; extra == "device-gfx942"'], extras=["device-gfx942"]
        ),
        "kpack-extra",
        "brings it",
    ),
    "path of two wheels": (
        lambda w: w.device("gfx942", {"pkg/lib/libfat.so": b"again"}),
        "kpack-overlap",
        "holds pkg/lib/libfat.so too",
    ),
    "archive in a wheel of another target": (
        lambda w: w.device("gfx1100", {"pkg/.kpack/fat_gfx942.kpack": w.case.archive("gfx942").read_bytes()}),
        "kpack-foreign",
        "it serves gfx942 and is in the part for gfx1100",
    ),
    "database in the host": (
        lambda w: w.host({f"pkg/{DATABASE}": code("gfx942")}),
        "kpack-device-file",
        "it serves gfx942",
    ),
    "damaged archive": (
        lambda w: w.device("gfx942", {"pkg/.kpack/fat_gfx942.kpack": b"KPAK" + bytes(100)}),
        "kpack-archive",
        "format version 0",
    ),
}


@pytest.mark.parametrize("damage", WHEEL_DAMAGES)
def test_damages_of_wheels_are_found(wheels: Wheels, damage: str) -> None:
    change, rule, text = WHEEL_DAMAGES[damage]
    change(wheels)
    report = verify([wheels.folder])
    assert not report.passed
    assert any(text in f.cause for f in report.findings if f.rule == rule), report.findings


def test_a_device_wheel_that_is_not_there_is_noted(wheels: Wheels) -> None:
    next(wheels.folder.glob("*gfx90a*")).unlink()
    report = verify([wheels.folder])
    assert report.passed
    assert "kpack-extra-absent" in {note.rule for note in report.notes}


def test_a_compressed_archive_is_checked_all_the_same(wheels: Wheels) -> None:
    wheels.device("gfx942", deflate_archives=True)
    report = verify([wheels.folder], against=[wheels.fat])
    assert found(report) == {"kpack-deflated"}
    assert report.identical == OBJECTS


def test_wheels_in_the_layout_of_amds_tool(wheels: Wheels, tmp_path: Path) -> None:
    marker = Marker(("../.kpack/fat_@GFXARCH@.kpack",), KERNEL, build_of(wheels.case.host))
    in_reference_layout(wheels.case.fat, tmp_path / "host", marker)
    pack_wheel(wheels.folder, "pkg", {"pkg/lib/libfat.so": (tmp_path / "host").read_bytes()})
    report = verify([wheels.folder], against=[wheels.fat])
    assert report.findings == ()
    assert report.identical == OBJECTS


def test_every_rule_is_seen_to_be_broken() -> None:
    here = Path(__file__)
    beside = ("test_check_kpack.py", "test_check_kpack_strangers.py", "test_check_kpack_origins.py")
    text = here.read_text() + "".join(here.with_name(name).read_text() for name in beside)
    assert [rule for rule in RULES if f'"{rule}"' not in text] == []

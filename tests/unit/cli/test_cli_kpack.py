"""`rocwright kpack` at the command line: what it prints, its JSON twins, its exit codes."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from command_line import run_program
from oracle.fat_library import build_library, bundle, code_object
from oracle.kpack_reader import read_kpack
from unit.builder import fat_wheels

# Many processes, or many megabytes: `make slow` and CI run them.
pytestmark = pytest.mark.slow

CODE = {
    (0, "gfx90a:xnack-"): code_object(0x3F, b"a" * 3000, features=0x200),
    (0, "gfx942"): code_object(0x4C, b"b" * 2000),
    (1, "gfx942"): code_object(0x4C, b"c" * 1000),
}
FIGURES = {"gfx90a:xnack-": {"objects": 1, "bytes": 3064}, "gfx942": {"objects": 2, "bytes": 3128}}
OK, USAGE, INVALID, BROKEN = 0, 2, 3, 9


def kpack(*words: object, cwd: Path, code: int = OK) -> subprocess.CompletedProcess[str]:
    """Run a command and require its exit code; a traceback is never right."""
    done = run_program("kpack", *words, cwd=cwd)
    assert done.returncode == code, done.stderr
    return done


def as_json(*words: object, cwd: Path, code: int = OK) -> Any:
    return json.loads(kpack(*words, "--json", cwd=cwd, code=code).stdout)


@pytest.fixture(scope="module")
def fat(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library of two translation units, the second for gfx942 alone."""
    bundles = [
        bundle([(t, CODE[0, t]) for t in ("gfx90a:xnack-", "gfx942")]),
        bundle([("gfx942", CODE[1, "gfx942"])]),
    ]
    return build_library(tmp_path_factory.mktemp("fat"), bundles=bundles, name="libfat.so")


@pytest.fixture
def place(fat: Path, tmp_path: Path) -> Path:
    """A directory with a prefix `rocm` that holds the library."""
    lib = tmp_path / "rocm" / "lib"
    lib.mkdir(parents=True)
    shutil.copy(fat, lib)
    (tmp_path / "rocm" / "README").write_text("for all")
    return tmp_path


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`fat/` with a wheel, `split/` with what `kpack split` makes of it."""
    root = tmp_path_factory.mktemp("wheels")
    wheel = fat_wheels.write(root / "fat", fat_wheels.usual(fat_wheels.fat_bytes(root / "work")))
    kpack("split", wheel, "--output-dir", "split", cwd=root)
    return root


def damage(path: Path) -> Path:
    path.write_bytes(path.read_bytes()[:-4000])
    return path


# -- split -------------------------------------------------------------------------------------------------


def test_splitting_a_library(place: Path) -> None:
    done = kpack("split", "rocm/lib/libfat.so", "--output-dir", "out", cwd=place)
    assert "libfat.so" in done.stdout
    found: dict[tuple[str, int, str], bytes] = {}
    for archive in sorted((place / "out" / ".kpack").iterdir()):
        found |= read_kpack(archive).entries
    assert found == {("libfat.so", index, target): data for (index, target), data in CODE.items()}


def test_splitting_a_prefix_as_json(place: Path) -> None:
    (result,) = as_json("split", "rocm", "--output-dir", "out", cwd=place)
    assert result["input"] == "rocm"
    assert sorted(path.name for path in (place / "out").iterdir()) == ["generic", "gfx90a", "gfx942"]
    assert (place / "out" / "generic" / "README").read_text() == "for all"


def test_splitting_what_native_packages_install(place: Path, rocwright) -> None:
    """The ROCm lies below the prefix, in core-10.0; links lead to it."""
    prefix = place / "opt/rocm"
    prefix.mkdir(parents=True)
    (place / "rocm").rename(prefix / "core-10.0")
    (prefix / "core-10.0/.info").mkdir()
    (prefix / "core-10.0/.info/version").write_text("10.0.0\n")
    (prefix / "lib").symlink_to("core-10.0/lib")
    code, _, err = rocwright("kpack", "split", "opt/rocm", "--output-dir", "out")
    assert code == OK, err
    assert sorted(path.name for path in (place / "out").iterdir()) == ["generic", "gfx90a", "gfx942"]
    assert (place / "out/generic/README").read_text() == "for all"


def test_splitting_a_wheel(wheels: Path) -> None:
    names = sorted(path.name for path in (wheels / "split").glob("*.whl"))
    assert fat_wheels.FILENAME in names and any("device_gfx942" in name for name in names)


def test_splitting_a_prefix_for_some_targets(place: Path) -> None:
    kpack("split", "rocm", "--output-dir", "out", "--targets", "gfx942", cwd=place)
    assert sorted(path.name for path in (place / "out").iterdir()) == ["generic", "gfx942"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ([], "nothing given"),
        (["absent.so"], "absent.so does not exist"),
        (["rocm", "--level", "23"], "--level 23"),
        (["rocm", "--level", "0"], "--level 0"),
        (["rocm/lib/libfat.so", "--targets", "gfx942"], "--targets is for directories"),
        (["rocm", "rocm"], "several inputs are called rocm"),
        (["rocm/lib/libfat.so", "--output-dir", "rocm/lib"], "would be overwritten"),
    ],
)
def test_what_split_refuses(place: Path, words: list[str], says: str) -> None:
    before = (place / "rocm" / "lib" / "libfat.so").read_bytes()
    assert says in kpack("split", *words, cwd=place, code=USAGE).stderr
    assert not (place / "split").exists()
    assert (place / "rocm" / "lib" / "libfat.so").read_bytes() == before


def test_splitting_a_damaged_library(place: Path) -> None:
    damage(place / "rocm" / "lib" / "libfat.so")
    done = kpack("split", "rocm/lib/libfat.so", "--output-dir", "out", cwd=place, code=INVALID)
    assert "error (Invalid" in done.stderr and "libfat.so" in done.stderr
    assert not list((place / "out").rglob("*.so"))


# -- list --------------------------------------------------------------------------------------------------


def test_listing_a_prefix(place: Path) -> None:
    done = kpack("list", "rocm", cwd=place)
    expected = "rocm/lib/libfat.so: fat, 3 code objects, 6.2 kB, targets gfx90a:xnack- gfx942\n"
    assert (done.stdout, done.stderr) == (expected, "")


def test_listing_as_json_has_the_same_figures(place: Path) -> None:
    (found,) = as_json("list", "rocm", cwd=place)
    assert found == {
        "name": "rocm/lib/libfat.so",
        "path": "rocm/lib/libfat.so",
        "member": None,
        "kind": "fat",
        "size": (place / "rocm" / "lib" / "libfat.so").stat().st_size,
        "wrappers": 2,
        "targets": FIGURES,
        "marker": None,
        "archives": [],
        "remark": None,
    }


def test_listing_a_split(place: Path) -> None:
    kpack("split", "rocm", "--output-dir", "out", cwd=place)
    assert kpack("list", "out", cwd=place).stdout.splitlines() == [
        "out/generic/lib/libfat.so: split, 3 code objects, 6.2 kB, targets gfx90a:xnack- gfx942",
        "out/gfx90a/.kpack/rocm_gfx90a:xnack-.kpack: archive, 1 code objects, 3.1 kB, targets gfx90a:xnack-",
        "out/gfx942/.kpack/rocm_gfx942.kpack: archive, 2 code objects, 3.1 kB, targets gfx942",
    ]
    host = as_json("list", "out/generic/lib/libfat.so", cwd=place)[0]
    assert (host["kind"], host["targets"], len(host["archives"])) == ("split", FIGURES, 2)
    assert re.fullmatch("[0-9a-f]{32}", host["marker"].pop("build"))
    assert host["marker"] == {"search_paths": ["../.kpack/rocm_@GFXARCH@.kpack"], "kernel": "lib/libfat.so"}
    shutil.rmtree(place / "out" / "gfx942")
    shutil.rmtree(place / "out" / "gfx90a")
    assert (
        kpack("list", "out", cwd=place).stdout == "out/generic/lib/libfat.so: split, archives not beside it\n"
    )


def test_listing_wheels(wheels: Path) -> None:
    lines = kpack("list", "fat", cwd=wheels).stdout.splitlines()
    assert (
        f"fat/{fat_wheels.FILENAME}: torch/_C.so: fat, 2 code objects, 22.6 kB, targets gfx1100 gfx942"
        in lines
    )
    assert len(lines) == 2
    split = kpack("list", *sorted((wheels / "split").glob("*.whl")), cwd=wheels).stdout.splitlines()
    (host,) = (line for line in split if ": torch/_C.so: " in line)
    assert host.endswith(": torch/_C.so: split, 2 code objects, 22.6 kB, targets gfx1100 gfx942")
    assert sum(": archive, " in line for line in split) == 4


def test_listing_nothing(place: Path) -> None:
    done = kpack("list", "rocm/README", cwd=place)
    assert (done.stdout, done.stderr) == ("", "no device code\n")
    assert as_json("list", "rocm/README", cwd=place) == []


def test_listing_goes_on_after_damage(place: Path) -> None:
    lib = place / "rocm" / "lib"
    damage(Path(shutil.copy(lib / "libfat.so", lib / "liba.so")))
    (lib / "x.kpack").write_bytes(b"KPAK")
    done = kpack("list", "rocm", cwd=place, code=INVALID)
    assert done.stdout.startswith("rocm/lib/libfat.so: fat, 3 code objects")
    assert done.stderr.count("error (Invalid") == 2
    assert "error (InvalidElf): liba.so" in done.stderr and "error (InvalidArchive): x.kpack" in done.stderr
    assert [one["targets"] for one in as_json("list", "rocm", cwd=place, code=INVALID)] == [FIGURES]


@pytest.mark.parametrize("command", ["list", "show", "extract", "verify"])
def test_what_all_of_them_refuse(place: Path, command: str) -> None:
    assert "nothing given" in kpack(command, cwd=place, code=USAGE).stderr
    assert "absent does not exist" in kpack(command, "absent", cwd=place, code=USAGE).stderr


# -- show --------------------------------------------------------------------------------------------------


def test_showing_a_split_library(place: Path) -> None:
    kpack("split", "rocm/lib/libfat.so", "--output-dir", "out", cwd=place)
    lines = kpack("show", "out/libfat.so", cwd=place).stdout.splitlines()
    size = (place / "out" / "libfat.so").stat().st_size
    assert lines[0] == f"out/libfat.so: split, {size} bytes, 2 wrappers"
    assert lines[1:3] == ["name in archives: libfat.so", "search path: .kpack/libfat.so_@GFXARCH@.kpack"]
    assert lines[3].startswith("archive: ") and lines[3].endswith("/.kpack/libfat.so_gfx90a:xnack-.kpack")
    assert lines[5:7] == ["gfx90a:xnack-: 1 code objects, 3064 bytes", "gfx942: 2 code objects, 3128 bytes"]
    assert [line.rpartition(" bytes at ")[0] for line in lines[7:]] == [
        "  libfat.so#0 gfx90a:xnack- 3064",
        "  libfat.so#0 gfx942 2064",
        "  libfat.so#1 gfx942 1064",
    ]


def test_showing_as_json_has_every_code_object(place: Path) -> None:
    (found,) = as_json("show", "rocm/lib/libfat.so", cwd=place)
    codes = {(one["index"], one["target"]): one["size"] for one in found["code"]}
    assert codes == {key: len(data) for key, data in CODE.items()}
    assert {one["form"] for one in found["code"]} == {"raw"} and found["targets"] == FIGURES


def test_names_from_files_cannot_steer_a_terminal(place: Path) -> None:
    os.rename(place / "rocm", place / "ro\x1b[31m\ncm")  # noqa: PTH104 - odd name
    done = kpack("list", ".", cwd=place)
    assert done.stdout.startswith("ro\\x1b[31m\\ncm/lib/libfat.so: fat, ") and done.stdout.count("\n") == 1


def test_showing_damage(place: Path) -> None:
    damage(place / "rocm" / "lib" / "libfat.so")
    assert "libfat.so" in kpack("show", "rocm/lib/libfat.so", cwd=place, code=INVALID).stderr


# -- extract -----------------------------------------------------------------------------------------------


def test_extracting(place: Path) -> None:
    done = kpack("extract", "rocm/lib/libfat.so", "--output-dir", "out", cwd=place)
    assert done.stdout == "3 code objects in out\n"
    assert {path.name: path.read_bytes() for path in (place / "out").iterdir()} == {
        f"libfat.so#{index}-{target}.hsaco": data for (index, target), data in CODE.items()
    }


def test_extracting_as_json_says_what_is_where(place: Path) -> None:
    rows = as_json("extract", "rocm", "--targets", "gfx942", cwd=place)
    assert [(row["kernel"], row["index"], row["target"], row["size"]) for row in rows] == [
        ("lib/libfat.so", 0, "gfx942", 2064),
        ("lib/libfat.so", 1, "gfx942", 1064),
    ]
    assert [(place / row["path"]).read_bytes() for row in rows] == [CODE[0, "gfx942"], CODE[1, "gfx942"]]
    assert {row["source"] for row in rows} == {"rocm/lib/libfat.so"}


def test_extracting_from_a_set_of_wheels(wheels: Path, tmp_path: Path) -> None:
    for name in ("fat", "split"):
        done = kpack("extract", name, "--output-dir", tmp_path / name, cwd=wheels)
        assert done.stdout.startswith("7 code objects")
    first, second = (sorted(p.read_bytes() for p in (tmp_path / n).iterdir()) for n in ("fat", "split"))
    assert first == second


def test_extracting_a_host_wheel_alone(wheels: Path, tmp_path: Path) -> None:
    words = ("extract", wheels / "split" / fat_wheels.FILENAME, "--output-dir", tmp_path / "out")
    done = kpack(*words, cwd=wheels, code=INVALID)
    assert "error (InvalidInput)" in done.stderr and "its archives are not beside it" in done.stderr
    assert not (tmp_path / "out").exists()


def test_extracting_targets_that_are_not_there(place: Path) -> None:
    done = kpack("extract", "rocm", "--targets", "gfx1100", cwd=place)
    assert done.stdout == "0 code objects in code-objects\n" and "no code for gfx1100" in done.stderr
    assert "gfx" in kpack("extract", "rocm", "--targets", "g999", cwd=place, code=INVALID).stderr


def test_extracting_stops_at_damage(place: Path) -> None:
    damage(place / "rocm" / "lib" / "libfat.so")
    done = kpack("extract", "rocm", cwd=place, code=INVALID)
    assert "libfat.so" in done.stderr and not (place / "code-objects").exists()


# -- verify ------------------------------------------------------------------------------------------------


def test_verifying_a_split_prefix(place: Path) -> None:
    kpack("split", "rocm", "--output-dir", "out", cwd=place)
    done = kpack("verify", "out", "--against", "rocm", cwd=place)
    assert "1 split libraries, 2 archives, 3 code objects unpacked, 3 identical" in done.stdout
    report = as_json("verify", "out", "--against", "rocm", cwd=place)
    assert (len(report["libraries"]), len(report["archives"]), report["identical"]) == (1, 2, 3)


def test_verifying_finds_a_lost_archive(place: Path) -> None:
    kpack("split", "rocm/lib/libfat.so", "--output-dir", "out", cwd=place)
    (place / "out" / ".kpack" / "libfat.so_gfx942.kpack").unlink()
    words = ("verify", "out/libfat.so", "--against", "rocm/lib/libfat.so")
    done = kpack(*words, cwd=place, code=BROKEN)
    assert "kpack-lost" in done.stdout and "error (ContractBroken)" in done.stderr
    report = as_json(*words, cwd=place, code=BROKEN)
    assert "kpack-lost" in {finding["rule"] for finding in report["findings"]}


def test_verifying_a_damaged_archive_is_a_finding(place: Path) -> None:
    kpack("split", "rocm/lib/libfat.so", "--output-dir", "out", cwd=place)
    archive = place / "out" / ".kpack" / "libfat.so_gfx942.kpack"
    archive.write_bytes(archive.read_bytes()[:-10])
    assert "libfat.so_gfx942.kpack" in kpack("verify", "out", cwd=place, code=BROKEN).stdout


def test_verifying_what_was_never_split(place: Path) -> None:
    done = kpack("verify", "rocm/README", cwd=place, code=BROKEN)
    assert "there is no split library and no archive" in done.stdout
    assert "0 split libraries, 0 archives, 0 code objects" in done.stdout


def test_verifying_against_what_is_not_there(place: Path) -> None:
    kpack("split", "rocm", "--output-dir", "split", cwd=place)
    done = kpack("verify", "split", "--against", "gone", cwd=place, code=USAGE)
    assert "gone does not exist" in done.stderr


def test_originals_come_last(place: Path) -> None:
    kpack("split", "rocm/lib/libfat.so", "--output-dir", "out", cwd=place)
    done = kpack("verify", "--against", "rocm/lib/libfat.so", "out/libfat.so", cwd=place, code=USAGE)
    assert "before --against" in done.stderr


def test_verifying_against_something_damaged_is_a_finding(place: Path) -> None:
    kpack("split", "rocm", "--output-dir", "out", cwd=place)
    damage(place / "rocm" / "lib" / "libfat.so")
    assert "libfat.so" in kpack("verify", "out", "--against", "rocm", cwd=place, code=BROKEN).stdout

"""`rocwright kpack unsplit` as people type it: what it prints, its JSON twin, what it refuses."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from command_line import Run
from needs import needs
from oracle.fat_library import build_library, bundle, code_object
from oracle.fatbin_walk import walk
from trees import files

pytestmark = needs("gcc")

CODE = {
    "gfx90a:xnack-": code_object(0x3F, b"a" * 3000, features=0x200),
    "gfx942": code_object(0x4C, b"b" * 2000),
}
TARGETS = ["gfx90a:xnack-", "gfx942"]
OK, USAGE, INVALID = 0, 2, 3


@pytest.fixture
def split(rocwright: Run) -> Path:
    """`split/libfat.so` with its archives, in the directory in which commands are typed."""
    build_library(Path("in"), bundles=[bundle(CODE.items())] * 2)
    assert rocwright("kpack", "split", "in/libfat.so").code == OK
    return Path("split")


def targets(path: Path) -> list[str]:
    return [name.rpartition("--")[2] for wrapper in walk(path) for name in wrapper.device]


def test_a_library(split: Path, rocwright: Run) -> None:
    ended = rocwright("kpack", "unsplit", split / "libfat.so")
    assert ended.code == OK
    assert "targets gfx90a:xnack- gfx942, 4/4 code objects identical" in " ".join(ended.out.split())
    assert targets(Path("unsplit/libfat.so")) == TARGETS * 2
    assert rocwright("kpack", "list", "unsplit", "--json").json[0]["kind"] == "fat"


def test_as_json(split: Path, rocwright: Run) -> None:
    words = ("kpack", "unsplit", split / "libfat.so", "--targets", "gfx942", "--json")
    (one,) = rocwright(*words).json
    size = Path("unsplit/libfat.so").stat().st_size
    assert one == {
        "name": "split/libfat.so",
        "split_size": (split / "libfat.so").stat().st_size,
        "fat_size": size,
        "targets": ["gfx942"],
        "objects": 2,
        "identical": 2,
    }
    tree = rocwright("kpack", "unsplit", split, "--json").json
    assert tree["parts"]["fat"]["files"] == 1 and tree["orphans"] == []
    assert [row["name"] for row in tree["libraries"]] == ["libfat.so"]


def test_a_dry_run(split: Path, rocwright: Run) -> None:
    for given in (split / "libfat.so", split):
        ended = rocwright("kpack", "unsplit", given, "--dry-run")
        assert ended.code == OK and "not written" in ended.out
        assert not Path("unsplit").exists()


def test_a_directory(split: Path, rocwright: Run) -> None:
    ended = rocwright("kpack", "unsplit", split, "--output-dir", "out")
    assert ended.code == OK and ended.lines[-1].split()[-1] == "fat"
    assert files(Path("out")) == {"fat/libfat.so"}
    assert targets(Path("out/fat/libfat.so")) == TARGETS * 2


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], USAGE, "nothing given"),
        (["absent.so"], USAGE, "absent.so does not exist"),
        (["split/libfat.so", "split"], USAGE, "libraries, directories and wheels are given together"),
        (["split/libfat.so", "in/libfat.so"], USAGE, "several inputs are called libfat.so"),
        (["split/libfat.so", "--output-dir", "split"], USAGE, "would be overwritten"),
        (["split/libfat.so", "--targets", "gfx9999"], INVALID, "gfx9999 is not a known GPU target"),
        (["split/libfat.so", "--targets", "gfx950"], INVALID, "there are: gfx90a:xnack- gfx942"),
        (["in/libfat.so"], INVALID, "is not split"),
        (["in"], INVALID, "is not split"),
        (["alone/libfat.so"], INVALID, "its archives are not beside it"),
    ],
)
def test_what_is_refused(words: list[str], code: int, says: str, split: Path, rocwright: Run) -> None:
    Path("alone").mkdir()
    shutil.copy(split / "libfat.so", "alone")
    before = files(Path())
    ended = rocwright("kpack", "unsplit", *words)
    assert ended.code == code and says in " ".join(ended.err.split())
    assert "Traceback" not in ended.err and ended.out == ""
    assert files(Path()) == before

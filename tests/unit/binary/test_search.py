"""Which archives a marker leads to, on disk and among the paths of a tree."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.binary.view import Mapped, spooled, window
from rocwright.device_code.kpack import Marker
from rocwright.device_code.source import archives_among, archives_on_disk, installed_at
from rocwright.errors import InvalidInput

MARKER = Marker(("../.kpack/blas_@GFXARCH@.kpack",), "lib/libblas.so")
NAMES = (
    "blas_gfx942.kpack",
    "blas_gfx90a:xnack-.kpack",
    "blas_lib_gfx942.kpack",  # another group's
    "blas_gfx942.kpack.partial",
    "blas_.kpack",
    "rand_gfx942.kpack",
)
FITTING = ["blas_gfx90a:xnack-.kpack", "blas_gfx942.kpack"]


@pytest.fixture
def prefix(tmp_path: Path) -> Path:
    root = tmp_path / "a [b]*"  # characters that patterns take for their own
    (root / ".kpack").mkdir(parents=True)
    for name in NAMES:
        (root / ".kpack" / name).touch()
    (root / ".kpack" / "blas_gfx1100.kpack").mkdir()
    return root


def test_files_named_after_a_target_are_found_on_disk(prefix: Path) -> None:
    found = archives_on_disk(prefix / "lib" / "libblas.so", MARKER)
    assert found == [str(prefix / ".kpack" / name) for name in FITTING]


def test_the_same_ones_are_found_among_paths() -> None:
    paths = [f".kpack/{name}" for name in sorted(NAMES)]
    assert archives_among("lib/libblas.so", MARKER, paths) == [f".kpack/{name}" for name in FITTING]
    assert archives_among("libblas.so", MARKER, paths) == []


def test_a_path_without_a_placeholder_is_one_file(prefix: Path) -> None:
    marker = Marker(("../.kpack/rand_gfx942.kpack", "../.kpack/absent.kpack"), "k")
    assert archives_on_disk(prefix / "lib" / "x.so", marker) == [str(prefix / ".kpack" / "rand_gfx942.kpack")]
    assert archives_among("lib/x.so", marker, [".kpack/rand_gfx942.kpack", ".kpack/blas_gfx942.kpack"]) == [
        ".kpack/rand_gfx942.kpack"
    ]


def test_each_archive_once_in_the_order_of_the_search_paths(prefix: Path) -> None:
    marker = Marker(("../.kpack/rand_@GFXARCH@.kpack", *MARKER.search_paths, *MARKER.search_paths), "k")
    names = [Path(path).name for path in archives_on_disk(prefix / "lib" / "x.so", marker)]
    assert names == ["rand_gfx942.kpack", *FITTING]


def test_a_nul_in_a_search_path_leads_nowhere(prefix: Path) -> None:
    marker = Marker(("../.kpack/blas\0_@GFXARCH@.kpack", "..\0"), "k")
    assert archives_on_disk(prefix / "lib" / "x.so", marker) == []


def test_an_absolute_search_path_stays_itself() -> None:
    assert installed_at("/opt/lib/x.so", "/srv/.kpack/a.kpack") == "/srv/.kpack/a.kpack"


def test_a_window_ends_where_its_range_does() -> None:
    whole = Mapped(Path("w.whl"), b"0123456789")
    inside = window(whole, Path("w.whl/m"), 3, 4)
    assert (inside.size, inside.read_at(0, 100), inside.read_at(2, 1)) == (4, b"3456", b"5")
    assert (inside.read_at(4, 1), inside.read_at(-2, 1), bytes(inside.slice(1, 2))) == (b"", b"3", b"45")


def test_a_window_behind_its_file_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"m ends behind w\.whl"):
        window(Mapped(Path("w.whl"), b"0123456789"), Path("w.whl/m"), 7, 4)


def test_pieces_become_a_file_that_leaves_nothing_behind(tmp_path: Path) -> None:
    file = spooled(Path("name"), [b"ab", b"", b"cd"], tmp_path)
    assert (file.path, file.size, file.read_at(1, 2)) == (Path("name"), 4, b"bc")
    assert list(tmp_path.iterdir()) == []
    assert spooled(Path("empty"), []).size == 0

"""Libraries that real linkers made are split, and second readers say that nothing was lost or changed."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import combinations, product
from pathlib import Path

import pytest

from needs import needs, needs_lld
from oracle import loader, splitting
from oracle.fat_library import build_library, bundle, ccob, code_object
from oracle.kpack_reader import read_kpack
from oracle.splitting import SEARCH, Split
from rocwright.binary.view import mapped
from rocwright.device_code.archives import store
from rocwright.device_code.kpack import Marker
from rocwright.device_code.split import Kept, plan_library

pytestmark = needs("gcc", "objcopy", "readelf", "strip")

GFX942, GFX90A, GFX1100 = 0x4C, 0x3F, 0x41
NO_ROOM = Kept("its program header table has no room for one more segment")


def code(number: int, mach: int = GFX942, size: int = 3000) -> bytes:
    """A code object that no other number gives."""
    noise = random.Random(number).randbytes(64)
    return code_object(mach, (noise * (size // 64 + 1))[: size + 7 * number])


def three(number: int) -> bytes:
    """A bundle for three targets, of about 20 KB."""
    mine = [("gfx942", code(number)), ("gfx90a:xnack-", code(number + 50, GFX90A))]
    return bundle([*mine, ("gfx1100", code(number + 90, GFX1100))])


# -- the matrix --------------------------------------------------------------------------------------------

FORMS = ("raw", "1 zlib", "1 zstd", "2 zstd", "3 zstd", "3 zlib")
SHAPES = ("one", "three", "smaller than a page", "many in a page", "ends with a page")
PLACES = ("read-only", "writable", "executable", "own segment")


@dataclass(frozen=True)
class Case:
    """One way of linking a fat library."""

    linker: str
    kind: str
    tail: bool
    relr: bool
    relro: bool
    page: int
    form: str
    shape: str
    place: str

    def __str__(self) -> str:
        words = [self.linker, self.kind, "tail" if self.tail else "last", "relr" if self.relr else "rela"]
        words += ["relro" if self.relro else "norelro", f"{self.page >> 10}K", self.form, self.shape]
        return "-".join([*words, self.place]).replace(" ", "_")


AXES: dict[str, tuple[object, ...]] = {
    "linker": ("bfd", "lld"),
    "kind": ("so", "pie", "exec"),
    "tail": (True, False),
    "relr": (False, True),
    "relro": (True, False),
    "page": (4 << 10, 16 << 10, 64 << 10, 2 << 20),
    "form": FORMS,
    "shape": SHAPES,
    "place": PLACES,
}


def every_pair(seed: int = 3) -> Iterator[Case]:
    """Cases in which every two values of different axes meet; the same ones in every run."""
    rows = random.Random(seed)
    names = list(AXES)
    open_pairs = {
        ((a, x), (b, y)) for a, b in combinations(names, 2) for x in AXES[a] for y in AXES[b]
    }  # fmt: skip
    while open_pairs:
        best: tuple[int, dict[str, object]] = (0, {})
        for _ in range(60):
            row = {name: rows.choice(values) for name, values in AXES.items()}
            row |= dict(rows.choice(sorted(open_pairs, key=repr)))
            best = max(best, (len(_pairs(row) & open_pairs), row), key=lambda item: item[0])
        open_pairs -= _pairs(best[1])
        yield Case(**best[1])


def _pairs(row: dict[str, object]) -> set[object]:
    return set(combinations(row.items(), 2))


def layouts() -> Iterator[Case]:
    """All ways to lay a library out, for a run by hand: ROCWRIGHT_TEST_SPLIT=all."""
    names = [name for name in AXES if name not in ("form", "shape")]
    for values in product(*(AXES[name] for name in names)):
        yield Case(**dict(zip(names, values, strict=True)), form="raw", shape="three")


def matrix() -> list[object]:
    cases = layouts() if os.environ.get("ROCWRIGHT_TEST_SPLIT") == "all" else every_pair()
    return [
        pytest.param(case, id=str(case), marks=needs_lld if case.linker == "lld" else ()) for case in cases
    ]


def contents(case: Case) -> dict[str, object]:
    """Bundles and their alignment, as `build_library` takes them."""
    count = 1 if case.shape == "one" else 3
    if case.shape in ("smaller than a page", "many in a page"):
        raw = [bundle([("gfx942", code(i, size=1200))], align=256) for i in range(count)]
    else:
        raw = [three(i) for i in range(count)]
    if case.form != "raw":
        version, method = case.form.split()
        raw = [ccob(item, int(version), method) for item in raw]
    made: dict[str, object] = {"bundles": raw}
    if case.shape == "many in a page":
        made["bundle_align"] = 16
    if case.shape == "ends with a page":
        made["suffix"] = bytes(4096)
        made["bundles"] = [item.ljust(-(-len(item) // 4096) * 4096, b"\0") for item in raw]
    return made


def build(case: Case, directory: Path) -> Path:
    flags = {"read-only": "a", "writable": "aw", "executable": "ax", "own segment": "a"}[case.place]
    return build_library(
        directory,
        **contents(case),
        linker=case.linker,
        kind=case.kind,
        with_tail=case.tail,
        relr=case.relr,
        relro=case.relro,
        max_page_size=case.page,
        fatbin_flags=flags,
        ldflags=["-Wl,--section-start=.hip_fatbin=0x4000000"] if case.place == "own segment" else [],
    )


def may_lack_room(case: Case) -> bool:
    """Where no program header is dispensable: bfd's libraries have no PT_PHDR, lld's programs need theirs."""
    needed = case.tail or case.place != "read-only"
    return needed and (case.kind == "so") == (case.linker == "bfd")


@pytest.mark.parametrize("case", matrix())
def test_a_linked_file_is_split_whole_or_kept_whole(case: Case, tmp_path: Path) -> None:
    library = build(case, tmp_path / "in")
    assert splitting.runs(library) == "", "the test's own library must work"
    done = splitting.split(library, tmp_path / "out")
    if may_lack_room(case) and done == NO_ROOM:
        assert not (tmp_path / "out").exists()
        return
    assert isinstance(done, Split), done
    assert splitting.findings(done) == []
    assert splitting.runs(done.host) == ""
    assert splitting.loads(done, "gfx90a:sramecc+:xnack-,gfx942", tmp_path) == []


def test_the_matrix_meets_every_pair() -> None:
    met = {
        pair
        for case in every_pair()
        for pair in _pairs({f.name: getattr(case, f.name) for f in fields(case)})
    }
    assert len(met) == sum(len(AXES[a]) * len(AXES[b]) for a, b in combinations(AXES, 2))


# -- names of the split file -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Split:
    """A library of three bundles, split."""
    root = tmp_path_factory.mktemp("done")
    library = build_library(root / "in", bundles=[three(i) for i in range(3)])
    found = splitting.split(library, root / "out")
    assert isinstance(found, Split)
    return found


def test_code_is_found_through_hard_links_and_symlinks(done: Split, tmp_path: Path) -> None:
    hard, soft = done.host.with_name("libhard.so"), done.host.with_name("libsoft.so")
    hard.hardlink_to(done.host)
    soft.symlink_to(done.host.name)
    for path in (hard, soft):
        assert splitting.loads(done, "gfx942:sramecc+:xnack-", tmp_path, path=path) == []
    far = tmp_path / "elsewhere" / "libfar.so"
    far.parent.mkdir()
    far.symlink_to(done.host)
    assert splitting.loads(done, "gfx1100", tmp_path, path=far) == []


def test_it_says_where_it_is_and_what_it_holds(done: Split) -> None:
    assert sorted(done.archives) == ["gfx1100", "gfx90a:xnack-", "gfx942"]
    assert done.stored.objects == {"gfx942": 3, "gfx90a:xnack-": 3, "gfx1100": 3}
    assert done.stored.identical == 9
    for target, path in done.archives.items():
        archive = read_kpack(path)
        assert done.stored.unpacked[target] == sum(map(len, archive.entries.values()))
        assert done.stored.packed[target] == path.stat().st_size
        ids = {row["target"] for row in archive.metadata.values()}
        assert ids == {f"hipv4-amdgcn-amd-amdhsa--{target}"}


def test_a_second_split_is_a_no_op(done: Split, tmp_path: Path) -> None:
    assert splitting.split(done.host, tmp_path / "again") == Kept("it is already split", already=True)
    assert not (tmp_path / "again").exists()


def test_a_stripped_split_library_is_known_by_its_wrappers(done: Split, tmp_path: Path) -> None:
    """Some tools drop the section headers; then neither code nor marker is to be seen."""
    data = bytearray(done.host.read_bytes())
    data[40:48] = bytes(8)  # e_shoff
    data[60:64] = bytes(4)  # e_shnum, e_shstrndx
    bare = tmp_path / "libbare.so"
    bare.write_bytes(data)
    assert splitting.split(bare, tmp_path / "out") is None
    fat = bytearray(done.original.read_bytes())
    fat[40:48], fat[60:64] = bytes(8), bytes(4)
    bare.write_bytes(fat)
    assert splitting.split(bare, tmp_path / "out") == Kept(
        "it has device code, but no section headers that say where"
    )


# -- determinism -------------------------------------------------------------------------------------------


def digests(files: list[Path]) -> list[str]:
    return [hashlib.sha256(file.read_bytes()).hexdigest() for file in sorted(files)]


def test_bytes_do_not_depend_on_threads(done: Split, tmp_path: Path) -> None:
    wanted = digests([done.host, *done.archives.values()])
    for threads in (1, 8):
        again = splitting.split(done.original, tmp_path / str(threads), threads=threads)
        assert isinstance(again, Split)
        assert digests([again.host, *again.archives.values()]) == wanted


def test_every_level_gives_the_same_code(done: Split, tmp_path: Path) -> None:
    sizes = []
    for level in (1, 9, 19):
        again = splitting.split(done.original, tmp_path / str(level), level=level)
        assert isinstance(again, Split) and splitting.archive_findings(again) == []
        sizes.append(sum(path.stat().st_size for path in again.archives.values()))
    assert sizes[0] >= sizes[2]


def test_libraries_of_one_group_share_the_archives(tmp_path: Path) -> None:
    first = build_library(tmp_path, bundles=[three(0)], name="liba.so", with_tail=False)
    second = build_library(tmp_path, bundles=[three(1), three(2)], name="libb.so", with_tail=False)
    paths = {}
    with mapped(first) as a, mapped(second) as b:
        plans = [plan_library(file, Marker((SEARCH,), file.path.name)) for file in (a, b)]

        def path_of(target: str) -> Path:
            return paths.setdefault(target, tmp_path / "out" / f"{len(paths)}.kpack")

        stored = store((plan for plan in plans), path_of, "both")
    assert stored.objects == {"gfx942": 3, "gfx90a:xnack-": 3, "gfx1100": 3}
    entries = read_kpack(paths["gfx942"]).entries
    assert entries == {
        ("liba.so", 0, "gfx942"): code(0),
        ("libb.so", 0, "gfx942"): code(1),
        ("libb.so", 1, "gfx942"): code(2),
    }


def test_the_stand_in_runtime_would_notice_missing_code(done: Split, tmp_path: Path) -> None:
    """The checks above are worth something: they fail once an archive is gone."""
    copy = tmp_path / "copy"
    shutil.copytree(done.host.parent.parent, copy)
    (copy / ".kpack" / "fat_gfx942.kpack").unlink()
    found = loader.load(copy / "lib" / done.host.name, isa="gfx942", workdir=tmp_path)
    assert [bool(row.reason) for row in found] == [True] * 3

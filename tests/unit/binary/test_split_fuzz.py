"""Whatever bytes are changed in a fat library: a named error, a reason to keep it, or a right split.

ROCWRIGHT_TEST_FUZZ=N tries N examples of each kind (some thousands take minutes).
"""

from __future__ import annotations

import os
import shutil
import signal
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from elftools.common.exceptions import ELFError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from needs import find_lld, needs
from oracle import splitting
from oracle.elf_image import read_image
from oracle.fat_library import build_library, bundle, ccob, code_object
from oracle.splitting import Split
from rocwright.device_code.split import Kept
from rocwright.errors import RocwrightError

pytestmark = needs("gcc", "objcopy", "readelf", "strip")

EXAMPLES = int(os.environ.get("ROCWRIGHT_TEST_FUZZ", "400"))
SECONDS = 5  # for one file of 100 KB; a second is far more than it takes
MEMORY = 300 << 20
LINKER = "lld" if find_lld() else "bfd"


@dataclass(frozen=True)
class Seed:
    """A good library: its bytes, ranges (offset, size) by what they hold, and numbers that occur in it."""

    data: bytes
    tables: tuple[tuple[int, int], ...]
    contents: tuple[tuple[int, int], ...]
    numbers: tuple[int, ...]


def raw(number: int) -> bytes:
    size = 900 * (number + 1)
    codes = [code_object(0x4C, bytes([number]) * size), code_object(0x3F, bytes([number + 9]) * 700)]
    return bundle([("gfx942", codes[0]), ("gfx90a:xnack-", codes[1])], align=4096 if number % 2 else 256)


def libraries() -> list[dict[str, Any]]:
    """Every form of bundle, pointer and room for a header."""
    three = [raw(number) for number in range(3)]
    mixed = [ccob(three[0], 1), ccob(three[1], 2), ccob(three[2], 3), ccob(three[0], 1, "zlib"), three[1]]
    return [
        {"bundles": three, "linker": "bfd", "with_tail": False},
        {"bundles": three, "linker": LINKER},
        {"bundles": mixed, "linker": LINKER, "relr": True},
        {"bundles": mixed, "linker": LINKER, "kind": "exec"},
        {"bundles": three, "linker": "bfd", "kind": "pie", "wrappers": [2, 0, 1, 0]},
    ]


COUNT = len(libraries())


class Seeds:
    """The seeds by number; a class of its own, so that no report prints their bytes."""

    def __init__(self, seeds: list[Seed]) -> None:
        self.seeds = seeds

    def __getitem__(self, number: int) -> Seed:
        return self.seeds[number]


@pytest.fixture(scope="module")
def seeds(tmp_path_factory: pytest.TempPathFactory) -> Seeds:
    """The good libraries; each splits without a finding."""
    root, made = tmp_path_factory.mktemp("seeds"), []
    for number, how in enumerate(libraries()):
        library = build_library(root / str(number), **how)
        done = splitting.split(library, root / f"out-{number}")
        assert isinstance(done, Split) and splitting.findings(done) == []
        made.append(seed_of(library))
    return Seeds(made)


def seed_of(library: Path) -> Seed:
    image = read_image(library)
    places = {section.name: (section.offset, section.size) for section in image.sections}
    start, size = places[".hip_fatbin"]
    data = library.read_bytes()
    starts = [at for at in range(start, start + size) if data.startswith((b"__CLANG", b"CCOB"), at)]
    contents = [(at, min(250, start + size - at)) for at in starts] + [places[".hip_fatbin"]]
    contents += 3 * [
        places[name] for name in (".hipFatBinSegment", ".rela.dyn", ".relr.dyn") if name in places
    ]
    tables = [(0, 64), (image.phoff, 56 * len(image.segments)), (image.shoff, 64 * len(image.sections))]
    tables += [
        places[name] for name in (".dynamic", ".dynsym", ".gnu.version_r", ".shstrtab") if name in places
    ]
    for name in (".hip_fatbin", ".hipFatBinSegment", ".shstrtab"):
        number = [section.name for section in image.sections].index(name)
        tables.append((image.shoff + 64 * number, 64))
    numbers = {n for s in image.sections for n in (s.addr, s.offset, s.size)} | {len(data)}
    return Seed(data, tuple(tables), tuple(contents), tuple(sorted(numbers)))


# Which range, where in it, how many bytes, which kind of number, and a number to choose or to use.
CHANGES = st.lists(
    st.tuples(
        st.integers(0, 99),
        st.integers(0, 1 << 20),
        st.sampled_from([8, 8, 4, 2, 1]),
        st.integers(0, 4),
        st.integers(0, (1 << 64) - 1),
    ),
    min_size=1,
    max_size=3,
)
EDGES = [0, 1, 2, 0xFF, 0xFFFF, 1 << 31, (1 << 32) - 1, 1 << 62, 1 << 63, (1 << 64) - 1, 24 << 40]
STEPS = [1, -1, 8, 24, 4096, -4096]


def damaged(
    seed: Seed, places: tuple[tuple[int, int], ...], changes: list[tuple[int, int, int, int, int]]
) -> bytes:
    """The seed's bytes with numbers written over it at which readers stumble."""
    data = bytearray(seed.data)
    for where, step, width, kind, number in changes:
        start, size = places[where % len(places)]
        at = start + step % size // width * width
        old = int.from_bytes(data[at : at + width], "little")
        value = (
            EDGES[number % len(EDGES)],
            old + STEPS[number % len(STEPS)],
            seed.numbers[number % len(seed.numbers)],
            number,
            old ^ 1 << number % 64,
        )[kind]
        data[at : at + width] = (value % (1 << 8 * width)).to_bytes(width, "little")
    return bytes(data[: len(seed.data)])


class Hangs(BaseException):
    """A split that does not end; no `except Exception` may swallow it."""


@contextmanager
def in_time() -> Iterator[None]:
    def stop(signum: int, frame: FrameType | None) -> None:
        raise Hangs

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def try_to_split(data: bytes, root: Path) -> Split | None:
    """The split, or None where the file was refused or kept; then nothing may have been written."""
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir()
    (file := root / "libbad.so").write_bytes(data)
    file.chmod(0o755)
    before = peak()
    done: Split | Kept | None = None
    try:
        with in_time():
            done = splitting.split(file, root / "out")
    except RocwrightError as error:
        assert "libbad.so" in str(error)
    assert peak() - before < MEMORY
    if isinstance(done, Split):
        return done
    assert not [path for path in (root / "out").rglob("*") if path.is_file()]
    return None


FUZZ = settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="ROCWRIGHT_TEST_FUZZ" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@FUZZ
@given(number=st.integers(0, COUNT - 1), changes=CHANGES)
@pytest.mark.slow
def test_damaged_code_wrappers_and_relocations(
    seeds: Seeds, tmp_path: Path, number: int, changes: Any
) -> None:
    """What is split at all is right to the last byte."""
    seed = seeds[number]
    done = try_to_split(damaged(seed, seed.contents, changes), tmp_path / "work")
    if done is not None:
        assert splitting.new_findings(done) == []


@FUZZ
@given(number=st.integers(0, COUNT - 1), changes=CHANGES)
@pytest.mark.slow
def test_damaged_tables(seeds: Seeds, tmp_path: Path, number: int, changes: Any) -> None:
    """A file that was broken before cannot become right; but no code is lost or mixed up."""
    seed = seeds[number]
    done = try_to_split(damaged(seed, seed.tables, changes), tmp_path / "work")
    if done is not None:
        assert splitting.host_is_known(done)
        assert second_reader(done) == []


@FUZZ
@given(number=st.integers(0, COUNT - 1), part=st.floats(0, 1, exclude_max=True))
def test_cut_files(seeds: Seeds, tmp_path: Path, number: int, part: float) -> None:
    """A file without its end is never split."""
    data = seeds[number].data
    assert try_to_split(data[: int(part * len(data))], tmp_path / "work") is None


def second_reader(done: Split) -> list[str]:
    """The archives against the bundles, where the second reader finds its way through the tables at all."""
    try:
        return splitting.archive_findings(done)
    except (ValueError, KeyError, struct.error, ELFError):
        return []

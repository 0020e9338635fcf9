"""A split that is stopped or has no room leaves no archive; its memory does not grow with the library."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pytest

from needs import needs
from oracle.fat_library import build_library, bundle, ccob, code_object
from rocwright.binary.view import Mapped, mapped
from rocwright.device_code.archives import store
from rocwright.device_code.kpack import Marker
from rocwright.device_code.split import LibraryPlan, plan_library

pytestmark = needs("gcc", "objcopy", "readelf", "strip")

# Splits argv[1] into argv[2].
SPLIT = """
import resource, sys
from pathlib import Path
from rocwright.device_code.kpack import Marker
from rocwright.device_code.archives import store
from rocwright.device_code.split import plan_library
from rocwright.binary.view import mapped
from rocwright.errors import RocwrightError

library, out = Path(sys.argv[1]), Path(sys.argv[2])
if len(sys.argv) > 3:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]),) * 2)
with mapped(library) as file:
    plan = plan_library(file, Marker(("x_@GFXARCH@.kpack",), "k"))
    print("planned", flush=True)
    try:
        store([plan], lambda target: out / f"x_{target}.kpack", "x", level=int(LEVEL))
    except RocwrightError as error:
        sys.exit(f"{type(error).__name__}: {error}")
"""


def start(library: Path, out: Path, *limit: int, level: int = 3) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", SPLIT.replace("LEVEL", str(level)), library, out, *limit]
    return subprocess.Popen(
        [str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def noise(number: int, size: int) -> bytes:
    """Code that compresses about as real code does, to a quarter."""
    return code_object(0x4C, random.Random(number).randbytes(size // 4) * 4)


@pytest.fixture(scope="module")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A library whose split at a high level takes seconds."""
    bundles = [bundle([("gfx942", noise(n, 2 << 20)), ("gfx1100", noise(n + 50, 2 << 20))]) for n in range(6)]
    return build_library(tmp_path_factory.mktemp("slow"), bundles=bundles, with_tail=False)


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGKILL])
def test_a_stopped_split_leaves_no_archive(slow: Path, tmp_path: Path, sent: signal.Signals) -> None:
    process = start(slow, tmp_path / "out", level=19)
    assert process.stdout is not None and process.stdout.readline() == "planned\n"
    deadline = time.monotonic() + 60
    # At work on them: a file that is just being made may stay, empty and marked as partial.
    while not any(path.stat().st_size for path in tmp_path.rglob("x_*")) and time.monotonic() < deadline:
        assert process.poll() is None, "it was done before it could be stopped"
        time.sleep(0.01)
    process.send_signal(sent)
    process.communicate(timeout=120)
    assert process.returncode != 0, "it was done before it could be stopped"
    left = [path.name for path in tmp_path.rglob("*") if path.is_file()]
    assert not [name for name in left if name.endswith(".kpack")]
    if sent == signal.SIGINT:
        assert left == []


def test_no_room_for_the_archives(slow: Path, tmp_path: Path) -> None:
    process = start(slow, tmp_path / "out", 3 << 20)
    _, text = process.communicate(timeout=120)
    assert process.returncode == 1 and "x_gfx" in text, text
    assert text.startswith(("NoSpace", "RocwrightError", "InvalidInput")), text
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


@pytest.mark.parametrize("form", ["raw", "ccob"])
@pytest.mark.slow
def test_memory_does_not_grow_with_the_library(tmp_path: Path, form: str) -> None:
    """At most the largest unpacked bundle and 64 MB for everything else, however many there are."""
    bundles = [
        bundle([(f"gfx90{digit}", noise(10 * n + digit, 5 << 20)) for digit in range(6)]) for n in range(4)
    ]
    largest = max(map(len, bundles)) if form == "ccob" else 0
    stored = [ccob(item, 3) for item in bundles] if form == "ccob" else bundles
    library = build_library(tmp_path, bundles=stored, with_tail=False)
    del bundles, stored
    tracemalloc.start()
    try:
        with mapped(library) as file:
            plan = plan_library(file, Marker(("a",), "k"))
            assert isinstance(plan, LibraryPlan)
            store([plan], lambda target: tmp_path / f"{target}.kpack", "g")
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < largest + (64 << 20)


class Counting(Mapped):
    """A file that counts the bytes read from it."""

    copied = 0

    def read_at(self, offset: int, length: int) -> bytes:
        data = super().read_at(offset, length)
        Counting.copied += len(data)
        return data


@pytest.fixture
def count() -> Iterator[type[Counting]]:
    Counting.copied = 0
    yield Counting


@pytest.mark.parametrize("form", ["raw", "ccob"])
def test_planning_costs_the_same_for_each_bundle(tmp_path: Path, form: str, count: type[Counting]) -> None:
    """A thousand more bundles cost what the first thousand did."""
    costs = []
    for many in (1000, 2000):
        item = bundle([("gfx942", code_object(0x4C, bytes(3000)))], align=256)
        bundles = [ccob(item) if form == "ccob" else item] * many
        library = build_library(tmp_path / str(many), bundles=bundles, bundle_align=256, with_tail=False)
        count.copied = 0
        with mapped(library) as file:
            plan = plan_library(count(file.path, file.data), Marker(("a",), "k"))
        assert isinstance(plan, LibraryPlan) and plan.objects == many
        costs.append(count.copied)
    assert costs[1] < 2.2 * costs[0]
    assert len(plan.host.patch.edits) < 3 * 2000

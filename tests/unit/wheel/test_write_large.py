"""How members of all sizes are packed: in one go, in blocks, stored; in bounded memory, by any compressor."""

from __future__ import annotations

import hashlib
import os
import random
import subprocess
import sys
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path

import pytest

from rocwright.errors import InvalidInput, UsageError
from rocwright.wheel.metadata import Metadata
from rocwright.wheel.source import Buffers, Source, read_into
from rocwright.wheel.write import BytesSource, FileSource, Member, WheelPlan, write_wheel

pytestmark = pytest.mark.slow

MB = 1_000_000
PATTERN = random.Random(3).randbytes(700) + b"\0" * 3_300
TEXT = b"".join(b"%d words that a compressor finds again\n" % (i * i) for i in range(40_000))


@dataclass(frozen=True)
class Repeated:
    """`PATTERN` over and over; remembers the largest read."""

    size: int
    reads: list[int]

    def read_at(self, offset: int, length: int) -> bytes:
        length = min(length, self.size - offset)
        self.reads.append(length)
        skip = offset % len(PATTERN)
        return (PATTERN * (length // len(PATTERN) + 2))[skip : skip + length]


def plan(*members: Member) -> WheelPlan:
    return WheelPlan("demo", "1", Metadata("demo", "1"), members)


def packed_bytes(wheel: Path, name: str) -> bytes:
    """A member as it lies in the archive."""
    with zipfile.ZipFile(wheel) as archive, wheel.open("rb") as stream:
        info = archive.getinfo(name)
        stream.seek(info.header_offset + 26)
        sizes = stream.read(4)
        stream.seek(int.from_bytes(sizes[:2], "little") + int.from_bytes(sizes[2:], "little"), 1)
        return stream.read(info.compress_size)


def test_a_member_above_64_mib_is_packed_in_blocks_that_are_one_stream(tmp_path: Path) -> None:
    source = Repeated(70 * MB, [])
    members = (Member("demo/large", source), Member("demo/text", BytesSource(TEXT)))
    written = {
        threads: write_wheel(plan(*members), tmp_path / str(threads), threads=threads) for threads in (1, 3)
    }
    assert written[1].sha256 == written[3].sha256
    assert max(source.reads) == 4 << 20
    path = written[3].path
    assert written[3].sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    whole = source.read_at(0, source.size)
    unpacker = zlib.decompressobj(-15)
    assert unpacker.decompress(packed_bytes(path, "demo/large")) == whole
    assert unpacker.eof and not unpacker.unused_data
    with zipfile.ZipFile(path) as archive:
        assert archive.getinfo("demo/large").compress_type == zipfile.ZIP_DEFLATED
        assert archive.testzip() is None
        assert archive.read("demo/large") == whole


@pytest.mark.parametrize("compress", [True, False])
def test_large_members_that_do_not_compress_are_stored(tmp_path: Path, compress: bool) -> None:
    noise = random.Random(4).randbytes(70 * MB)
    written = write_wheel(plan(Member("demo/noise", BytesSource(noise), compress=compress)), tmp_path)
    with zipfile.ZipFile(written.path) as archive:
        info = archive.getinfo("demo/noise")
        assert (info.compress_type, info.compress_size) == (zipfile.ZIP_STORED, len(noise))
        assert archive.read(info) == noise
    assert written.sha256 == hashlib.sha256(written.path.read_bytes()).hexdigest()


def test_each_named_compression(tmp_path: Path) -> None:
    large = Repeated(65 << 20, [])
    sizes = []
    for name in ("fast", "balanced", "small", "none"):
        path = write_wheel(
            plan(Member("demo/text", BytesSource(TEXT)), Member("demo/large", large)),
            tmp_path / name,
            compression=name,
        ).path
        with zipfile.ZipFile(path) as archive:
            assert archive.read("demo/text") == TEXT
            methods = {info.compress_type for info in archive.infolist()}
            sizes.append(archive.getinfo("demo/text").compress_size)
        assert methods == {zipfile.ZIP_STORED} if name == "none" else zipfile.ZIP_DEFLATED in methods
    assert sizes[0] > sizes[1] > sizes[2] and sizes[3] == len(TEXT)


def test_an_unknown_compression_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'best' is not a compression") as caught:
        write_wheel(plan(), tmp_path, compression="best")
    assert "fast, balanced, small, none" in str(caught.value.next_step)
    assert list(tmp_path.iterdir()) == []


FALLBACK = """
import sys
for name in sys.argv[2:]:
    sys.modules[name] = None
from pathlib import Path
from rocwright.wheel.metadata import Metadata
from rocwright.wheel.write import BytesSource, Member, WheelPlan, write_wheel
text = b"".join(b"%d words\\n" % i for i in range(800_000))  # 12 MB, three blocks
members = (Member("demo/text", BytesSource(text)), Member("demo/empty", BytesSource(b"")))
written = {
    write_wheel(WheelPlan("demo", "1", Metadata("demo", "1"), members), Path(sys.argv[1]) / str(t), threads=t)
    .sha256 for t in (1, 3)
}
assert len(written) == 1
from rocwright.wheel.deflate import COMPRESSOR
print(COMPRESSOR)
"""


@pytest.mark.parametrize(
    ("missing", "compressor"),
    [
        ((), "libdeflate (deflate "),
        (("deflate",), "zlib-ng (zlib-ng "),
        (("zlib_ng",), "libdeflate (deflate "),
        (("deflate", "zlib_ng"), f"zlib {zlib.ZLIB_RUNTIME_VERSION}"),
    ],
)
def test_without_the_fast_compressors_others_serve(
    tmp_path: Path, missing: tuple[str, ...], compressor: str
) -> None:
    command = [sys.executable, "-c", FALLBACK, str(tmp_path), *missing]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(compressor)
    assert ("zlib-ng" in done.stdout) == ("zlib_ng" not in missing)
    with zipfile.ZipFile(tmp_path / "1" / "demo-1-py3-none-linux_x86_64.whl") as archive:
        assert archive.testzip() is None
        assert archive.read("demo/text").splitlines()[799_999] == b"799999 words"
        assert archive.getinfo("demo/text").compress_size < archive.getinfo("demo/text").file_size / 3


class Truncated(FileSource):
    """A file that lost its end after its size was asked for."""

    @property
    def size(self) -> int:
        return super().size + 10


@dataclass(frozen=True)
class Short:
    """As `Truncated`, for sources that only know `read_at`."""

    size: int

    def read_at(self, offset: int, length: int) -> bytes:
        return b"x" * max(0, min(length, self.size - 10 - offset))


@pytest.mark.parametrize("compress", [True, False])
@pytest.mark.parametrize("size", [1000, 5 * MB, 70 * MB])
@pytest.mark.parametrize("kind", ["file", "other"])
def test_a_source_that_shrinks_is_an_error_and_leaves_nothing(
    tmp_path: Path, kind: str, size: int, compress: bool
) -> None:
    file = tmp_path / "file"
    file.touch()
    os.truncate(file, size)
    source: Source = Truncated(file) if kind == "file" else Short(size)
    with pytest.raises(InvalidInput, match="demo/x became shorter"):
        write_wheel(plan(Member("demo/x", source, compress=compress)), tmp_path / "dist")
    assert list((tmp_path / "dist").iterdir()) == []


def test_a_file_that_disappears_is_named(tmp_path: Path) -> None:
    class Gone(FileSource):
        @property
        def size(self) -> int:
            return 100

    with pytest.raises(InvalidInput, match="cannot read the bytes of demo/x") as caught:
        write_wheel(plan(Member("demo/x", Gone(tmp_path / "gone"))), tmp_path / "dist")
    assert str(caught.value.where) == str(tmp_path / "gone")
    assert list((tmp_path / "dist").iterdir()) == []


MEMORY = """
import re, sys, threading
from pathlib import Path
from rocwright.system.limits import return_large_blocks
from rocwright.wheel.metadata import Metadata
from rocwright.wheel.write import FileSource, Member, WheelPlan, write_wheel
return_large_blocks()
peak, done = 0, threading.Event()
def watch():
    global peak
    while not done.wait(0.003):
        found = re.search(r"RssAnon:\\s+(\\d+)", Path("/proc/self/status").read_text())
        peak = max(peak, int(found[1]) * 1024)
watcher = threading.Thread(target=watch)
watcher.start()
folder = Path(sys.argv[1])
members = tuple(Member(f"demo/{file.name}", FileSource(file)) for file in folder.iterdir())
wheel = WheelPlan("demo", "1", Metadata("demo", "1"), members)
write_wheel(wheel, folder / "dist", threads=int(sys.argv[2]), compression="fast")
done.set()
watcher.join()
print(peak)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads RssAnon of /proc/self/status")
@pytest.mark.parametrize("threads", [2, 16])
def test_anonymous_memory_stays_below_300_mb(tmp_path: Path, threads: int) -> None:
    """A library of 150 MB, and more of those that are packed in one go than fit into 300 MB."""
    block = random.Random(5).randbytes(1 << 18)
    for number, size in enumerate([60 * MB, 150 * MB, 60 * MB, 66 * MB, 60 * MB, 60 * MB]):
        with (tmp_path / f"{number}.so").open("wb") as stream:
            for offset in range(0, size, 8 * len(block)):
                stream.seek(offset)
                stream.write(block)
            stream.truncate(size)
    command = [sys.executable, "-c", MEMORY, str(tmp_path), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 30 * MB < int(done.stdout) < 300 * MB


def test_memory_is_lent_again_and_little_of_it_is_kept() -> None:
    buffers = Buffers(1000)
    with buffers.lend(600) as first, buffers.lend(700) as second:
        assert (len(first), len(second)) == (600, 700)
        first[:3] = b"one"
        second[:3] = b"two"
    # Only the larger fits into what is kept.
    with buffers.lend(500) as again, buffers.lend(500) as fresh:
        assert (len(again), bytes(again[:3]), bytes(fresh[:3])) == (500, b"two", bytes(3))
    with buffers.lend(5000) as huge:
        huge[:4] = b"huge"
    with buffers.lend(5000) as other:
        assert bytes(other[:4]) == bytes(4)


def test_any_source_fills_memory_at_hand(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"0123456789")
    for source in (FileSource(file), BytesSource(b"0123456789")):
        memory = bytearray(6)
        assert read_into(source, 2, memoryview(memory)) == 6
        assert memory == b"234567"
        assert read_into(source, 8, memoryview(memory)) == 2
        assert memory == b"894567"

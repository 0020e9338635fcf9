"""Archives beyond the limits of the old zip format, and what memory they take."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from gather_wheels import INFO, METADATA, NAME, WHEEL

from rocwright.check.facts import Fault
from rocwright.check.gather import gather
from rocwright.wheel.deflate import crc32
from wheels import record_row

pytestmark = pytest.mark.slow

LARGE = (4 << 30) + (1 << 20)


def rest(archive: zipfile.ZipFile, rows: str) -> None:
    archive.writestr(f"{INFO}/METADATA", METADATA)
    archive.writestr(f"{INFO}/WHEEL", WHEEL)
    rows += record_row(f"{INFO}/METADATA", METADATA) + record_row(f"{INFO}/WHEEL", WHEEL)
    archive.writestr(f"{INFO}/RECORD", f"{rows}{INFO}/RECORD,,\n")


def test_more_members_than_sixteen_bits_count(tmp_path: Path) -> None:
    names = [f"demo/{number}" for number in range(65_540)]
    with zipfile.ZipFile(tmp_path / NAME, "w") as archive:
        for name in names:
            archive.writestr(zipfile.ZipInfo(name), b"")
        rest(archive, "".join(record_row(name, b"") for name in names[:-1]))
    facts = gather(tmp_path / NAME)
    assert facts.structure is None
    assert facts.damaged == ()
    assert len(facts.members) == 65_543
    assert facts.record == (Fault("demo/65539", "RECORD does not list it"),)


def test_a_stored_member_beyond_thirty_two_bits(tmp_path: Path) -> None:
    """Sparse, so that it takes no room; its digest is left out of RECORD, its CRC is right."""
    crc, block = 0, bytes(1 << 20)
    for _ in range(LARGE // len(block)):
        crc = crc32(block, crc)
    path = tmp_path / NAME
    with zipfile.ZipFile(path, "w") as archive:
        info = zipfile.ZipInfo("demo/large.bin")
        with archive.open(info, "w", force_zip64=True):
            pass
        assert archive.fp is not None
        start = archive.fp.tell()
        archive.fp.seek(start + LARGE)
        archive.start_dir = start + LARGE
        info.file_size = info.compress_size = LARGE
        info.CRC = crc
        # The local header, with sizes in its extra field, as it is for a member of this size.
        archive.fp.seek(info.header_offset)
        archive.fp.write(info.FileHeader(zip64=True))
        archive.fp.seek(start + LARGE)
        rest(archive, "demo/large.bin,,\n")
    assert path.stat().st_blocks * 512 < 1 << 20
    facts = gather(path)
    assert facts.damaged == ()
    assert facts.record == (Fault("demo/large.bin", "RECORD has no digest for it"),)
    assert (facts.members[0].size, facts.members[0].packed) == (LARGE, LARGE)
    assert facts.bomb is facts.structure is None


MEASURE = r"""
import re, sys
from pathlib import Path
from rocwright.check.gather import gather

def peak():  # not ru_maxrss, which begins with what the parent holds
    return int(re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())[1]) << 10

before = peak()
facts = gather(Path(sys.argv[1]), threads=2)
assert not facts.damaged and not facts.record, (facts.damaged, facts.record)
print(peak() - before)
"""


def test_memory_does_not_grow_with_a_library(tmp_path: Path) -> None:
    """Two libraries of 300 MB, full of what is kept: bundles and code objects on every page."""
    page = b"__CLANG_OFFLOAD_BUNDLE__".ljust(2048, b"a").ljust(4096, b"\0")
    data = b"\x7fELF".ljust(4096, b"\0") + page * (300 * 256)
    with zipfile.ZipFile(tmp_path / NAME, "w") as archive:
        for name in ("demo/a.so", "demo/b.so"):
            archive.writestr(name, data, zipfile.ZIP_DEFLATED, 1)
        rest(archive, record_row("demo/a.so", data) + record_row("demo/b.so", data))
    words = [sys.executable, "-c", MEASURE, str(tmp_path / NAME)]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    assert 1_000_000 < int(done.stdout) < 120_000_000

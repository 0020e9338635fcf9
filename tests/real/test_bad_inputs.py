"""What is no wheel, or a hostile one, at the command's door: a clear answer, soon, in little memory."""

from __future__ import annotations

import hashlib
import json
import os
import struct
import zlib
from base64 import urlsafe_b64encode
from dataclasses import dataclass
from pathlib import Path

import pytest

from real.wheel_edit import STORED, Part, WheelEdit, open_wheel, pack, zip_of

NAME = "torch-2.9.0+rocm5.2.3-cp311-cp311-linux_x86_64.whl"
MEMORY = 200_000  # kilobytes, the most that a check may take of any file
SECONDS = 20
# Runs a command and reports what it took; stands between, so that only this command is measured.
METER = """
import json, resource, subprocess, sys, time
began = time.monotonic()
limit, *command = sys.argv[1:]
done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=3 * int(limit))
used = resource.getrusage(resource.RUSAGE_CHILDREN)
print(json.dumps({"code": done.returncode, "out": done.stdout, "err": done.stderr, "memory": used.ru_maxrss,
                  "seconds": time.monotonic() - began}))
"""


@dataclass
class Answer:
    """How the command ended; `rules` are those of its findings."""

    code: int
    report: dict
    err: str

    @property
    def rules(self) -> set[str]:
        return {finding["rule"] for finding in self.report["findings"]}

    def cause(self, rule: str) -> str:
        (found,) = (finding["cause"] for finding in self.report["findings"] if finding["rule"] == rule)
        return found


@pytest.fixture
def place(newcomer, tmp_path) -> Path:
    """A directory that the newcomer can read, which pytest's own is not."""
    path = newcomer.home / "bad-inputs" / tmp_path.name
    path.mkdir(parents=True)
    return path


@pytest.fixture
def check(newcomer):
    """`rocwright check` as the newcomer; every answer is quick, small and without a traceback."""

    def run(*paths: Path | str, seconds: int = SECONDS) -> Answer:
        command = [newcomer.clone / ".venv/bin/rocwright", "check", *paths, "--json"]
        measured = json.loads(newcomer.run("/usr/bin/python3", "-c", METER, str(seconds), *command).stdout)
        assert "Traceback" not in measured["err"]
        assert measured["memory"] < MEMORY, f"{measured['memory'] / 1000:.0f} MB"
        assert measured["seconds"] < seconds, f"{measured['seconds']:.1f} s"
        report = json.loads(measured["out"]) if measured["out"].startswith("{") else {}
        return Answer(measured["code"], report, measured["err"])

    return run


def small(name: str = NAME) -> WheelEdit:
    """A wheel of a few lines, made by hand."""
    info = f"{name.split('-')[0]}-{name.split('-')[1]}.dist-info"
    project, version = info.removesuffix(".dist-info").split("-")
    tag = name.removesuffix(".whl").split("-", 2)[2]
    wheel = WheelEdit(Path(name), [pack(f"{info}/RECORD", b"")], info, name)
    wheel.put("{info}/METADATA", f"Metadata-Version: 2.1\nName: {project}\nVersion: {version}\n")
    wheel.put("{info}/WHEEL", f"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: {tag}\n")
    wheel.put("pkg/__init__.py", "")
    return wheel


OTHER = "some_tool-1.0-py3-none-any.whl"


def test_the_small_wheel_is_good(check, place):
    answer = check(small(OTHER).save(place))
    assert (answer.code, answer.rules) == (0, set())


def test_an_empty_directory(check, place):
    answer = check(place)
    assert (answer.code, answer.rules) == (9, {"empty-folder"})


def test_a_path_that_does_not_exist(check, place):
    answer = check(place / NAME)
    assert answer.code == 2
    assert NAME in answer.err


def test_200_kilobytes_of_zeros(check, place):
    (place / NAME).write_bytes(bytes(200_000))
    answer = check(place)
    assert (answer.code, answer.rules) == (9, {"readable"})


@pytest.mark.parametrize("kept", [0, 10, 0.5, 0.99])
def test_a_truncated_wheel(check, place, kept):
    path = small().save(place)
    data = path.read_bytes()
    path.write_bytes(data[: kept if isinstance(kept, int) else int(len(data) * kept)])
    answer = check(path)
    assert (answer.code, answer.rules) == (9, {"readable"})


def test_a_file_without_the_right_to_read_it(check, place):
    path = small().save(place)
    path.chmod(0)
    answer = check(path)
    assert (answer.code, answer.rules) == (9, {"readable"})
    assert "ermission" in answer.cause("readable")


def test_a_directory_without_the_right_to_read_it(check, place):
    closed = place / "closed"
    small().save(closed)
    closed.chmod(0)
    try:
        answer = check(closed)
        assert answer.code in (2, 9)
        assert answer.rules <= {"readable"} if answer.report else "ermission" in answer.err
        answer = check(closed / NAME)
        assert answer.code in (2, 9)
        assert answer.rules <= {"readable"} if answer.report else NAME in answer.err
    finally:
        closed.chmod(0o755)


def test_a_directory_with_the_name_of_a_wheel(check, place):
    (place / NAME).mkdir()
    answer = check(place)
    assert (answer.code, answer.rules) == (9, {"readable"})


def test_a_file_that_vanished(check, place):
    # What a folder listed a moment ago and is gone now.
    (place / NAME).symlink_to(place / "gone.whl")
    answer = check(place)
    assert (answer.code, answer.rules) == (9, {"readable"})


def test_a_pipe_that_nobody_writes_into(check, place):
    os.mkfifo(place / NAME)
    answer = check(place)
    assert (answer.code, answer.rules) == (9, {"readable"})


def test_the_wheel_of_another_project_under_the_name_of_torch(check, demo, place):
    (apex,) = (demo.work / "dist/pytorch").glob("apex-*.whl")
    (place / NAME).write_bytes(apex.read_bytes())
    answer = check(place)
    assert answer.code == 9
    assert {"dist-info", "metadata-identity"} & answer.rules


def test_a_member_whose_name_is_no_text(check, place):
    wheel = small(OTHER)
    wheel.put(b"pkg/caf\xe9\xff.py", b"").flags |= 0x800
    answer = check(wheel.save(place))
    assert answer.code == 9
    assert answer.rules <= {"member-names", "record", "readable", "structure"}


def test_a_wheel_whose_file_name_is_no_text(check, place):
    path = small(OTHER).save(place)
    path.rename(os.fsdecode(bytes(place) + b"/caf\xe9-1.0-py3-none-any.whl"))
    answer = check(place)
    assert (answer.code, answer.rules) == (9, {"readable"})


# -- bombs


def zeros(size: int) -> bytes:
    """A deflate stream of so many zero bytes, a thousand times smaller, without inflating it ever."""
    squeezer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = bytes(16 << 20)
    squeezer.compress(block)
    squeezer.flush(zlib.Z_FULL_FLUSH)
    again = squeezer.compress(block) + squeezer.flush(zlib.Z_FULL_FLUSH)
    return again * (size // len(block)) + squeezer.flush()


def test_a_thousand_to_one(check, place):
    size = 4 << 30
    wheel = small(OTHER)
    part = Part("pkg/zeros.bin", 8, 0, size - 1, zeros(size))
    assert size / len(part.packed) > 900
    wheel.record()
    wheel.parts.insert(0, part)
    answer = check(wheel.save(place))
    assert (answer.code, answer.rules) == (9, {"archive-bomb"})


def test_a_member_that_is_far_larger_than_it_says(check, place):
    wheel = small(OTHER)
    wheel.record()
    wheel.parts.insert(0, Part("pkg/zeros.bin", 8, 0, 100, zeros(4 << 30)))
    answer = check(wheel.save(place))
    assert answer.code == 9
    assert "member-damaged" in answer.rules


def test_members_that_share_their_bytes(check, place):
    wheel = small(OTHER)
    wheel.record()
    first = Part("pkg/zeros.bin", 8, 0, 16 << 20, zeros(16 << 20))
    many = [Part(f"pkg/zeros{n}.bin", 8, 0, 16 << 20, first.packed, shares=first) for n in range(2000)]
    wheel.parts = [first, *many, *wheel.parts]
    answer = check(wheel.save(place))
    assert (answer.code, answer.rules) == (9, {"archive-bomb"})


def test_an_archive_in_an_archive_is_not_opened(check, place):
    inner = zip_of([Part(f"{n}.bin", 8, 0, 1 << 30, zeros(1 << 30)) for n in range(4)])
    wheel = small(OTHER)
    wheel.put("pkg/inner.zip", inner)
    answer = check(wheel.save(place))
    assert (answer.code, answer.rules) == (0, set())


# -- size


def test_a_stored_member_of_five_gigabytes(check, place):
    size = 5 << 30
    path = place / OTHER
    sparse_wheel(path, size)
    assert path.stat().st_size > size
    answer = check(path, seconds=60)
    # Read to its end, it is as good as any; only larger than any wheel should be.
    assert (answer.code, answer.rules) == (9, {"size-budget"})


def zeros_digest(size: int) -> tuple[bytes, int]:
    """sha256 and CRC of so many zero bytes; those of five gigabytes as sha256sum and gzip say."""
    if size == 5 << 30:
        digest = "7f06c62352aebd8125b2a1841e2b9e1ffcbed602f381c3dcb3200200e383d1d5"
        return bytes.fromhex(digest), 0x193838C3
    return hashlib.sha256(bytes(size)).digest(), zlib.crc32(bytes(size))


def sparse_wheel(path: Path, size: int) -> None:
    """A wheel with a stored member of so many zero bytes that take no room on the disk, in zip64."""
    digest, crc = zeros_digest(size)
    wheel, name = small(OTHER), b"pkg/large.bin"
    text = urlsafe_b64encode(digest).rstrip(b"=").decode()
    wheel.rows = [[name.decode(), f"sha256={text}", str(size)], *wheel.record()]
    small_path = wheel.save(path.parent)
    data = small_path.read_bytes()
    entries, length, at = struct.unpack("<HII", data[-12:-2][-10:])
    wide = struct.pack("<HHQQ", 1, 16, size, size)
    with path.open("wb") as file:
        file.write(data[:at])
        local = struct.pack(
            "<4s5H3I2H", b"PK\3\4", 45, 0, STORED, 0, 0x21, crc, 2**32 - 1, 2**32 - 1, len(name), len(wide)
        )
        file.write(local + name + wide)
        file.seek(size, os.SEEK_CUR)
        start = file.tell()
        central = struct.pack(
            "<4s6H3I5H2I", b"PK\1\2", 3 << 8 | 45, 45, 0, STORED, 0, 0x21, crc, 2**32 - 1, 2**32 - 1,
            len(name), len(wide), 0, 0, 0, 0o100644 << 16, at,
        )  # fmt: skip
        directory = data[at : at + length] + central + name + wide
        count = entries + 1
        file.write(directory)
        end = struct.pack("<4sQHHIIQQQQ", b"PK\6\6", 44, 45, 45, 0, 0, count, count, len(directory), start)
        file.write(end + struct.pack("<4sIQI", b"PK\6\7", 0, start + len(directory), 1))
        file.write(struct.pack("<4s4H2IH", b"PK\5\6", 0, 0, count, count, len(directory), 2**32 - 1, 0))


def test_more_members_than_the_old_format_counts(check, place):
    wheel = small(OTHER)
    for number in range(20_000):
        wheel.parts.insert(0, pack(f"pkg/m{number}.py", b"", STORED))
        wheel.changed[f"pkg/m{number}.py"] = b""
    answer = check(wheel.save(place))
    assert (answer.code, answer.rules) == (0, set())


def test_the_sparse_wheel_is_a_good_zip_for_others(place):
    sparse_wheel(place / OTHER, 32 << 20)
    wheel = open_wheel(place / OTHER)
    assert wheel.part("pkg/large.bin").size == 32 << 20

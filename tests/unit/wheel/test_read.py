"""Reading wheels that zipfile wrote, good and bad ones."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from rocwright.errors import InvalidWheel
from rocwright.wheel.read import open_wheel, read_member, verify_record
from wheels import record_digest, record_row

INFO = "demo-1.0.dist-info"
METADATA = b"Metadata-Version: 2.1\nName: demo\nVersion: 1.0\nRequires-Dist: numpy>=1\n\nText\n"
WHEEL = b"Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py2-none-any\nTag: py3-none-any\n"


def wheel(
    tmp_path: Path,
    changes: dict[str, bytes | None] | None = None,
    *,
    name: str = "demo-1.0-py2.py3-none-any.whl",
) -> Path:
    """A good wheel with members replaced, added or (None) left out."""
    files: dict[str, bytes | None] = {
        "demo.py": b"x = 1\n",
        f"{INFO}/METADATA": METADATA,
        f"{INFO}/WHEEL": WHEEL,
    }
    rows = [record_row(path, data or b"") for path, data in files.items()]
    files[f"{INFO}/RECORD"] = "".join([*rows, f"{INFO}/RECORD,,\n"]).encode()
    path = tmp_path / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for member, data in (files | (changes or {})).items():
            if data is not None:
                archive.writestr(member, data)
    return path


def test_a_good_wheel(tmp_path: Path) -> None:
    found = open_wheel(wheel(tmp_path))
    assert (found.name, found.version, found.build) == ("demo", "1.0", None)
    assert found.tags == found.wheel_tags == {"py2-none-any", "py3-none-any"}
    assert found.root_is_purelib
    assert found.metadata.requires_dist == ("numpy>=1",)
    assert found.metadata.description == "Text\n"
    member = found.member["demo.py"]
    assert (member.size, member.method, member.mode) == (6, 8, 0o600)
    assert [row.path for row in found.record] == [
        "demo.py",
        f"{INFO}/METADATA",
        f"{INFO}/WHEEL",
        f"{INFO}/RECORD",
    ]
    assert found.record[0].sha256 == hashlib.sha256(b"x = 1\n").hexdigest()
    assert verify_record(found) == ()
    assert read_member(found, "demo.py") == b"x = 1\n"
    with pytest.raises(InvalidWheel, match=r"has no other\.py"):
        read_member(found, "other.py")


def test_a_build_tag(tmp_path: Path) -> None:
    assert open_wheel(wheel(tmp_path, name="demo-1.0-2rc-py3-none-any.whl")).build == "2rc"


BAD: dict[str, tuple[dict[str, bytes | None], str]] = {
    "no-metadata": ({f"{INFO}/METADATA": None}, "has no demo-1.0.dist-info/METADATA"),
    "no-wheel-file": ({f"{INFO}/WHEEL": None}, "has no demo-1.0.dist-info/WHEEL"),
    "no-record": ({f"{INFO}/RECORD": None}, "has no demo-1.0.dist-info/RECORD"),
    "two-dist-infos": ({"other-1.dist-info/METADATA": b""}, "exactly one .dist-info"),
    "metadata-of-other": ({f"{INFO}/METADATA": METADATA.replace(b"1.0", b"2")}, "METADATA is of demo 2"),
    "metadata-without-name": ({f"{INFO}/METADATA": b"Version: 1.0\n"}, "lacks Name or Version"),
    "metadata-bad-need": ({f"{INFO}/METADATA": METADATA.replace(b"numpy>=1", b"numpy>>1")}, "numpy"),
    "record-with-hex": ({f"{INFO}/RECORD": f"demo.py,sha256={'ab' * 32},6\n".encode()}, "URL-safe base64"),
    "record-with-padding": ({f"{INFO}/RECORD": f"demo.py,{record_digest(b'')}=,6\n".encode()}, "without '='"),
    "record-with-md5": ({f"{INFO}/RECORD": b"demo.py,md5=abc,6\n"}, "not sha256"),
    "record-with-two-fields": ({f"{INFO}/RECORD": b"demo.py,\n"}, "line 1"),
    "record-with-odd-size": ({f"{INFO}/RECORD": f"demo.py,{record_digest(b'')},six\n".encode()}, "line 1"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_structural_problems_are_named(tmp_path: Path, name: str) -> None:
    changes, message = BAD[name]
    path = wheel(tmp_path, changes)
    with pytest.raises(InvalidWheel, match=message) as caught:
        open_wheel(path)
    assert caught.value.where == str(path)


def test_a_member_twice(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    with pytest.warns(UserWarning, match="Duplicate"), zipfile.ZipFile(path, "a") as archive:
        archive.writestr("demo.py", b"again")
    with pytest.raises(InvalidWheel, match=r"contains demo\.py twice"):
        open_wheel(path)


@pytest.mark.parametrize("name", ["demo.whl", "demo-1.0-py3-none-any.zip", "demo-x.y-py3-none-any.whl"])
def test_names_that_are_no_wheel_names(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidWheel, match="not a valid wheel name"):
        open_wheel(wheel(tmp_path, name=name))


def test_a_name_that_contradicts_the_content(tmp_path: Path) -> None:
    with pytest.raises(InvalidWheel, match="belongs to another wheel"):
        open_wheel(wheel(tmp_path, name="demo-2.0-py3-none-any.whl"))


def test_files_that_are_no_archives(tmp_path: Path) -> None:
    path = tmp_path / "demo-1.0-py3-none-any.whl"
    with pytest.raises(InvalidWheel, match="cannot read"):
        open_wheel(path)
    path.write_bytes(b"nothing")
    with pytest.raises(InvalidWheel, match="damaged"):
        open_wheel(path)
    path.write_bytes(wheel(tmp_path, name="demo-1.0-1-py3-none-any.whl").read_bytes()[:-30])
    with pytest.raises(InvalidWheel, match="damaged"):
        open_wheel(path)


def rows(*lines: str) -> dict[str, bytes | None]:
    return {f"{INFO}/RECORD": "".join(f"{line}\n" for line in (*lines, f"{INFO}/RECORD,,")).encode()}


GOOD = [record_row(f"{INFO}/METADATA", METADATA).rstrip(), record_row(f"{INFO}/WHEEL", WHEEL).rstrip()]
MINE = f"demo.py,{record_digest(b'x = 1' + bytes([10]))},6"
PROBLEMS = {
    "missing-row": (rows(*GOOD), "RECORD lacks demo.py"),
    "row-without-member": (rows(*GOOD, MINE, f"gone.py,{record_digest(b'')},0"),
                           "RECORD lists gone.py, which is not in the wheel"),
    "row-twice": (rows(*GOOD, MINE, MINE), "RECORD lists demo.py twice"),
    "wrong-size": (rows(*GOOD, MINE[:-1] + "7"), "demo.py has 6 bytes, RECORD says 7"),
    "no-digest": (rows(*GOOD, "demo.py,,"), "RECORD has no digest for demo.py"),
}  # fmt: skip


@pytest.mark.parametrize("name", PROBLEMS)
def test_record_problems(tmp_path: Path, name: str) -> None:
    changes, problem = PROBLEMS[name]
    assert verify_record(open_wheel(wheel(tmp_path, changes))) == (problem,)


def test_a_changed_member(tmp_path: Path) -> None:
    found = open_wheel(wheel(tmp_path, {"demo.py": b"x = 2\n"}))
    (problem,) = verify_record(found)
    assert problem.startswith(
        f"demo.py has sha256 {hashlib.sha256(b'x = 2' + bytes([10])).hexdigest()}, RECORD says "
    )


def test_a_damaged_member(tmp_path: Path) -> None:
    path = wheel(tmp_path)
    data = bytearray(path.read_bytes())
    data[30 + len("demo.py")] ^= 0xFF
    path.write_bytes(data)
    (problem,) = verify_record(open_wheel(path))
    assert problem.startswith("demo.py is damaged")


def test_a_member_name_that_is_no_text(tmp_path: Path) -> None:
    path = wheel(tmp_path, {"grüße": b""})
    path.write_bytes(path.read_bytes().replace("grüße".encode(), b"gr\xff\xffsse"))
    with pytest.raises(InvalidWheel, match="damaged archive"):
        open_wheel(path)

"""Wheels spelled in unusual or deceitful ways: what installers read of them is what gets the version."""

from __future__ import annotations

import csv
import io
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest

from rocwright import cli
from rocwright.wheel.read import open_wheel, verify_record
from unit.wheel.test_wheel_reversion_files import INFO, NEW, NEW_INFO, OLD, TAG, files_of, pack
from wheels import record_digest

ROCM = "7.13.0rc2"


def torch_saying(folder: Path, metadata: bytes, record: str = "") -> Path:
    """A wheel with this METADATA; `record` says how RECORD is quoted."""
    members = files_of("torch", OLD, {"torch/version.py": f"__version__ = '{OLD}'\n".encode()})
    members[f"{INFO}/METADATA"] = metadata
    stream = io.StringIO()
    quoting = csv.QUOTE_ALL if record == "quoted" else csv.QUOTE_MINIMAL
    writer = csv.writer(stream, lineterminator="\r\n" if record == "crlf" else "\n", quoting=quoting)
    rows = [
        (path, record_digest(data), len(data))
        for path, data in members.items()
        if not path.endswith("RECORD")
    ]
    writer.writerows([*rows, (f"{INFO}/RECORD", "", "")])
    members[f"{INFO}/RECORD"] = stream.getvalue().encode()
    return pack(folder / f"torch-{OLD}-{TAG}.whl", members)


def reversion(tmp_path: Path, *wheels: Path) -> int:
    rocm = pack(
        tmp_path / f"rocm-{ROCM}-py3-none-any.whl", files_of("rocm", ROCM, {"rocm_sdk/__init__.py": b""})
    )
    try:
        cli.main(
            ["wheel", "reversion", "--to", "release", "--output-dir", f"{tmp_path}/out", str(rocm)]
            + [str(one) for one in wheels]
        )
    except SystemExit as ended:
        return int(ended.code or 0)
    return 0


def made(tmp_path: Path) -> bytes:
    path = tmp_path / "out" / f"torch-{NEW}-{TAG}.whl"
    assert verify_record(open_wheel(path)) == ()
    with zipfile.ZipFile(path) as archive:
        return archive.read(f"{NEW_INFO}/METADATA")


HEAD = f"Metadata-Version: 2.1\nName: torch\nVersion: {OLD}\n".encode()


@pytest.mark.parametrize("record", ["plain", "quoted", "crlf"])
def test_record_in_every_spelling_tells_of_the_new_members(tmp_path: Path, record: str) -> None:
    wheel = torch_saying(tmp_path, HEAD + f"Requires-Dist: rocm=={ROCM}\n".encode(), record)
    assert reversion(tmp_path, wheel) == 0
    assert b"Requires-Dist: rocm==7.13.0\n" in made(tmp_path)


SPELLED = {
    "crlf": (b"Requires-Dist: rocm==7.13.0rc2\r\n", "rocm==7.13.0"),
    "lower case": (b"requires-dist: rocm==7.13.0rc2\n", "rocm==7.13.0"),
    "parentheses": (b"Requires-Dist: rocm (==7.13.0rc2)\n", "rocm (==7.13.0)"),
    "three signs": (b"Requires-Dist: rocm===7.13.0rc2\n", "rocm===7.13.0"),
    "marker with a version": (
        b'Requires-Dist: rocm==7.13.0rc2; platform_release != "7.13.0rc2"\n',
        'rocm==7.13.0; platform_release != "7.13.0rc2"',
    ),
    "another spelling": (b"Requires-Dist: rocm==7.13.0-RC.2\n", "rocm==7.13.0"),
    "name in another spelling": (b"Requires-Dist: RocM==7.13.0rc2\n", "RocM==7.13.0"),
    "wildcard": (b"Requires-Dist: rocm==7.13.*\n", "rocm==7.13.*"),
    "range": (b"Requires-Dist: rocm<8,>=7.13.0rc2\n", "rocm<8,>=7.13.0"),
}


@pytest.mark.parametrize("spelling", SPELLED)
def test_requirements_in_every_spelling(tmp_path: Path, spelling: str) -> None:
    line, wanted = SPELLED[spelling]
    head = HEAD.replace(b"\n", b"\r\n") if spelling == "crlf" else HEAD
    assert reversion(tmp_path, torch_saying(tmp_path, head + line)) == 0
    said = message_from_bytes(made(tmp_path))
    assert (said["Version"], said.get_all("Requires-Dist")) == (NEW, [wanted])


def test_a_folded_version_and_text_that_is_no_ascii(tmp_path: Path) -> None:
    head = (
        HEAD.replace(b"\nVersion: 2", b"\nVersion:\n  2") + "Author: Jürgen\n  Ångström 7.13.0rc2\n".encode()
    )
    assert reversion(tmp_path, torch_saying(tmp_path, head)) == 0
    wanted = f"Version: {NEW}\nAuthor: Jürgen\n  Ångström 7.13.0rc2\n".encode()
    assert made(tmp_path) == b"Metadata-Version: 2.1\nName: torch\n" + wanted


def test_a_description_keeps_every_version_in_it(tmp_path: Path) -> None:
    """In the body, in a folded header of old metadata, and where the body looks like headers."""
    folded = "Description: Höhe\n      Version: 7.13.0rc2\n      |Requires-Dist: rocm==7.13.0rc2\n".encode()
    body = f"\nVersion: {OLD}\nRequires-Dist: rocm=={ROCM}\n\nRequires-Dist: rocm=={ROCM}\r\n".encode()
    assert reversion(tmp_path, torch_saying(tmp_path, HEAD + folded + body)) == 0
    assert made(tmp_path) == HEAD.replace(OLD.encode(), NEW.encode()) + folded + body


LIES = {
    # Installers end a header at a lone carriage return, too.
    "carriage return": HEAD + b"Summary: x\rRequires-Dist: rocm==7.13.0rc2\n",
    # For installers the headers end here: what follows is the description.
    "no header": HEAD + b"here the description begins\nRequires-Dist: rocm==7.13.0rc2\n",
    # No installer reads a requirement of two lines.
    "folded": HEAD + b"Requires-Dist: rocm\n  ==7.13.0rc2\n",
}


@pytest.mark.parametrize("lie", LIES)
def test_metadata_that_installers_read_differently_is_refused(
    tmp_path: Path, lie: str, capsys: pytest.CaptureFixture[str]
) -> None:
    wheel = torch_saying(tmp_path, LIES[lie])
    assert reversion(tmp_path, wheel) == 3
    assert wheel.name in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("member", [f"{INFO}/METADATA", "torch/version.py"])
def test_an_altered_member_gets_no_new_digest(
    tmp_path: Path, member: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of the same size, so that only RECORD's digest tells; an edit would have made it true."""
    members = files_of("torch", OLD, {"torch/version.py": f"__version__ = '{OLD}'  # good".encode()})
    members[member] = members[member].replace(b"good", b"evil").replace(b"Name: torch", b"Name: Torch")
    wheel = pack(tmp_path / f"torch-{OLD}-{TAG}.whl", members)
    assert reversion(tmp_path, wheel) == 6
    assert f"{member} in {wheel.name} is not what its RECORD says" in " ".join(
        capsys.readouterr().err.split()
    )
    assert not (tmp_path / "out").exists()

"""Texts in wheels, sdists, pages and tables that are far beyond any real one end in a finding or an error."""

from __future__ import annotations

import base64
import hashlib
import io
import sys
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocwright.cli import main
from rocwright.store.objects.serve import serving

WHEEL = b"Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
METADATA = b"Metadata-Version: 2.1\nName: a\nVersion: 1\n"
DIGITS = b"9" * 5000

Check = Callable[..., tuple[int, str]]


@pytest.fixture
def said(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Check:
    """Exit code and all that a command prints."""
    monkeypatch.chdir(tmp_path)

    def act(*words: object) -> tuple[int, str]:
        code = 0
        try:
            main([*map(str, words)])
        except SystemExit as ended:
            code = int(ended.code or 0)
        printed = capsys.readouterr()
        return code, printed.out + printed.err

    return act


def wheel(folder: Path, metadata: bytes = METADATA, about: bytes = WHEEL, **more: bytes) -> Path:
    members = {"a.py": b"x = 1\n", "a-1.dist-info/METADATA": metadata, "a-1.dist-info/WHEEL": about, **more}
    digests = {
        name: base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        for name, data in members.items()
    }
    record = "".join(f"{name},sha256={digests[name]},{len(data)}\n" for name, data in members.items())
    path = folder / "a-1-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
        archive.writestr("a-1.dist-info/RECORD", f"{record}a-1.dist-info/RECORD,,\n")
    return path


def test_the_wheel_that_all_of_these_are_made_of_is_read(tmp_path: Path, said: Check) -> None:
    code, text = said("check", wheel(tmp_path))
    assert "damaged" not in text
    assert "more than can be right" not in text
    assert code in (0, 9)


@pytest.mark.parametrize(
    ("more", "about", "found"),
    [
        (
            b"Requires-Python: " + b",".join(b"!=3.%d.*" % one for one in range(50_000)),
            WHEEL,
            "Requires-Python with",
        ),
        (b"Requires-Python: >=" + DIGITS, WHEEL, "Requires-Python with"),
        (b"Requires-Python: >=3." + DIGITS[:4000], WHEEL, ""),
        (b"".join(b"X%d: y\n" % one for one in range(200_000)), WHEEL, "lines of headers"),
        (b"Requires-Dist: b (>=" + DIGITS + b")", WHEEL, ""),
        (b"Requires-Dist: b; " + b"(" * 5000 + b'os_name == "x"' + b")" * 5000, WHEEL, ""),
        (b"", WHEEL + b"".join(b"Tag: py3-none-x%d\n" % one for one in range(100_000)), ""),
    ],
    ids=["clauses", "digits", "minor", "headers", "requirement", "marker", "tags"],
)
def test_monsters_in_metadata_are_findings(
    tmp_path: Path, said: Check, more: bytes, about: bytes, found: str
) -> None:
    code, text = said("check", wheel(tmp_path, METADATA + more + b"\n", about))
    assert code == 9
    assert found in " ".join(text.split())
    assert "Traceback" not in text


@pytest.mark.parametrize("text", ["x = " + "[" * 100_000, "x = " + "9" * 5000, "x = " + "{a=" * 50_000])
def test_a_configuration_of_nonsense_is_named(tmp_path: Path, said: Check, text: str) -> None:
    (tmp_path / "rocwright.toml").write_text(text)
    code, shown = said("check", wheel(tmp_path))
    assert code == 3
    assert "rocwright.toml" in shown
    assert "Traceback" not in shown


def test_an_sdist_of_nonsense_is_a_finding(tmp_path: Path, said: Check) -> None:
    path = tmp_path / "a-1.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name, data in {"PKG-INFO": METADATA, "pyproject.toml": b"x = " + b"[" * 100_000}.items():
            info = tarfile.TarInfo(f"a-1/{name}")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    code, text = said("check", path)
    assert code == 9
    assert "Traceback" not in text


@pytest.mark.parametrize(
    "name",
    [
        "a-" + "9" * 5000 + "-py3-none-any.whl",
        "a-1-" + "-".join([".".join(f"x{one}" for one in range(3000))] * 3) + ".whl",
        "a-" + "9" * 5000 + ".tar.gz",
    ],
    ids=["version", "tags", "sdist"],
)
def test_a_page_with_such_names_is_read(tmp_path: Path, said: Check, name: str) -> None:
    """Three times 3,000 tags would be 27 thousand million."""
    (tmp_path / "page").mkdir()
    links = f'<a href="{name}">{name}</a><a href="b-1-py3-none-any.whl">b-1-py3-none-any.whl</a>'
    (tmp_path / "page/index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
    with serving(tmp_path / "page") as url:
        code, text = said("set", "create", "--from-page", url, "--list-sets", "--store", "store")
    assert code == 0
    assert "b-1-py3-none-any.whl" in text
    assert "Traceback" not in text


def test_a_page_nested_without_end_is_named(tmp_path: Path, said: Check) -> None:
    (tmp_path / "simple").mkdir()
    (tmp_path / "simple/index.html").write_text('{"files": ' + "[" * 100_000)
    with serving(tmp_path) as url:
        code, text = said("set", "create", "--from-index", f"{url}simple/", "--store", "store")
    assert code != 0
    assert "Traceback" not in text
    assert sys.getrecursionlimit() < 100_000


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=200),
            st.sampled_from(
                [b"Requires-Python: ", b"Requires-Dist: ", b"\n", b"\n\n", b"\n ", b">=3,", DIGITS, b"\xff"]
            ),
        ),
        max_size=30,
    )
)
@settings(max_examples=25)
def test_any_bytes_as_metadata_end_in_a_verdict(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes]
) -> None:
    path = wheel(tmp_path_factory.mktemp("any"), METADATA + b"".join(parts))
    with pytest.raises(SystemExit) as ended:
        main(["check", "-q", str(path)])
    assert ended.value.code in (0, 9, None)

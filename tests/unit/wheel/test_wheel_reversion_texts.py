"""Texts in members: literals and JSON values that are exactly a version change, nothing else by one byte."""

from __future__ import annotations

import pytest
from packaging.version import Version

from rocwright.errors import InvalidWheel
from rocwright.wheel.reversion.members import Unreadable, edit_json, edit_python, mentions
from rocwright.wheel.reversion.versions import Change, edit_requirement

OLD, NEW = "7.13.0rc1", "7.13.0"
VERSIONS = {OLD: NEW, "2.10.0+rocm7.13.0rc1": "2.10.0+rocm7.13.0"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"__version__ = '7.13.0rc1'\n", b"__version__ = '7.13.0'\n"),
        (b'__version__: str = "2.10.0+rocm7.13.0rc1"', b'__version__: str = "2.10.0+rocm7.13.0"'),
        (b"a = r'7.13.0rc1'; b = '''7.13.0rc1'''\r\n", b"a = r'7.13.0'; b = '''7.13.0'''\r\n"),
        # Escaped, but the same text.
        (b"a = '\\x37.13.0rc1'\n", b"a = '7.13.0'\n"),
        # Behind characters of more than one byte, and a byte order mark.
        ("name = 'grüße'; v = '7.13.0rc1'  # ü\n".encode(), "name = 'grüße'; v = '7.13.0'  # ü\n".encode()),
        (b"\xef\xbb\xbfv = '7.13.0rc1'\n", b"\xef\xbb\xbfv = '7.13.0'\n"),
        ("# -*- coding: latin-1 -*-\nv = '7.13.0rc1' # ü\n".encode("latin-1"),
         "# -*- coding: latin-1 -*-\nv = '7.13.0' # ü\n".encode("latin-1")),
        (b"f(check_version='7.13.0rc1',\n  x=['7.13.0rc1'])", b"f(check_version='7.13.0',\n  x=['7.13.0'])"),
    ],
)  # fmt: skip
def test_literals_that_are_the_version_change(before: bytes, after: bytes) -> None:
    assert edit_python(before, VERSIONS) == after


@pytest.mark.parametrize(
    "text",
    [
        b"# 7.13.0rc1\n",
        b'"""Of 7.13.0rc1."""\n',
        b"a = '7.13.0rc12'\nb = 'v7.13.0rc1'\nc = '17.13.0rc1'\n",
        b"a = b'7.13.0rc1'\n",
        b"a = f'{x}7.13.0rc1'\n",
        b"a = f\"{'7.13.0rc1'}\"\n",
        b"a = '7.13.0' 'rc1'\n",
        b"git = '1a2rc1c4d'\n",
        b"pattern = '\\d+'\n",
        b"\n\r\n\x0c\n",
        b"",
    ],
)
def test_everything_else_stays(text: bytes) -> None:
    assert edit_python(text, VERSIONS) == text


@pytest.mark.parametrize(
    "text", [b"print 'x'\n", b"a = '\n", b"\xff\xfe", b"if x:\n", b"# coding: nonsense\nx=1\n"]
)
def test_what_is_no_python_is_said(text: bytes) -> None:
    with pytest.raises(Unreadable):
        edit_python(text, VERSIONS)


def test_json_values_change_and_keys_do_not() -> None:
    before = (
        b'{\n "7.13.0rc1": "7.13.0rc1", "x" : ["7.13.0rc12", "\\u0037.13.0rc1", 1.50],\n'
        b' "a\\"b": ": ", "purl":"pkg:pypi/torch@2.10.0%2Brocm7.13.0rc1", "o": "pkg:pypi/other@7.13.0rc1"}\n'
    )
    after = (
        b'{\n "7.13.0rc1": "7.13.0", "x" : ["7.13.0rc12", "7.13.0", 1.50],\n'
        b' "a\\"b": ": ", "purl":"pkg:pypi/torch@2.10.0%2Brocm7.13.0", "o": "pkg:pypi/other@7.13.0rc1"}\n'
    )
    assert edit_json(before, VERSIONS, ["torch"]) == after


@pytest.mark.parametrize("text", [b"{", b"\xff", b"[" * 100_000])
def test_what_is_no_json_is_said(text: bytes) -> None:
    with pytest.raises(Unreadable):
        edit_json(text, VERSIONS, [])


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b"7.13.0rc1", True),
        (b"rocm7.13.0rc1\0", True),
        (b"17.13.0rc1", False),
        (b"1.7.13.0rc1", False),
        (b"7.13.0rc12", False),
        (b"7.13.0rc12 7.13.0rc1.git", True),
        (b"", False),
    ],
)
def test_mentions_are_of_whole_numbers(data: bytes, found: bool) -> None:
    assert mentions(data, OLD) is found


CHANGES = {
    "rocm": (Change(Version("7.13.0rc1"), Version("7.13.0")),),
    "torch": (Change(Version("2.10.0+rocm7.13.0rc1"), Version("2.10.0+rocm7.13.0")),),
    "x": (Change(Version("7.13.0rc1+asan"), Version("7.13.0+asan")),),
}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("rocm==7.13.0rc1", "rocm==7.13.0"),
        (
            'ROCm [libraries,devel] (== 7.13.0rc1 , <8) ; sys_platform == "linux" and "7.13.0rc1" in os_name',
            'ROCm [libraries,devel] (== 7.13.0 , <8) ; sys_platform == "linux" and "7.13.0rc1" in os_name',
        ),
        ("torch === 2.10.0+rocm7.13.0rc1", "torch === 2.10.0+rocm7.13.0"),
        ("rocm>=7.13.0rc1,<=7.13.0rc1", "rocm>=7.13.0,<=7.13.0"),
        ("rocm~=7.13.0rc1", "rocm~=7.13.0"),
        # The same version in another spelling.
        ("rocm == 7.13.0.RC-1", "rocm == 7.13.0"),
        # A pin without the local part accepts the file, and has to go on doing so.
        ("x==7.13.0rc1", "x==7.13.0"),
    ],
)
def test_clauses_that_name_the_old_version_change(before: str, after: str) -> None:
    assert edit_requirement(before, CHANGES, "f.whl") == after


@pytest.mark.parametrize(
    "text",
    [
        "rocm==7.13.0rc12",
        "rocm-other==7.13.0rc1",
        "rocm",
        "rocm!=7.13.0rc1",
        "rocm<7.13.0rc1",
        "rocm==7.13.*",
        "numpy==7.13.0rc1",
        "rocm @ https://example.org/rocm-7.13.0rc1.tar.gz",
        'torch; extra == "x" and python_version == "7.13.0rc1"',
    ],
)
def test_other_requirements_stay(text: str) -> None:
    assert edit_requirement(text, CHANGES, "f.whl") == text


def test_a_malformed_requirement_is_named_with_its_file() -> None:
    with pytest.raises(InvalidWheel, match=r"f\.whl requires 'rocm=='"):
        edit_requirement("rocm==", CHANGES, "f.whl")

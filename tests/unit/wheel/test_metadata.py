"""Metadata, names and RECORD against texts written by hand."""

from __future__ import annotations

import pytest

from rocwright.errors import InvalidInput, InvalidWheel
from rocwright.wheel.metadata import (
    Metadata,
    RecordRow,
    add_headers,
    header_fields,
    parse_metadata,
    parse_record,
    render_entry_points,
    render_metadata,
    render_record,
    render_wheel_file,
    wheel_filename,
)

FULL = Metadata(
    name="Rocm.SDK_core",
    version="7.0.0rc1+gfx.1",
    summary="Größe",
    requires_python=">=3.10",
    requires_dist=("numpy>=1; extra == 'x'", "rocm==7"),
    provides_extra=("x",),
    license_expression="MIT AND Apache-2.0",
    license_files=("LICENSE", "THIRD-PARTY.txt"),
    description="# Title\n\nFrom: here\n",
    description_content_type="text/markdown",
    author="AMD",
    keywords=("gpu", "rocm"),
    classifiers=("Programming Language :: C",),
    project_urls={"Source": "https://example.org"},
)
TEXT = """\
Metadata-Version: 2.4
Name: Rocm.SDK_core
Version: 7.0.0rc1+gfx.1
Summary: Größe
Keywords: gpu,rocm
Author: AMD
License-Expression: MIT AND Apache-2.0
License-File: LICENSE
License-File: THIRD-PARTY.txt
Classifier: Programming Language :: C
Project-URL: Source, https://example.org
Requires-Python: >=3.10
Requires-Dist: numpy>=1; extra == 'x'
Requires-Dist: rocm==7
Provides-Extra: x
Description-Content-Type: text/markdown

# Title

From: here
"""


def test_metadata_as_text_and_back() -> None:
    assert render_metadata(FULL).decode() == TEXT
    assert parse_metadata(TEXT.encode()) == FULL


def test_a_header_cannot_smuggle_another() -> None:
    with pytest.raises(InvalidInput, match="Summary"):
        render_metadata(Metadata("a", "1", summary="x\nRequires-Dist: evil"))


@pytest.mark.parametrize(
    "fields",
    [
        {"name": "a b", "version": "1"},
        {"name": "-a", "version": "1"},
        {"name": "a", "version": "one"},
        {"name": "a", "version": "1", "requires_dist": ("b >>1",)},
        {"name": "a", "version": "1", "requires_python": "three"},
    ],
)
def test_malformed_fields_are_refused(fields: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        Metadata(**fields)


def test_file_names() -> None:
    assert (
        wheel_filename("Rocm.SDK-core", "07.0.0-1+GFX-1", "py3-none-any")
        == "rocm_sdk_core-7.0.0.post1+gfx.1-py3-none-any.whl"
    )
    for tag in ("py3-none", "py3--any", "py3-none-linux-x86_64", "py3-none-a/b"):
        with pytest.raises(InvalidInput):
            wheel_filename("a", "1", tag)


def test_a_compressed_tag_becomes_one_line_for_each() -> None:
    assert render_wheel_file("py2.py3-none-any", root_is_purelib=True, generator="g 1").decode() == (
        "Wheel-Version: 1.0\nGenerator: g 1\nRoot-Is-Purelib: true\nTag: py2-none-any\nTag: py3-none-any\n"
    )


def test_entry_points() -> None:
    groups = {"z.group": {"b": "m:b", "a": "m"}, "console_scripts": {"rocm-sdk": "rocm_sdk._cli:main"}}
    assert render_entry_points(groups).decode() == (
        "[console_scripts]\nrocm-sdk = rocm_sdk._cli:main\n\n[z.group]\na = m\nb = m:b\n"
    )
    with pytest.raises(InvalidInput):
        render_entry_points({"g": {"a": "m\n[other]"}})


def test_record_rows() -> None:
    # The digest of nothing, as `printf '' | openssl dgst -sha256 -binary | basenc --base64url` prints it.
    empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    text = b'"a,b/c",sha256=47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU,0\nd-1.dist-info/RECORD,,\n'
    table = (RecordRow("a,b/c", empty, 0), RecordRow("d-1.dist-info/RECORD", None, None))
    assert render_record(table) == text
    assert parse_record(text) == table
    assert parse_record(text.replace(b"\n", b"\r\n")) == table
    with pytest.raises(InvalidWheel, match="line 2"):
        parse_record(b"a,,\nb\n")
    with pytest.raises(InvalidWheel, match="cannot be read"):
        parse_record(b"\xff,,\n")


@pytest.mark.parametrize("end", [b"\n", b"\r\n"])
def test_headers_are_added_behind_the_others_and_nothing_else_changes(end: bytes) -> None:
    head = end.join([b"Metadata-Version: 2.1", b"Name: demo", b"License: one", b"  ", b"        two"])
    added = end.join([b"", b"Provides-Extra: a", b"Requires-Dist: b"])
    for body in (b"", end, end + end + b"Name: no header" + end + end + b"text \xff"):
        lines = ["Provides-Extra: a", "Requires-Dist: b"]
        expected = head + added + (body or end)
        assert add_headers(head + body, lines) == expected


def test_header_fields_keep_their_text() -> None:
    text = b"Name:  demo\r\nLicense: one\r\n        two\r\nX: \xff\r\n\r\nName: no header\r\n"
    assert header_fields(text) == (
        ("name", "Name:  demo"),
        ("license", "License: one\n        two"),
        ("x", "X: \udcff"),
    )
    assert header_fields(b"") == ()

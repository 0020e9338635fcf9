"""Whatever the texts of a wheel or an sdist hold: the check tells findings and no traceback."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from spoiled import spoiled

from rocwright.check.run import check_paths
from wheels import AMD, variants, write_sdist, write_variant, write_wheel

INFO = "triton-1.0.dist-info"
TEXTS = {
    f"{INFO}/METADATA": (
        "Metadata-Version: 2.4\nName: triton\nVersion: 1.0\nRequires-Python: >=3.9,<4\nDynamic: Author\n"
        "License-Expression: MIT OR Apache-2.0\nLicense-File: LICENSE\nProvides-Extra: dev\n"
        "Requires-Dist: rocm[libraries]==7.1; python_version >= '3.9' and extra == 'dev'\n"
        "Requires-Dist: numpy>=1.23,<3,!=2.0.*\nRequires-Dist: a @ https://example.org/a-1.0.tar.gz\n\ntext\n"
    ),
    f"{INFO}/WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: py3-none-any\nBuild: 1\n",
    f"{INFO}/direct_url.json": '{"url": "file:///build", "vcs_info": {"vcs": "git"}, "dir_info": {}}',
    f"{INFO}/top_level.txt": "triton\ntriton.backends\n",
    f"{INFO}/entry_points.txt": "[console_scripts]\nrun = triton:main [dev]\n[gui_scripts]\nx=other.a:b.c\n",
    f"{INFO}/sboms/bom.json": '{"bomFormat": "CycloneDX", "specVersion": "1.6", "components": []}',
    "triton.pth": "import triton; triton.install()\ntriton/more\n# text\n",
    "a-nspkg.pth": "import sys, types; sys.modules.setdefault('a', types.ModuleType('a'))\n",
    "triton/__init__.py": "__version__ = '1.0'\ndef main() -> None: ...\n",
}
SDIST = {
    "PKG-INFO": (
        "Metadata-Version: 2.2\nName: rocm\nVersion: 7.1\nDynamic: Requires-Dist\nProvides-Extra: libraries\n"
        "Requires-Dist: rocm-sdk-core==7.1; sys_platform == 'linux'\n\ntext\n"
    ),
    "pyproject.toml": (
        "[build-system]\nrequires = ['setuptools>=61', 'rocm-sdk-core==7.1']\n"
        "build-backend = 'own.part:run'\nbackend-path = ['tools']\n[project]\nname = 'rocm'\n"
    ),
    "tools/own/part.py": "run = 1\n",
    "rocm_set.json": '{"families": {"gfx90X": ["gfx906", "gfx908"]}}',
}
# What a field or a value may be taken for, and what parsers stumble over.
PIECES = (
    b"\n", b"\n\n", b"\r", b"\0", b"\xff", b"\xef\xbb\xbf", b"\x0b", b"\x85", "\u2028".encode(),
    b"\xed\xa0\x80",
    b":", b"=", b";", b"@", b"[", b"]", b"{", b"}", b"(", b"'", b'"', b"\\", b"#", b"..", b"/", b"*", b"-",
    b"~=",
    b"1", b"1.5", b"1e999", b"true", b"null", b"[]", b"{}", b"[[]]", b"{'a' = 1}", b"2026-11-26", b"nan",
    b"9" * 5000, b"[" * 2000, b"(" * 2000, b"a." * 500, b"===x", b"==1.*", b">=1.0+local", b"extra == ''",
    b"or", b"and", b"not in", b"%(x)s", b"py2.py3-none-any", b"-" * 5, b"\\ud800", b"\\uffff", b"${x}", b"%s",
)  # fmt: skip


def wheel_and_sdist(folder: Path, chance: random.Random) -> list[Path]:
    often = chance.choice((0.15, 0.5))
    files = {
        name: spoiled(text, chance, PIECES) if chance.random() < often else text
        for name, text in TEXTS.items()
    }
    texts = {
        name: spoiled(text, chance, PIECES) if chance.random() < often else text
        for name, text in SDIST.items()
    }
    wheel = write_wheel(folder, "triton", "1.0", files, tag="py3-none-any", without=["METADATA", "WHEEL"])
    return [wheel, write_sdist(folder, "rocm", "7.1", texts)]


@pytest.mark.parametrize("closed", [False, True])
def test_no_text_stops_the_check(closed: bool, tmp_path: Path) -> None:
    chance = random.Random(7)
    for _ in range(60):
        report = check_paths(wheel_and_sdist(tmp_path, chance), closed=closed, targets=["gfx906"])
        assert len(report.files) == 2


def test_no_statement_of_variants_stops_the_check(tmp_path: Path) -> None:
    chance, told = random.Random(8), set()
    both = {"amd": {"gfx_arch": ["gfx906", "gfx90a"]}, "x86_64": {"level": ["v3"]}}
    good = json.dumps(variants({"sharp": both}, amd=AMD, x86_64={"requires": ["x86-provider"]}))
    stated = tmp_path / "lynx-1.0-variants.json"
    for _ in range(80):
        inside, beside = (spoiled(good, chance, PIECES) if chance.random() < 0.7 else good for _ in "ab")
        wheel = write_variant(tmp_path, "lynx", "1.0", "sharp", {}, stated=inside)
        stated.write_bytes(beside if isinstance(beside, bytes) else beside.encode())
        report = check_paths([tmp_path])
        assert report.files == (wheel.name,)
        told |= {one.rule for one in report.findings}
    assert {"variant-label", "variants-json"} <= told


# Python makes no number of them, and packaging compares versions by numbers.
DIGITS = "9" * 5000


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        (f"Version: {DIGITS}", "metadata-identity"),
        (f"Metadata-Version: {DIGITS}.1", "metadata-fields"),
        (f"Requires-Python: >=3.{DIGITS}", "metadata-fields"),
        (f"Requires-Dist: numpy>={DIGITS}", "requirement-malformed"),
        (f"Requires-Dist: numpy; python_version > '{DIGITS}'", "requirement-malformed"),
    ],
)
def test_numbers_that_no_version_has(line: str, rule: str, tmp_path: Path) -> None:
    key = line.partition(":")[0]
    name = f"{INFO}/METADATA"
    kept = [one for one in TEXTS[name].splitlines() if not one.startswith(f"{key}:")]
    files = {**TEXTS, name: "\n".join([line, *kept])}
    wheel = write_wheel(tmp_path, "triton", "1.0", files, tag="py3-none-any", without=["METADATA", "WHEEL"])
    assert rule in {one.rule for one in check_paths([wheel], closed=True).findings}


def test_the_texts_are_good_before_they_are_spoiled(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, "triton", "1.0", TEXTS, tag="py3-none-any", without=["METADATA", "WHEEL"])
    found = {one.rule for one in check_paths([wheel, write_sdist(tmp_path, "rocm", "7.1", SDIST)]).findings}
    assert not found & {
        "readable",
        "structure",
        "metadata-identity",
        "metadata-hidden",
        "wheel-file",
        "commands",
    }

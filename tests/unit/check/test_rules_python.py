"""Python as the interpreter sees it: whole wheels are judged, and CPython itself is asked to import them."""

from __future__ import annotations

import ast
import random
import re
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocwright.check.gather import gather, inside_python
from rocwright.check.run import check_paths
from wheels import write_wheel

NEW = {
    "merge-marks", "python-syntax", "python-compiles", "python-newer", "python-unread", "import-missing",
    "import-later", "import-outside", "module-hidden", "commands", "plugins",
    "script-interpreter", "module-version", "torch-hip",
}  # fmt: skip
MERGE = "<<<<<<< HEAD\nLIMIT = 1\n=======\nLIMIT = 2\n>>>>>>> main\n"
ENTRY = "{info}/entry_points.txt"


def found(
    folder: Path, files: Mapping[str, str | bytes], *, project: str = "demo", **options: object
) -> list[tuple[str, str]]:
    """Rule and severity of what this page is about, in a wheel of any platform."""
    info = f"{project}-1.0.dist-info"
    members = {name.format(info=info, data=f"{project}-1.0.data"): text for name, text in files.items()}
    path = write_wheel(folder, project, "1.0", members, **{"tag": "py3-none-any", **options})
    return [(one.rule, one.severity) for one in check_paths([path]).findings if one.rule in NEW]


def imports(folder: Path, name: str = "demo") -> bool:
    """Whether CPython imports a package of the only wheel in a folder."""
    [wheel] = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    code = f"import sys; sys.path.insert(0, {str(folder / 'site')!r}); import {name}"
    return subprocess.run([sys.executable, "-I", "-c", code], capture_output=True).returncode == 0


BROKEN = {
    "a cut source": {"demo/__init__.py": "from .a import f\n", "demo/a.py": "def f(\n"},
    "return outside of a function": {"demo/__init__.py": "x = 1\nreturn x\n"},
    "a zero byte": {"demo/__init__.py": b"x = 1\0\n"},
    "no UTF-8": {"demo/__init__.py": b"x = '\xff'\n"},
}
LOST = {
    "a name of a module": {"demo/__init__.py": "from .a import f\n", "demo/a.py": "def g(): pass\n"},
    "a name of another module's": {
        "demo/__init__.py": "from . import a\n",
        "demo/a.py": "from demo.b import (f,\n    g)\n",
        "demo/b.py": "if 1:\n    import os as f\n",
    },
    "a module": {"demo/__init__.py": "from .a import f\n"},
    "a module in brackets": {
        "demo/__init__.py": "from . import (\n    a,  # one\n    b,\n)\n",
        "demo/a.py": "",
    },
    "a module by its whole name": {"demo/__init__.py": "import demo.a.b\n", "demo/a/__init__.py": ""},
    "a module of a module": {"demo/__init__.py": "from . import a\n", "demo/a.py": "from demo.b import x\n"},
    "a module above": {"demo/__init__.py": "import demo.a\n", "demo/a/__init__.py": "from ..b import x\n"},
    "what lies above all packages": {"demo/__init__.py": "from .._build import x\n"},
    "an attribute of a package": {"demo/__init__.py": "from .a import f\n", "demo/a/__init__.py": "g = 1\n"},
    "the file of a package": {"demo/__init__.py": "from .a import f\n", "demo/a/b.py": ""},
}
WORKS = {
    "names of a module": {
        "demo/__init__.py": "from .a import b, c, d, e, f, g, h\n",
        "demo/a.py": "import os as b\nfrom os import path as c\ndef d(): pass\nclass e: pass\n"
        "for f in (1,): pass\nif (g := 1): pass\ntry:\n    h = 1\nfinally:\n    pass\n",
    },
    "names put into a module": {
        "demo/__init__.py": "from .a import f\n",
        "demo/a.py": "import sys\nsetattr(sys.modules[__name__], 'f', 1)\n",
    },
    "names of everything in another module": {
        "demo/__init__.py": "from .a import f\n", "demo/a.py": "from .b import *\n", "demo/b.py": "f = 1\n"},
    "a name that a function makes global": {
        "demo/__init__.py": "from .a import f\n",
        "demo/a.py": "def make():\n    global f\n    f = 1\nmake()\n",
    },
    "a module that is tried": {
        "demo/__init__.py": "try:\n    from . import a\nexcept ImportError:\n    a = None\n"},
    "an import in a text": {"demo/__init__.py": '"""Use it:\n\nfrom demo.a import f\n"""\n'},
    "an import in an open text": {
        "demo/__init__.py": "x = '''\nfrom . import \\'''\nfrom . import b'''\n"},
    "an import for types": {
        "demo/__init__.py": "TYPE_CHECKING = 0\nif TYPE_CHECKING:\n    from . import a\n"},
    "names made up": {
        "demo/__init__.py": "from .a import f\n",
        "demo/a/__init__.py": "def __getattr__(name):\n    return 1\n",
    },
    "modules made up": {
        "demo/__init__.py": "import sys\nfrom . import a\n",
        "demo/a/__init__.py": "import sys\nsys.modules['demo.a.b'] = sys\nimport demo.a.b\n",
    },
    "an attribute": {
        "demo/__init__.py": "from .a import f\n", "demo/a/__init__.py": "for f in (1,):\n    pass\n"},
    "a namespace": {
        "demo/__init__.py": "import demo.a.b\nfrom .a import b\n", "demo/a/b.py": ""},
    "itself as init": {"demo/__init__.py": "x = 1\n", "demo/a.py": "from .__init__ import x\n"},
    "another platform's module": {"demo/__init__.py": "", "demo/win.py": "from . import _win\n"},
    "a cookiecutter": {"demo/__init__.py": "", "demo/{{name}}/__init__.py": "import {{name}}\n"},
    "a bad fixture": {"demo/__init__.py": "", "demo/tests/__init__.py": "", "demo/tests/bad.py": "def f(\n"},
    "data": {"demo/__init__.py": "", "demo/skel/main.py": "print 'two'\n"},
    "marks in a text": {"demo/__init__.py": f"X = '''\n{MERGE}'''\n"},
    "Windows' line ends, a BOM and a cookie": {
        "demo/__init__.py": b"\xef\xbb\xbf# coding: utf-8\r\nfrom . import a\r\n",
        "demo/a.py": b"# coding: latin-1\nx = '\xff'\n"
    },
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_what_does_not_compile_is_an_error_where_it_is_imported(tmp_path: Path, case: str) -> None:
    assert found(tmp_path, BROKEN[case]) == [("python-syntax", "error")]
    assert not imports(tmp_path)


@pytest.mark.parametrize("case", LOST)
def test_an_import_that_leads_nowhere_is_an_error(tmp_path: Path, case: str) -> None:
    assert found(tmp_path, LOST[case]) == [("import-missing", "error")]
    assert not imports(tmp_path)


@pytest.mark.parametrize("case", WORKS)
def test_what_python_imports_is_not_reported(tmp_path: Path, case: str) -> None:
    assert found(tmp_path, WORKS[case]) == []
    assert imports(tmp_path)


# No interpreter is asked: an empty file stands for an extension that makes modules while it runs.
MADE = {
    "a module that its declaration tells of": {
        "demo/__init__.py": "from ._all import *\nfrom . import b\nfrom .a import f\n",
        "demo/_all.cpython-311-x86_64-linux-gnu.so": "",
        "demo/a.pxd": "",
        "demo/b.pyi": "",
    },
    "declarations below an extension": {
        "demo/__init__.py": "from demo._C._inner import f\nfrom demo._C.other import g\n",
        "demo/_C.cpython-311-x86_64-linux-gnu.so": "",
        "demo/_C/__init__.pyi": "",
        "demo/_C/_inner/deep.pyi": "",
    },
}


@pytest.mark.parametrize("case", MADE)
def test_modules_that_an_extension_makes_are_not_missed(tmp_path: Path, case: str) -> None:
    assert found(tmp_path, MADE[case]) == []
    lacking = {name: text for name, text in MADE[case].items() if name.endswith("__init__.py")}
    assert ("import-missing", "error") in found(tmp_path / "lacking", lacking)


def test_a_module_that_nothing_imports_at_once_is_a_warning(tmp_path: Path) -> None:
    files = {"demo/__init__.py": "", "demo/late.py": "def f(\n"}
    assert found(tmp_path, files) == [("python-compiles", "warning")]
    assert imports(tmp_path) and not imports(tmp_path, "demo.late")


OUTSIDE = {
    "nobody's": ("import os_v2\n", [], ["import-outside"]),
    "nobody's, beside what is required": ("import numpy, setuptools_v2.x\n", ["numpy"], ["import-outside"]),
    "Python's": ("import os, tomllib, distutils.core, _winapi\n", [], []),
    "of what is required": ("import markupsafe\nfrom numpy import array\n", ["jinja2", "numpy>=1"], []),
    "perhaps of what something requires": ("import other, another\n", ["other", "numpy"], []),
    "perhaps of what is required": ("import yaml\n", ["PyYAML"], []),
    "tried": ("try:\n    import os_v2\nexcept ImportError:\n    pass\n", [], []),
    "known to be somebody's": ("import PIL.Image\n", [], []),
}


@pytest.mark.parametrize("case", OUTSIDE)
def test_an_import_of_what_nobody_has_is_an_error_in_a_complete_set(tmp_path: Path, case: str) -> None:
    text, requires, expected = OUTSIDE[case]
    path = write_wheel(
        tmp_path, "demo", "1.0", {"demo/__init__.py": text}, tag="py3-none-any", requires=requires
    )
    report = check_paths([path], closed=True)
    assert [one.rule for one in report.findings if one.rule in NEW] == expected
    assert [one.rule for one in check_paths([path]).findings if one.rule in NEW] == []


@pytest.mark.parametrize(
    ("package", "expected"),
    [
        ("g = 1\n", [("module-hidden", "warning")]),
        ("def f(): pass\n", []),
        ("from .b import *\n", []),
        ("", [("module-hidden", "warning")]),
    ],
)
def test_a_module_that_a_package_hides(tmp_path: Path, package: str, expected: list[tuple[str, str]]) -> None:
    files = {"demo/__init__.py": "", "demo/a.py": "f = 1\n", "demo/a/__init__.py": package}
    assert found(tmp_path, files) == expected


def test_a_source_of_another_python_is_not_judged(tmp_path: Path) -> None:
    newer = f">=3.{sys.version_info.minor + 1}"
    assert found(tmp_path / "newer", BROKEN["a cut source"], python=newer) == []
    assert found(tmp_path / "old", {"demo/__init__.py": "print 'two'\n"}, tag="py2-none-any") == []


@pytest.mark.parametrize(
    ("python", "text", "expected"),
    [
        (">=3.8", "match 1:\n    case _:\n        pass\n", ["python-newer"]),
        (">=3.10", "match 1:\n    case _:\n        pass\n", []),
        (">=3.8", "match = {}\nmatch[1]: int = 2\n", []),
        (None, "match 1:\n    case _:\n        pass\n", []),
    ],
)
def test_newer_syntax_than_the_wheel_asks_for(
    tmp_path: Path, python: str | None, text: str, expected: list[str]
) -> None:
    rules = [rule for rule, _ in found(tmp_path, {"demo/__init__.py": text}, python=python)]
    assert rules == expected


@pytest.mark.parametrize("name", ["demo/__init__.py", "demo/x.pyi", "demo/x.json", "demo/x.toml", ENTRY])
def test_marks_of_a_merge(tmp_path: Path, name: str) -> None:
    assert found(tmp_path, {name: MERGE}) == [("merge-marks", "error")]


def test_a_heading_is_no_mark(tmp_path: Path) -> None:
    assert found(tmp_path, {"demo/x.rst": MERGE, "demo/x.cfg": "a\n=======\n"}) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[console_scripts]\nx = demo:main\ny = demo.a:C.run\n", []),
        ("[console_scripts]\nx = elsewhere.cli:main\n", []),
        ("[console_scripts]\nx = demo.lost:main\n", ["commands"]),
        ("[console_scripts]\nx = demo:lost\n", ["commands"]),
        ("[gui_scripts]\nx = demo\n", ["commands"]),
        ("[console_scripts]\nx = demo main\n", ["commands"]),
        ("x = demo:main\n", ["commands"]),
        ("[demo.plugins]\nx = demo.lost\n", []),
    ],
)
def test_commands(tmp_path: Path, text: str, expected: list[str]) -> None:
    files = {
        "demo/__init__.py": "def main():\n    pass\n",
        "demo/a.py": "class C:\n    run = 1\n",
        ENTRY: text,
    }
    assert [rule for rule, _ in found(tmp_path, files)] == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("other:main", []),
        ("other.tools.run:go", []),
        ("other:lost", ["commands"]),
        ("other.tools.lost:go", ["commands"]),
        ("nobody:main", []),
    ],
)
def test_commands_that_lead_into_another_wheel_at_hand(
    tmp_path: Path, value: str, expected: list[str]
) -> None:
    files = {
        "other/__init__.py": "def main():\n    pass\n",
        "other/tools/__init__.py": "",
        "other/tools/run.py": "def go():\n    pass\n",
    }
    info = {
        "demo/__init__.py": "",
        "demo-1.0.dist-info/entry_points.txt": f"[console_scripts]\nx = {value}\n",
    }
    paths = [
        write_wheel(tmp_path, "other", "1.0", files, tag="py3-none-any"),
        write_wheel(tmp_path, "demo", "1.0", info, tag="py3-none-any"),
    ]
    assert [one.rule for one in check_paths(paths).findings if one.rule in NEW] == expected


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("#!python", []),
        ("#!/usr/bin/env python3", []),
        ("#!/usr/bin/python3", []),
        ("#!/bin/sh", []),
        ("#!/build/venv/bin/python3.11", ["script-interpreter"]),
        ("#! /opt/python/cp311-cp311/bin/python", ["script-interpreter"]),
    ],
)
def test_scripts(tmp_path: Path, line: str, expected: list[str]) -> None:
    files = {"demo/__init__.py": "", "{data}/scripts/run": f"{line}\nprint(1)\n"}
    assert [rule for rule, _ in found(tmp_path, files)] == expected


@pytest.mark.parametrize(
    ("said", "expected"),
    [("1.0", []), ("1.0+rocm7", []), ("1.1", ["module-version"]), ("unknown", [])],
)
def test_a_version_in_the_package(tmp_path: Path, said: str, expected: list[str]) -> None:
    files = {"triton/__init__.py": f"__version__ = '{said}'\n"}
    assert [rule for rule, _ in found(tmp_path, files, project="triton")] == expected


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("hip = '7.1.25421'\n", []),  # ROCm 7.10 has this HIP
        ("hip = '7.1.25421'\nrocm = '7.10.0'\n", []),
        ("hip = '6.4.43483'\n", ["torch-hip"]),
        ("hip = '7.1.25421'\nrocm = '7.2.0'\n", ["torch-hip"]),
    ],
)
def test_a_torch_of_another_rocm(tmp_path: Path, lines: str, expected: list[str]) -> None:
    files = {"torch/version.py": f"__version__ = '1.0'\n{lines}"}
    requires = ["rocm[libraries]==7.10.0"]
    assert [rule for rule, _ in found(tmp_path, files, project="torch", requires=requires)] == expected


# -- the reader


def test_many_sources_are_read_by_a_process_beside(tmp_path: Path) -> None:
    filler = "".join(f"VALUE_{number} = {number}\n" for number in range(6000))
    files = {"demo/__init__.py": "from . import a, lost\n", "demo/a.py": filler, "demo/b.py": "def f(\n"}
    expected = [("python-compiles", "warning"), ("import-missing", "error")]
    assert found(tmp_path, files) == expected


@pytest.mark.parametrize("end", ["exit 3", "kill -9 $$"])
def test_modules_that_were_not_judged_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    interpreter = tmp_path / "python3"
    interpreter.write_text(f"#!/bin/sh\n{end}\n")
    interpreter.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(interpreter))
    files = {"demo/__init__.py": "".join(f"VALUE_{number} = {number}\n" for number in range(6000))}
    assert found(tmp_path, files) == [("python-unread", "warning")]


@pytest.mark.parametrize("unit", ["(", "-", "x.", "[", "not ", "lambda:", "f'{", "x if y else "])
def test_what_is_nested_too_deeply_ends_no_check(tmp_path: Path, unit: str) -> None:
    files = {"demo/__init__.py": "from . import lost\n", "demo/deep.py": "x = " + unit * 60_000 + "x\n"}
    assert ("import-missing", "error") in found(tmp_path, files)


def test_sources_cut_and_changed_at_random_end_no_check() -> None:
    random.seed(31)
    source = Path(inside_python.__file__).read_bytes()
    for _ in range(150):
        data = bytearray(source[: random.randrange(1, len(source))])
        for _ in range(random.randrange(4)):
            data[random.randrange(len(data))] = random.randrange(256)
        answer = inside_python.look(bytes(data), {"rocwright"})
        try:
            ast.parse(bytes(data))
        except (SyntaxError, ValueError):
            assert "problem" in answer
        else:
            assert "problem" not in answer


@pytest.mark.parametrize(
    "unit", [b"from a import (\n", b"'''\\\n", b'"""', b"import a\n", b"from . import a,\n"]
)
def test_a_source_made_to_take_long_is_read_in_time(unit: bytes) -> None:
    assert isinstance(inside_python.imports(unit * 20_000, {"a"}), list)


def test_a_damaged_source_is_told_by_another_rule(tmp_path: Path) -> None:
    path = write_wheel(tmp_path, "demo", "1.0", {"demo/__init__.py": "x = 1\n" * 50}, tag="py3-none-any")
    data = bytearray(path.read_bytes())
    at = data.index(b"demo/__init__.py") + len("demo/__init__.py")
    data[at : at + 6] = b"\xff" * 6
    path.write_bytes(data)
    facts = gather(path)
    assert facts.python == () and [one.member for one in facts.damaged] == ["demo/__init__.py"]


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        (inside_python._MORE_NAMES, inside_python._MORE_WORDS),
        (inside_python._MORE_MODULES, inside_python._MORE_MODULE_WORDS),
        (inside_python._NEW, inside_python._NEW_WORDS),
    ],
    ids=["more names", "more modules", "new syntax"],
)
@given(data=st.data())
def test_no_word_that_stands_before_a_pattern_hides_what_it_finds(
    pattern: re.Pattern[bytes], words: tuple[bytes, ...], data: st.DataObject
) -> None:
    text = data.draw(st.from_regex(pattern))
    assert any(word in text for word in words), text

"""What a wheel may put into an environment: rules on facts by hand, and archives read in two ways."""

from __future__ import annotations

import random
import struct
import zipfile
from pathlib import Path
from typing import Any

import pytest
from gather_wheels import write
from wheel_facts import findings, ids, only, wheel

from rocwright.check.gather import gather
from rocwright.check.rules import archive, environment
from rocwright.check.run import check_paths
from rocwright.model.findings import Finding

RULES = environment.RULES
NAMESPACE = (
    "import sys, types, os;p = os.path.join(sys._getframe(1).f_locals['sitedir'], *('zope',));"
    "importlib = __import__('importlib.util');m = sys.modules.setdefault('zope', types.ModuleType('zope'));"
    "mp = (m or []) and m.__dict__.setdefault('__path__',[]);(p not in mp) and mp.append(p)\n"
)


def with_pth(text: str, name: str = "x.pth", project: str = "pure", *more: str) -> list[tuple[str, str]]:
    facts = wheel(project, members=["pure/__init__.py", name, *more], texts={name: text})
    return [(finding.rule, finding.severity) for finding in findings(facts, RULES)]


# -- the start of Python


@pytest.mark.parametrize(
    "line",
    [
        "import os; os.system('true')",
        "import\tos",
        "\ufeffimport os",
        "# text\n\nimport os, pure",
        "import pure as os; os.run()",
        "import pure; pure.run(__import__('os').getcwd())",
        "import pure; exec('1')",
        "import pure; (",
        "/opt/rocm/lib/python",
        "C:\\rocm",
        "pure/../../../elsewhere",
        "\\\\server\\share",
    ],
)
def test_a_pth_that_runs_code_or_leads_outside(line: str) -> None:
    assert with_pth(line) == [("startup-code", "error")]


def test_a_pth_that_runs_the_packages_own_code_is_a_warning_outside_of_the_family() -> None:
    assert with_pth("import pure; pure.install()") == [("startup-hook", "warning")]
    facts = wheel("triton", members=["triton/x.py", "x.pth"], texts={"x.pth": "import triton"})
    assert [(one.rule, one.severity) for one in findings(facts, RULES)] == [("startup-hook", "error")]


def test_known_files_of_the_start() -> None:
    assert with_pth("import os; exec('1')", "distutils-precedence.pth", "setuptools") == [
        ("startup-hook", "warning")
    ]
    assert with_pth("import os; exec('1')", "distutils-precedence.pth") == [("startup-code", "error")]
    assert with_pth(NAMESPACE, "zope.x-1-py3.9-nspkg.pth") == []
    assert with_pth(NAMESPACE + "import os; os.system('true')", "zope-nspkg.pth") == [
        ("startup-code", "error")
    ]
    assert with_pth(NAMESPACE.replace("importlib.util", "antigravity"), "a-nspkg.pth") == [
        ("startup-code", "error")
    ]


def test_a_pth_that_names_folders_of_the_wheel_or_lies_in_a_package() -> None:
    assert with_pth("pure/lib\n# import os\n") == []
    assert with_pth("pure\n") == [("startup-hook", "warning")]
    assert with_pth("./pure/lib\n", "x.pth", "pure", "pure/lib/__init__.py") == [("startup-hook", "warning")]
    assert with_pth("import os", "pure/x.pth") == []


@pytest.mark.parametrize(
    "member",
    ["sitecustomize.py", "usercustomize/__init__.py", "pure-1.0.data/purelib/sitecustomize.py",
     "sitecustomize.cpython-311-x86_64-linux-gnu.so", "_virtualenv.py"],
)  # fmt: skip
def test_files_that_python_runs_at_its_start(member: str) -> None:
    assert only(wheel(members=[member]), RULES).rule == "startup-code"


def test_such_files_deeper_in_a_package_are_its_own() -> None:
    assert ids(wheel(members=["pure/sitecustomize.py", "pure/json.py"]), RULES) == []


# -- modules of others


@pytest.mark.parametrize(
    "member",
    ["json.py", "typing/__init__.py", "ssl.cpython-311-x86_64-linux-gnu.so", "numpy/core/x.py",
     "pip/__main__.py", "torch/x.py", "pure-1.0.data/platlib/torch/x.py"],
)  # fmt: skip
def test_names_that_belong_to_others(member: str) -> None:
    finding = only(wheel(members=[member]), RULES)
    assert (finding.rule, finding.severity, finding.members) == ("shadowed-modules", "error", (member,))


@pytest.mark.parametrize(
    ("project", "member", "python"),
    [
        ("argparse", "argparse.py", None),
        ("enum34", "enum/__init__.py", None),
        ("legacy-cgi", "cgi.py", ">=3.8"),
        ("standard-imghdr", "imghdr/__init__.py", ">=3.13"),
        ("pure", "tomllib/__init__.py", ">=3.8"),
        ("pure", "json.py", "<3"),
        ("amd-torch-device-x", "torch/lib/x", None),
        ("pytorch-triton-rocm", "triton/x.py", None),
        ("pure", "json.txt", None),
        ("pure", "numpy-stubs/x.pyi", None),
    ],
)
def test_backports_and_those_whose_names_they_are(project: str, member: str, python: str | None) -> None:
    assert ids(wheel(project, members=[member], headers={"requires_python": python}), RULES) == []


def test_the_tag_says_which_python_it_is_for() -> None:
    assert ids(wheel(members=["cgi.py"], tag="cp312-cp312-linux_x86_64"), RULES) == ["shadowed-modules"]
    assert ids(wheel(members=["cgi.py"], tag="cp313-cp313-linux_x86_64"), RULES) == []


# -- files of the environment


@pytest.mark.parametrize(
    "below",
    ["scripts/python", "scripts/python3.11", "scripts/pip", "scripts/activate", "scripts/pip.exe",
     "data/bin/python", "data/pyvenv.cfg", "data/lib/python3.11/site-packages/x.py", "data/bin/pip3",
     "data/lib64/python3.11/os.py", "data/lib64", "scripts/pythonw.exe", "scripts/activate.fish",
     "purelib/numpy-1.0.dist-info/METADATA", "platlib/x.egg-info/PKG-INFO", "rubbish/x", "scripts"],
)  # fmt: skip
def test_what_replaces_files_of_the_environment(below: str) -> None:
    facts = wheel(members=[f"pure-1.0.data/{below}"])
    assert (only(facts, RULES).rule, only(facts, RULES).severity) == ("installed-places", "error")


def test_the_data_of_another_wheel() -> None:
    assert only(wheel(members=["other-2.0.data/scripts/x"]), RULES).rule == "installed-places"


def test_data_that_is_in_its_place() -> None:
    below = [
        "scripts/hg",
        "data/share/man/man1/x.1",
        "data/etc/jupyter/x.json",
        "headers/x.h",
        "data/bin/x",
        "data/lib64/libblosc.so.1",
        "data/lib64/pkgconfig/blosc.pc",
        "scripts/pipx",
        "data/bin/pip-compile",
        "scripts/python-argcomplete-check-easy-install-script",
        "scripts/activate-global-python-argcomplete",
    ]
    assert ids(wheel(members=[f"pure-1.0.data/{one}" for one in below]), RULES) == []
    assert ids(wheel("uv", members=["uv-1.0.data/scripts/uvx"]), RULES) == []


def scripts(text: str, project: str = "pure") -> Any:
    return wheel(project, texts={f"{project}-1.0.dist-info/entry_points.txt": text})


@pytest.mark.parametrize("name", ["../../x", "a/b", "a\\b", "python", "python3", "pip", "activate", ".."])
def test_scripts_with_names_of_others(name: str) -> None:
    finding = only(scripts(f"[console_scripts]\nok = pure:run\n{name} = pure:run\n"), RULES)
    assert (finding.rule, finding.severity) == ("script-names", "error")


def test_scripts_with_names_of_their_own() -> None:
    assert ids(scripts("[console_scripts]\npip = pip:main\npip3 = pip:main\n", "pip"), RULES) == []
    assert (
        ids(scripts("[pure.plugins]\na/b = pure:run\n[gui_scripts]\n# a/b = x\npure.x-y = p:q\n"), RULES)
        == []
    )


def test_none_can_be_waived_where_it_attacks() -> None:
    fixed = {rule.id for rule in (*RULES, *archive.RULES) if not rule.waivable}
    assert {"startup-code", "installed-places", "script-names", "archive-layout", "name-clash"} <= fixed


# -- names


@pytest.mark.parametrize("letter", ["\u202e", "\u2066", "\u200b", "\ufeff", "\0", "\n", "\x7f"])
def test_names_that_people_read_as_others(letter: str) -> None:
    assert only(wheel(members=[f"pure/a{letter}b"]), archive.RULES).rule == "member-names"


@pytest.mark.parametrize(
    "names",
    [
        ["pure/a", "pure/a/b"],
        ["pure/\u00e4", "pure/a\u0308"],
        ["pure/a.py", "pure-1.0.data/purelib/pure/a.py"],
        ["pure/" + "\u00e4" * 128],
    ],
)
def test_names_that_clash_on_disk(names: list[str]) -> None:
    assert only(wheel(members=names), archive.RULES).rule == "name-clash"


def test_case_counts_where_systems_are_blind_to_it() -> None:
    names = ["pure/a.py", "pure/A.py"]
    assert ids(wheel(members=names, tag="cp311-cp311-macosx_11_0_arm64"), archive.RULES) == ["name-clash"]
    assert ids(wheel(members=names), archive.RULES) == []


def test_a_folder_with_an_entry_of_its_own_is_no_clash() -> None:
    assert ids(wheel(members=["pure/", "pure/a", "pure/" + "a" * 255]), archive.RULES) == []


# -- the archive


def door(path: Path) -> list[Finding]:
    return list(check_paths([path]).findings)


def good(folder: Path) -> Path:
    return write(folder, {"demo/__init__.py": b"x = 1\n" * 9, "demo/\u00e4.txt": b"text"})


def changed(folder: Path, change: Any) -> Path:
    path = good(folder)
    path.write_bytes(change(path.read_bytes()))
    return path


def end(data: bytes) -> tuple[int, ...]:
    return struct.unpack("<4s4H2LH", data[-22:])


def hidden(data: bytes) -> bytes:
    """A member between the last one and the directory, which the directory does not list."""
    *head, size, start, comment = end(data)
    evil = struct.pack("<4s5H3L2H", b"PK\3\4", 20, 0, 0, 0, 33, 0, 0, 0, 4, 0) + b"evil"
    tail = struct.pack("<4s4H2LH", *head, size, start + len(evil), comment)
    return data[:start] + evil + data[start:-22] + tail


def counted(data: bytes) -> bytes:
    mark, a, b, here, total, size, start, comment = end(data)
    return data[:-22] + struct.pack("<4s4H2LH", mark, a, b, here - 1, total - 1, size, start, comment)


CHANGES = {
    "a script in front": lambda data: b"#!/bin/sh\n" + data,
    "an archive in front": lambda data: data + data,
    "bytes behind": lambda data: data + b"more",
    "a hidden member": hidden,
    "a false count": counted,
    "several parts": lambda data: data[:-18] + b"\1\0" + data[-16:],
}


@pytest.mark.parametrize("name", CHANGES)
def test_archives_that_readers_see_differently(name: str, tmp_path: Path) -> None:
    path = changed(tmp_path, CHANGES[name])
    assert [(one.rule, one.severity) for one in door(path)] == [("archive-layout", "error")]
    assert zipfile.ZipFile(path).namelist()  # Python's reader takes it without a word


@pytest.mark.parametrize("between", [b"", struct.pack("<H", 22)])
def test_a_second_end_behind_the_first_or_in_its_comment(between: bytes, tmp_path: Path) -> None:
    path = changed(tmp_path, lambda data: data[: len(data) - len(between)] + between + data[-22:])
    assert [one.rule for one in door(path)] == ["readable"]


def test_archives_that_lie_as_they_should(tmp_path: Path) -> None:
    assert door(good(tmp_path)) == []
    path = good(tmp_path)
    with zipfile.ZipFile(path, "a") as archive_:
        archive_.comment = b"built by hand"
    assert gather(path).layout == ()
    streamed = tmp_path / "demo-2.0-py3-none-any.whl"
    with streamed.open("wb") as stream, zipfile.ZipFile(_Pipe(stream), "w", zipfile.ZIP_DEFLATED) as out:
        out.writestr("demo/a.py", b"x = 1\n" * 99)
        with out.open("demo/b.py", "w", force_zip64=True) as member:
            member.write(b"y")
    assert gather(streamed).layout == ()


class _Pipe:
    """A stream that cannot go back, for which zipfile writes descriptors behind members."""

    def __init__(self, stream: Any) -> None:
        self.write, self.flush = stream.write, stream.flush


def test_no_damage_to_an_archive_stops_the_check(tmp_path: Path) -> None:
    data, chance = good(tmp_path).read_bytes(), random.Random(31)
    path = tmp_path / good(tmp_path).name
    for _ in range(400):
        bad = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            at = chance.choice([chance.randrange(len(bad)), len(bad) - chance.randrange(1, 400)])
            bad[at : at + chance.choice([0, 1, 4])] = chance.randbytes(chance.choice([1, 4]))
        path.write_bytes(bad)
        assert gather(path).path == path

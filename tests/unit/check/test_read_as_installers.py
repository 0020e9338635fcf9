"""METADATA, WHEEL, sdists and a set's choice of files, as pip, uv and packaging read them."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pytest
import set_facts
from packaging.metadata import parse_email

from index_server import serving
from rocwright.check.facts import ElfFacts
from rocwright.check.run import check_paths
from rocwright.system import venv
from wheels import write_sdist, write_wheel

HEAD = b"Metadata-Version: 2.1\nName: pure\nVersion: 1.0\n"
WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
ANY = "py3-none-any"


def found(path: Path) -> list[tuple[str, str]]:
    return [(one.rule, one.cause) for one in check_paths([path]).findings]


def with_metadata(folder: Path, data: bytes) -> Path:
    name = "pure-1.0.dist-info/METADATA"
    return write_wheel(
        folder, "pure", "1.0", {"pure/__init__.py": "", name: data}, tag=ANY, without=["METADATA"]
    )


def with_wheel(folder: Path, text: str) -> Path:
    name = "pure-1.0.dist-info/WHEEL"
    return write_wheel(
        folder, "pure", "1.0", {"pure/__init__.py": "", name: text}, tag=ANY, without=["WHEEL"]
    )


# -- METADATA


@pytest.mark.parametrize(
    ("data", "line"),
    [
        (HEAD + b"Summary: a\n\nRequires-Dist: x\n\ntext\n", "Requires-Dist: x"),
        (HEAD + b"Summary a\nRequires-Python: >=3.8\n\ntext\n", "Requires-Python: >=3.8"),
        (HEAD + b"\n\nRequires-Dist: x\nRequires-Dist: y\n", "Requires-Dist: x"),
        (b"\n" + HEAD, "Metadata-Version: 2.1"),
        (b"\xef\xbb\xbf" + HEAD, "Metadata-Version: 2.1"),
    ],
)
def test_fields_behind_the_end_of_the_headers(data: bytes, line: str, tmp_path: Path) -> None:
    # The witness reads none of it.
    assert not parse_email(data)[0].get("requires_dist")
    [(rule, cause)] = found(with_metadata(tmp_path, data))
    assert rule == "metadata-hidden"
    assert repr(line)[1:-1] in cause


@pytest.mark.parametrize(
    "body",
    [
        b"Requires some time: to read\n",
        b"Name: a game\nLicense: MIT\n",
        b"# x\n\nRequires-Dist: y\n",
        b"---\nname: x\n",
    ],
)
def test_a_description_may_speak_of_fields(body: bytes, tmp_path: Path) -> None:
    assert found(with_metadata(tmp_path, HEAD + b"\n" + body)) == []


def test_what_is_only_written_otherwise(tmp_path: Path) -> None:
    folded = HEAD + b"Requires-Dist: x>=1\nLicense: MIT\n        and more\n\ntext"
    for data in (folded, folded.replace(b"\n", b"\r\n")):
        assert found(with_metadata(tmp_path, data)) == []


@pytest.mark.parametrize(
    ("more", "rule", "words"),
    [
        (b"Version: 2.0\n", "metadata-identity", "Version is given 2 times (1.0, 2.0)"),
        (b"Name: other\n", "metadata-identity", "Name is given 2 times (pure, other)"),
        (
            b"Requires-Python: >=3.8\nRequires-Python: <4\n",
            "metadata-fields",
            "Requires-Python is given 2 times",
        ),
        (b"Author: Andr\xe9\n", "metadata-fields", "line 4 of its metadata has bytes that are not UTF-8"),
        (b"\n\ntext\xff\n", "metadata-fields", "line 6 of its metadata has bytes that are not UTF-8"),
        (b"Requires-Dist: x\n  >=1\n", "requirement-malformed", "'x\\n  >=1' is malformed"),
        (b"License-Expression: MIT\n", "metadata-upload", "came with metadata 2.4, and this is 2.1"),
        (b"Dynamic: Version\n", "metadata-upload", "Dynamic names Version"),
    ],
)
def test_a_field_that_readers_disagree_about(more: bytes, rule: str, words: str, tmp_path: Path) -> None:
    [(told, cause)] = found(with_metadata(tmp_path, HEAD + more))
    assert told == rule
    assert words in cause


def test_no_bytes_stop_the_reader(tmp_path: Path) -> None:
    pick = random.Random(5)
    good = HEAD + b"Requires-Dist: x>=1\nRequires-Python: >=3.8\n\ntext\n"
    for number in range(150):
        data = bytearray(good)
        for _ in range(pick.randint(1, 6)):
            at = pick.randrange(len(data))
            data[at : at + pick.randint(0, 3)] = pick.choice(
                [b"\n\n", b"\xff", b"\0", b":", b"\r", b" ", bytes([at])]
            )
        assert check_paths([with_metadata(tmp_path / str(number), bytes(data))]).files


# -- WHEEL, and what lies beside


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("Wheel-Version: 1.0\n", "", "Wheel-Version in WHEEL is missing"),
        ("Wheel-Version: 1.0", "Wheel-Version: 2.0", "is of a format that no installer knows"),
        ("Wheel-Version: 1.0", "Wheel-Version: one", "'one'"),
        ("Root-Is-Purelib: true\n", "", "Root-Is-Purelib in WHEEL is missing"),
        ("true", "yes", "Root-Is-Purelib in WHEEL is 'yes'"),
        ("Tag", "Root-Is-Purelib: false\nTag", "Root-Is-Purelib in WHEEL is 'true', 'false'"),
    ],
)
def test_a_wheel_file_that_says_too_little(old: str, new: str, words: str, tmp_path: Path) -> None:
    assert found(with_wheel(tmp_path, WHEEL)) == []
    [(rule, cause)] = found(with_wheel(tmp_path / "bad", WHEEL.replace(old, new)))
    assert rule == "wheel-file"
    assert words in cause


@pytest.mark.parametrize("file", ["direct_url.json", "INSTALLER", "REQUESTED"])
def test_what_only_installers_write(file: str, tmp_path: Path) -> None:
    path = write_wheel(tmp_path, "pure", "1.0", {f"pure-1.0.dist-info/{file}": "{}"}, tag=ANY)
    [finding] = check_paths([path]).findings
    assert (finding.rule, finding.severity) == ("installer-files", "warning")


@pytest.mark.parametrize(
    ("text", "told"),
    [("gone\n", True), ("pure\ngone\n", False), ("_c\n", False), ("\n", False), ("pure.sub", False)],
)
def test_top_level_names_something(text: str, told: bool, tmp_path: Path) -> None:
    files = {
        "pure/__init__.py": "",
        "pure-1.0.data/purelib/_c.py": "",
        "pure-1.0.dist-info/top_level.txt": text,
    }
    rules = [rule for rule, _ in found(write_wheel(tmp_path, "pure", "1.0", files, tag=ANY))]
    assert rules == (["top-level"] if told else [])


# -- sdists


def uv_builds(path: Path, folder: Path) -> bool:
    """The witness; uv starts much faster than pip."""
    argv = [
        venv.uv_command(),
        "build",
        "--wheel",
        "--offline",
        "-p",
        sys.executable,
        "-o",
        folder / "w",
        path,
    ]
    return subprocess.run(list(map(str, argv)), capture_output=True, check=False).returncode == 0


BUILD = "[build-system]\nrequires = []\nbuild-backend = 'own'\nbackend-path = ['.']\n"


@pytest.mark.parametrize(
    ("text", "files", "words"),
    [
        ("[build-system\n", {}, "is not valid TOML"),
        ("build-system = 1\n", {}, "no list of requirements"),
        ("[build-system]\nrequires = ['a b']\n", {}, "'a b', which is malformed"),
        (
            "[build-system]\nrequires = []\nbuild-backend = 'own'\n",
            {},
            "neither `requires` nor `backend-path`",
        ),
        (BUILD, {}, "has no such module"),
        (BUILD, {"own.py": "def build_wheel(:\n"}, "cannot be compiled"),
        (BUILD.replace("'.'", "'../up'"), {"own.py": ""}, "leads out of the sdist"),
        (BUILD.replace("'own'", "'own!'"), {"own.py": ""}, "is not the name of a module"),
    ],
)
def test_an_sdist_that_nothing_builds(text: str, files: dict[str, str], words: str, tmp_path: Path) -> None:
    path = write_sdist(tmp_path, "pure", "1.0", {"pyproject.toml": text, **files})
    [(rule, cause)] = found(path)
    assert rule == "sdist-build"
    assert words in cause
    assert not uv_builds(path, tmp_path)


@pytest.mark.parametrize(
    ("text", "files"),
    [
        (BUILD, {"own.py": ""}),
        (BUILD, {"own/__init__.py": ""}),
        (BUILD.replace("'own'", "'own.part:backend'").replace("'.'", "'tools'"), {"tools/own/part.py": ""}),
        ("[build-system]\nrequires = ['hatchling']\nbuild-backend = 'hatchling.build'\n", {}),
        ("[project]\nname = 'pure'\n", {}),
    ],
)
def test_an_sdist_that_can_be_built(text: str, files: dict[str, str], tmp_path: Path) -> None:
    assert found(write_sdist(tmp_path, "pure", "1.0", {"pyproject.toml": text, **files})) == []


def test_the_witness_builds_a_good_sdist(tmp_path: Path) -> None:
    own = (
        "def build_wheel(folder, settings=None, metadata=None):\n"
        "    name = 'pure-1.0-py3-none-any.whl'\n"
        "    open(f'{folder}/{name}', 'w').close()\n"
        "    return name\n"
    )
    path = write_sdist(tmp_path, "pure", "1.0", {"pyproject.toml": BUILD, "own.py": own})
    assert found(path) == []
    assert uv_builds(path, tmp_path)


def test_an_sdist_in_another_folder(tmp_path: Path) -> None:
    path = write_sdist(tmp_path, "other", "1.0", headers="").rename(tmp_path / "pure-1.0.tar.gz")
    assert {rule for rule, _ in found(path)} == {"metadata-identity", "sdist-folder"}


def test_what_builds_an_sdist_is_in_the_set(tmp_path: Path) -> None:
    text = "[build-system]\nrequires = ['rocm-sdk-core==7.1']\n"
    path = write_sdist(tmp_path, "pure", "1.0", {"pyproject.toml": text})
    assert check_paths([path]).findings == ()
    [finding] = check_paths([path], closed=True).findings
    assert (finding.rule, "rocm-sdk-core==7.1" in finding.cause) == ("sdist-build", True)


# -- which file is taken, and for which targets


@pytest.mark.parametrize(
    ("tags", "loser"),
    [
        ((ANY, "1-" + ANY), 0),
        ((ANY, "cp311-cp311-linux_x86_64"), 0),
        (("cp311-cp311-linux_x86_64", "cp311-cp311-manylinux_2_17_x86_64"), 0),
        (("cp311-cp311-manylinux2014_x86_64", "cp311-cp311-manylinux_2_28_x86_64"), 0),
        (("cp39-abi3-linux_x86_64", "cp311-cp311-linux_x86_64"), 0),
        (("cp311-cp311-linux_x86_64", "cp312-cp312-linux_x86_64"), None),
        ((ANY, "cp311-cp311-linux_x86_64", "cp312-cp312-linux_x86_64"), 0),
        (("cp311-cp311-linux_x86_64", "cp311-cp311-win_amd64"), None),
    ],
)
def test_a_file_that_nobody_gets(tags: tuple[str, ...], loser: int | None, tmp_path: Path) -> None:
    paths = []
    for at, tag in enumerate(tags):
        python = tag.split("-", 1)[1] if tag[0].isdigit() else tag
        made = write_wheel(tmp_path / str(at), "pure", "1.0", {"pure/__init__.py": ""}, tag=python)
        paths.append(made.rename(made.with_name(f"pure-1.0-{tag}.whl")))
    told = [one.file for one in check_paths(paths, closed=True).findings if one.rule == "set-outranked"]
    assert told == ([] if loser is None else [paths[loser].name])


@pytest.mark.parametrize("installer", [pytest.param("pip", marks=pytest.mark.slow), "uv"])
def test_installers_take_what_the_rule_says(installer: str, tmp_path: Path) -> None:
    folder = tmp_path / "files"
    here = f"cp{sys.version_info[0]}{sys.version_info[1]}"
    lost = set()
    for project, tags in {"one": (ANY, "1-" + ANY), "two": (ANY, f"{here}-{here}-linux_x86_64")}.items():
        for tag in tags:
            made = write_wheel(
                tmp_path / tag, project, "1", {f"{project}.py": ""}, tag=tag.removeprefix("1-")
            )
            folder.mkdir(exist_ok=True)
            made.rename(folder / f"{project}-1-{tag}.whl")
    for finding in check_paths([folder], closed=True).findings:
        assert finding.rule == "set-outranked"
        lost.add(finding.file)
    with serving(folder) as index:
        command = venv.pip_command() if installer == "pip" else [venv.uv_command(), "pip"]
        argv = [*command, "install", "--no-cache-dir" if installer == "pip" else "--no-cache"]
        argv += ["--index-url", index.url(), "--target", str(tmp_path / "there"), "one", "two"]
        subprocess.run(list(map(str, argv)), check=True, capture_output=True)
        taken = set(index.whole())
    assert taken == {path.name for path in folder.iterdir()} - lost
    assert len(taken) == len(lost) == 2


def rocm_of(target: str) -> set_facts.Facts:
    elf = ElfFacts("_rocm_sdk_libraries_x/lib/librocblas.so.4", targets=frozenset({target}))
    return set_facts.wheel("rocm-sdk-libraries-x", "7", requires=(), elf=[elf])


def test_rocm_for_another_target() -> None:
    only_old = [rocm_of("gfx906:xnack-")]
    assert set_facts.found(*only_old, targets=["gfx906"]) == []
    [(rule, _, cause)] = set_facts.found(*only_old, targets=["gfx906", "gfx942"])
    assert rule == "set-targets"
    assert "nothing of ROCm in the set serves gfx942" in cause
    # In an open check the packages for other targets may be elsewhere.
    assert set_facts.set_report(*only_old, targets=["gfx942"], closed=False).findings == ()
    assert set_facts.found(*only_old) == []


def test_generic_code_serves_its_targets() -> None:
    assert set_facts.found(rocm_of("gfx9-4-generic"), targets=["gfx942"]) == []


@pytest.mark.parametrize(
    ("told", "targets", "missing"),
    [
        ({"families": {"a": ["gfx906"], "b": ["gfx1030"]}}, ["gfx906", "gfx1030"], False),
        ({"families": {"a": ["gfx906"]}}, ["gfx942"], True),
        ({"families": [1]}, ["gfx942"], False),
        ([], ["gfx942"], False),
    ],
)
def test_the_targets_that_the_rocm_sdist_leads_to(
    told: object, targets: list[str], missing: bool, tmp_path: Path
) -> None:
    path = write_sdist(tmp_path, "rocm", "7.1", {"rocm_set.json": json.dumps(told)})
    rules = [one.rule for one in check_paths([path], closed=True, targets=targets).findings]
    assert rules == (["set-targets"] if missing else [])

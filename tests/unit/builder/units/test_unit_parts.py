"""Launchers of a part's build: compilers see fewer targets, a fixed unit, paths of no machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from needs import needs
from rocwright.builder.order import require_part
from rocwright.builder.units.launch import launcher_environment, require_launchers, write_launchers
from rocwright.errors import UsageError

ALL = ["--offload-arch=gfx90a", "--offload-arch=gfx942", "--offload-arch=gfx1100"]
XNACK = ["--offload-arch=gfx90a:xnack-", "--offload-arch=gfx90a:xnack+"]
UNIT = ["-x", "hip", "-c", "a/k.hip", "-o", "b/k.o"]


@pytest.fixture
def compiler(tmp_path: Path):
    """A stand-in for clang that tells its arguments, behind the launchers of a part."""
    program = tmp_path / "clang++"
    program.write_text(f"#!{sys.executable}\nimport json, sys\nprint(json.dumps(sys.argv[1:]))\n")
    program.chmod(0o755)
    work = tmp_path / "work"
    write_launchers(work)

    def run(*words: str, part: str = "gfx942", launcher: str = "record-hip", **env: str) -> list[str]:
        values = {**os.environ, "HIP_DEVICE_PART": part, **env}
        command = [str(work / "bin" / launcher), str(program), *words]
        done = subprocess.run(command, env=values, capture_output=True, text=True, check=True, cwd=tmp_path)
        found: list[str] = json.loads(done.stdout)
        return found

    return run


def offload(words: list[str]) -> list[str]:
    return [word.partition("=")[2] for word in words if "arch=" in word]


def test_other_targets_are_left_out_and_the_rest_stays_in_its_order(compiler) -> None:
    seen = compiler(*ALL, "-O2", "-DARCHS=gfx90a gfx942", *UNIT, part="gfx1100;gfx90a")
    assert [word for word in seen if not word.startswith("-cuid=")] == [
        "--offload-arch=gfx90a", "--offload-arch=gfx1100", "-O2", "-DARCHS=gfx90a gfx942", *UNIT,
    ]  # fmt: skip


def test_without_a_part_nothing_changes(compiler) -> None:
    assert compiler(*ALL, *UNIT, part="") == [*ALL, *UNIT]


@pytest.mark.parametrize(
    ("words", "part", "kept"),
    [
        (XNACK, "gfx90a", "gfx90a:xnack- gfx90a:xnack+"),
        (XNACK, "gfx90a:xnack-", "gfx90a:xnack-"),
        (["--offload-arch=gfx90a,gfx942,gfx1100"], "gfx942;gfx1100", "gfx942,gfx1100"),
        (["--cuda-gpu-arch=gfx90a", "--cuda-gpu-arch=gfx942"], "gfx942", "gfx942"),
        (["--offload-arch=gfx90a", "--offload-arch=gfx942"], "gfx94", "gfx90a"),
    ],
)  # fmt: skip
def test_spellings(compiler, words: list[str], part: str, kept: str) -> None:
    assert offload(compiler(*words, *UNIT, part=part)) == kept.split()


def test_a_unit_for_none_of_the_targets_keeps_its_first(compiler) -> None:
    # Without the option clang would take a target of its own.
    assert offload(compiler(*ALL[:2], *UNIT, part="gfx1100")) == ["gfx90a"]
    assert offload(compiler("--offload-arch=gfx942,gfx90a", *UNIT, part="gfx1100")) == ["gfx942"]


def test_a_unit_has_the_same_identity_in_every_part_and_place_and_no_other_has(compiler) -> None:
    def identity(*words: str, **how: str) -> str:
        found = [word for word in compiler(*words, **how) if word.startswith("-cuid=")]
        assert len(found) == 1 and found[0][6:].replace("_", "").isalnum()
        return found[0]

    first = identity(*ALL, "-c", "/one/src/a/k.hip", "-o", "b/k.o", HIP_DEVICE_PART_ROOT="/one/src")
    same = identity(
        *ALL[1:], "-c", "/two/a/k.hip", "-o", "b/k.o", part="gfx1100", HIP_DEVICE_PART_ROOT="/two"
    )
    others = [
        identity(*ALL, "-c", source, "-o", output)
        for source, output in (("a/k.hip", "b/k2.o"), ("a/k2.hip", "b/k.o"), ("a_k.hip", "b/k.o"))
    ]
    assert first == same and len({first, *others}) == 4


def test_an_identity_that_the_build_gives_stays(compiler) -> None:
    for given in ("-cuid=0123", "-fuse-cuid=none"):
        seen = compiler(*ALL, given, *UNIT)
        assert [word for word in seen if "cuid" in word] == [given]


def test_host_code_has_no_paths_of_the_machine(compiler) -> None:
    for launcher, words in (("record-hip", [*ALL, *UNIT]), ("record-host", ["-c", "a.cpp", "-o", "a.o"])):
        seen = compiler(*words, launcher=launcher, HIP_DEVICE_PART_ROOT="/home/me/pytorch")
        assert "-ffile-prefix-map=/home/me/pytorch=." in seen
    assert compiler("a.cpp", "-o", "a.out", launcher="record-host", HIP_DEVICE_PART_ROOT="/x") == [
        "a.cpp", "-o", "a.out",
    ]  # fmt: skip


def test_more_options_go_behind_all_words_of_the_compiler(compiler) -> None:
    words = ("g++", "-c", "a.cpp", "-o", "a.o")
    seen = compiler(*words, launcher="record-host", HIP_DEVICE_PART_ROOT="/x")
    assert seen == ["g++", "-ffile-prefix-map=/x=.", *words[1:]]


def test_below_another_launcher_too(compiler) -> None:
    seen = compiler(*ALL, *UNIT, ROCWRIGHT_UNIT_RUNNING="1")
    assert offload(seen) == ["gfx942"] and sum("cuid" in word for word in seen) == 1


def test_a_build_without_launchers_cannot_make_a_part(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="through launchers"):
        require_launchers(launcher_environment(tmp_path / "two words"))
    with pytest.raises(UsageError, match="through launchers"):
        require_launchers({"CMAKE_HIP_COMPILER_LAUNCHER": "ccache", "HIP_CLANG_LAUNCHER": "ccache"})


def test_a_part_is_of_the_targets_of_the_build() -> None:
    require_part(("gfx90a:xnack-",), ("gfx90a", "gfx942"))
    with pytest.raises(
        UsageError, match="gfx1100 is not a target of this build, which is for gfx90a, gfx942"
    ):
        require_part(("gfx90a", "gfx1100"), ("gfx90a", "gfx942"))


@needs("clang++-19")  # whose symbols have the hash
def test_clang_names_a_unit_alike_in_every_part(tmp_path: Path) -> None:
    (tmp_path / "k.hip").write_text("__attribute__((device)) int on_device = 1;\n")
    work = tmp_path / "work"
    write_launchers(work)

    def symbol(part: str, *targets: str) -> str:
        options = ["-x", "hip", "-nogpuinc", "-nogpulib", "--offload-device-only"]
        options += [f"--offload-arch={target}" for target in targets]
        command = [
            str(work / "bin" / "record-hip"),
            "clang++-19",
            *options,
            "-c",
            "k.hip",
            "-S",
            "-emit-llvm",
        ]
        done = subprocess.run(
            [*command, "-o", "-"],
            env={**os.environ, "HIP_DEVICE_PART": part},
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
        )
        (found,) = set(re.findall(r"__hip_cuid_[0-9a-f]+", done.stdout))
        return str(found)

    alone = {symbol("", "gfx90a"), symbol("", "gfx942")}
    parts = {symbol("gfx90a", "gfx90a", "gfx942"), symbol("gfx942", "gfx90a", "gfx942")}
    assert len(alone) == 2 and len(parts) == 1

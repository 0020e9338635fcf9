"""The image that wheels are tested in is as documented: no ROCm, its user, the groups of the command line."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NAME = "no_rocm_image_ubuntu24_04"
RECIPE = ROOT / f"external-builds/pytorch/dockerfiles/{NAME}.Dockerfile"
PAGE = ROOT / "docs/how-to/test-wheels.md"
# The command line of the reference project's documents.
DOCUMENTED = (
    "sudo docker run -it --device=/dev/kfd --device=/dev/dri --ipc=host --group-add=video --group-add=render"
    f" --group-add=110 ghcr.io/rocm/{NAME}:latest"
)
# In every image of Ubuntu 24.04 (base-passwd).
OF_UBUNTU = {"video"}


def instructions() -> list[str]:
    text = re.sub(r"^#.*\n", "", RECIPE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return [" ".join(line.split()) for line in re.sub(r"\\\n", " ", text).splitlines() if line.strip()]


def test_the_documented_command_line_stands_in_the_page() -> None:
    page = " ".join(PAGE.read_text(encoding="utf-8").replace("\\\n", " ").split())
    assert f"$ {DOCUMENTED}" in page
    assert str(RECIPE.relative_to(ROOT)) in page


def test_groups_that_are_named_on_the_command_line_are_in_the_image() -> None:
    named = set(re.findall(r"--group-add=([a-z]\w*)", DOCUMENTED))
    made = {line.split()[-1] for line in instructions() if line.startswith("RUN groupadd")}
    assert named <= made | OF_UBUNTU


def test_it_is_ubuntu_without_rocm_for_the_user_tester() -> None:
    lines = instructions()
    assert lines[:2] == ["ARG BASE=ubuntu:24.04", "FROM ${BASE}"]
    assert [line for line in lines if line.startswith("USER")] == ["USER tester"]
    (installed,) = (line for line in lines if "apt-get install" in line)
    words = set(installed.split())
    assert {"python3-venv", "python3-dev", "git", "cmake", "ninja-build", "clang", "lld"} <= words
    assert {"libgfortran5", "libatomic1"} <= words
    assert not [word for word in words if re.search(r"rocm|hip|hsa|amdgpu|miopen|sudo", word)]

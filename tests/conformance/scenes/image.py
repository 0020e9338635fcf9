"""The image that wheels are tested in: the documented command line, its recipe, and the jobs that use it."""

from __future__ import annotations

from typing import Any

import yaml

from conformance.cases import row
from conformance.table import Row
from conformance.world import World
from contract.test_image import DOCUMENTED, NAME, instructions

IMAGE = f"ghcr.io/rocm/{NAME}"


def _container(world: World, workflow: str) -> dict[str, Any]:
    """The container of the Linux jobs of a rendered workflow."""
    text = (world.clone() / ".github/workflows" / workflow).read_text(encoding="utf-8")
    jobs = yaml.safe_load(text)["jobs"].values()
    (found,) = (job["container"] for job in jobs if IMAGE in job.get("container", {}).get("image", ""))
    return dict(found)


@row("CL-11", "UR-24")
def jobs_run_the_image_as_documented(world: World, row: Row) -> None:
    *_, image = DOCUMENTED.split()
    assert image == f"{IMAGE}:latest" and image in row.item
    options = {word for word in DOCUMENTED.split() if word.startswith("--")}
    assert options == {"--device=/dev/kfd", "--device=/dev/dri", "--ipc=host", "--group-add=video",
                       "--group-add=render", "--group-add=110"}  # fmt: skip
    for workflow in ("test_pytorch_wheels.yml", "test_rocm_wheels.yml"):
        container = _container(world, workflow)
        # By digest, so that what ran can be run again; not the tag that moves.
        assert container["image"].startswith(f"{IMAGE}@sha256:")
        assert options <= set(container["options"].split())


@row("FD-15")
def the_recipe_is_an_ubuntu_without_rocm(world: World, row: Row) -> None:
    recipe = world.clone() / f"external-builds/pytorch/dockerfiles/{NAME}.Dockerfile"
    assert recipe.is_file()
    lines = instructions()
    assert lines[0] == "ARG BASE=ubuntu:24.04"
    assert "RUN groupadd --gid 109 render" in lines and "USER tester" in lines
    (installed,) = (set(line.split()) for line in lines if "apt-get install" in line)
    assert {"git", "cmake", "ninja-build", "clang", "lld", "libgfortran5", "python3-venv"} <= installed
    assert not [word for word in installed if word.startswith(("rocm", "hip", "libamd", "hsa"))]

"""What the ecosystem's documents call workflows, jobs, inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# (job of the definition, platform) -> job of the workflow, where that is called otherwise.
_JOBS: Mapping[tuple[str, str], str] = {
    ("build_artifacts", "linux"): "build_portable_linux_artifacts",
    ("build_artifacts", "windows"): "build_windows_artifacts",
    ("build_python_packages", "linux"): "build_portable_linux_python_packages",
    ("build_python_packages", "windows"): "build_windows_python_packages",
}


@dataclass(frozen=True)
class Files:
    """Names of a platform's workflows, without suffix."""

    group: str
    build: str
    release: str
    title: str


FILES: Mapping[str, Files] = {
    "linux": Files(
        "ci_linux",
        "build_portable_linux_pytorch_wheels",
        "release_portable_linux_pytorch_wheels",
        "Linux",
    ),
    "windows": Files(
        "ci_windows", "build_windows_pytorch_wheels", "release_windows_pytorch_wheels", "Windows"
    ),
}
# The job of a group's workflow that calls the workflow of a build.
BUILDS = "build_pytorch_wheels"


def shown(job: str, platform: str) -> str:
    """What the workflows of a platform call a job of the definition."""
    return _JOBS.get((job, platform), job)


def calls(platform: str) -> str:
    """The job of the whole run that calls the workflow of each group."""
    return f"{platform}_build_and_test"


def text_input(description: str, *, default: str | None = None) -> dict[str, object]:
    """An input with text; without a default it is required."""
    told: dict[str, object] = {"description": description, "type": "string"}
    return {**told, "required": True} if default is None else {**told, "default": default}

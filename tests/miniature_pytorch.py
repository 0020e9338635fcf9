"""A miniature PyTorch: a source tree with a few tests, and a stand-in for torch, with GPUs nobody has."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from pathlib import Path

from git_repos import git

# A GPU is (gcnArchName or (major, minor), name, uuid); visible ones are chosen as HIP or CUDA does.
_CUDA = """
import os

VARIABLES = {variables!r}


class Properties:
    total_memory = 1 << 30
    multi_processor_count = 1

    def __init__(self, target, name, uuid):
        self.name, self.uuid = name, uuid
        if isinstance(target, str):
            self.gcnArchName, self.major, self.minor = target, 9, 0
        else:
            self.gcnArchName, (self.major, self.minor) = name, target


def _visible():
    gpus = [Properties(*gpu) for gpu in {gpus!r}]
    value = next((os.environ[name] for name in VARIABLES if name in os.environ), None)
    if value is None:
        return gpus
    found = []
    for word in value.split(","):
        fitting = [g for i, g in enumerate(gpus) if word in (str(i), f"GPU-{{g.uuid}}") and g not in found]
        if not fitting:
            break
        found += fitting
    return found


def init():
{init}


def is_available():
    return bool(_visible())


def device_count():
    return len(_visible())


def get_device_properties(index):
{properties}
    return _visible()[index]


def is_initialized():
    return False


def get_arch_list():
    return {archs!r} if is_available() else []
"""


def write_torch(
    folder: Path,
    gpus: list[tuple[object, str, str]],
    archs: list[str],
    *,
    hip: str | None = "7.1.0",
    version: str = "2.9.1+rocm7.1.0",
    git: str = "a" * 40,
    on_import: str = "",
    on_init: str = "pass",
    on_properties: str = "pass",
) -> Path:
    """Write the package below `folder`, which belongs on PYTHONPATH; the `on_…` are statements it runs."""
    package = folder / "torch"
    package.mkdir(parents=True)
    cuda = None if hip else "13.0"
    (package / "__init__.py").write_text(
        f"{on_import}\n__version__ = {version!r}\nfrom torch import _C, cuda, version\n"
    )
    (package / "version.py").write_text(f"git_version = {git!r}\nhip = {hip!r}\ncuda = {cuda!r}\n")
    (package / "_C.py").write_text(f"def _cuda_getArchFlags():\n    return {' '.join(archs)!r}\n")
    variables = ["HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"] if hip else ["CUDA_VISIBLE_DEVICES"]
    (package / "cuda.py").write_text(
        _CUDA.format(
            variables=variables,
            gpus=gpus,
            archs=archs,
            init=textwrap.indent(on_init, "    "),
            properties=textwrap.indent(on_properties, "    "),
        )
    )
    return folder


# Three of two targets, as a workstation with an older card beside two of one kind.
HIP_GPUS: list[tuple[object, str, str]] = [
    ("gfx942:sramecc+:xnack-", "AMD Instinct MI300X", "30313233-3435-3637-3839-616263646566"),
    ("gfx1100", "AMD Radeon RX 7900 XTX", ""),
    ("gfx942:sramecc+:xnack-", "AMD Instinct MI300X", ""),
]


def make_torch(
    directory: Path,
    *,
    version: str = "2.9.0+rocm7.10.0",
    git: str = "Unknown",
    hip: str | None = "7.10.60850",
    targets: Sequence[str] = (),
) -> Path:
    """The stand-in with a GPU of each of these targets, which goes on PYTHONPATH; returns `directory`."""
    gpus: list[tuple[object, str, str]] = [
        (f"{target}:sramecc+:xnack-", f"miniature {target}", "") for target in targets
    ]
    return write_torch(directory, gpus, list(dict.fromkeys(targets)), hip=hip, version=version, git=git)


def make_checkout(directory: Path, tests: dict[str, str], *, version: str = "2.9.0a0") -> Path:
    """Write a source tree with these test files, by their path below test/."""
    (directory / "test").mkdir(parents=True)
    (directory / "version.txt").write_text(version + "\n")
    for name, text in tests.items():
        path = directory / "test" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return directory


def commit_all(directory: Path) -> str:
    """Make the tree a repository, or add to it; returns the commit."""
    git(directory, "init", "--quiet", "--initial-branch=main")
    git(directory, "add", "--all")
    git(directory, "commit", "--quiet", "--allow-empty", "--message=miniature")
    return git(directory, "rev-parse", "HEAD")

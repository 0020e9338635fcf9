"""A miniature PyTorch: a source tree with a few tests, and a stand-in for torch. Test doubles, no PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from git_repos import git

# What the miniature torch says of itself; GPUs are those that HIP_VISIBLE_DEVICES leaves.
_TORCH = """
import os, types
__version__ = {version!r}
version = types.SimpleNamespace(git_version={git!r}, hip={hip!r}, cuda=None)
_TARGETS = {targets!r}
_C = types.SimpleNamespace(_cuda_getArchFlags=lambda: " ".join(dict.fromkeys(_TARGETS)))


def _visible():
    text = os.environ.get("HIP_VISIBLE_DEVICES")
    return list(range(len(_TARGETS))) if text is None else [int(word) for word in text.split(",") if word]


def _properties(index):
    target = _TARGETS[_visible()[index]]
    return types.SimpleNamespace(
        gcnArchName=target + ":sramecc+:xnack-", name="miniature " + target, uuid=None, total_memory=1 << 30
    )


cuda = types.SimpleNamespace(
    init=lambda: None,
    device_count=lambda: len(_visible()),
    get_device_properties=_properties,
    get_arch_list=lambda: list(dict.fromkeys(_TARGETS)),
    is_available=lambda: bool(_visible()),
    is_initialized=lambda: False,
)
"""


def make_torch(
    directory: Path,
    *,
    version: str = "2.9.0+rocm7.10.0",
    git: str = "Unknown",
    hip: str | None = "7.10.60850",
    targets: Sequence[str] = (),
) -> Path:
    """Write the stand-in below `directory`, which goes on PYTHONPATH; returns `directory`."""
    package = directory / "torch"
    package.mkdir(parents=True)
    text = _TORCH.format(version=version, git=git, hip=hip, targets=tuple(targets))
    (package / "__init__.py").write_text(text)
    return directory


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

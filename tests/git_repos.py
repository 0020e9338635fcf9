"""Small generated repositories: a project with nested submodules and a hipify script. Made with plain git."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from rocwright.data import load_table
from rocwright.model.project import ProjectTable

PROJECTS = load_table("projects", ProjectTable)

# Like the real one: renames, edits in place, ignores nothing, reads $HIP_PATH/lib/.hipInfo.
SCRIPT = """\
import os, pathlib, sys
root = pathlib.Path(__file__).resolve().parents[2]
try:
    clang = "clang" in open(os.environ.get("HIP_PATH", "/opt/rocm/hip") + "/lib/.hipInfo").read()
except OSError:
    clang = False
for source in sorted(root.rglob("*.cu")):
    target = source.parent / "hip" / (source.stem + ".hip")
    target.parent.mkdir(exist_ok=True)
    text = source.read_text().replace("cuda", "hip").replace("<<<", "<<<" if clang else "hipLaunch(")
    target.write_text(text)
for header in sorted(root.rglob("*.h")):
    text = header.read_text()
    if "cuda" in text:
        header.write_text("// hipified\\n" + text.replace("cuda", "hip/hip"))
"""


SETTINGS = (
    "protocol.file.allow=always",
    "init.defaultBranch=main",
    "init.templateDir=",
    "gc.auto=0",
    "maintenance.auto=false",
)


def git(where: Path, *words: str, **env: str) -> str:
    """Run plain git, independent of the code under test."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("GIT_")}
    fixed = {
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "GIT_AUTHOR_NAME": "Ann",
        "GIT_AUTHOR_EMAIL": "ann@example.org",
        "GIT_COMMITTER_NAME": "Ann",
        "GIT_COMMITTER_EMAIL": "ann@example.org",
        "GIT_AUTHOR_DATE": "1700000000 +0200",
        "GIT_COMMITTER_DATE": "1700000000 +0200",
    }
    return subprocess.run(
        ["git", *(word for setting in SETTINGS for word in ("-c", setting)), *words],
        cwd=where,
        env=clean | fixed | env,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def commit(repository: Path, files: dict[str, str | None], message: str = "change") -> str:
    """Write files (`None`: delete) and commit everything; returns the commit id."""
    repository.mkdir(parents=True, exist_ok=True)
    if not (repository / ".git").exists():
        git(repository, "init", "-q")
    for name, text in files.items():
        path = repository / name
        if text is None:
            path.unlink()
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "--allow-empty", "-m", message)
    return git(repository, "rev-parse", "HEAD")


def move_submodule(repository: Path, path: str, to: str, message: str = "move submodule") -> str:
    """Pin a submodule to another commit; returns the new commit of the parent."""
    git(repository / path, "fetch", "-q")
    git(repository / path, "checkout", "-q", to)
    return commit(repository, {}, message)


class Family:
    """`torch` with submodules `fmt lib` (a space in its path) and `nest`, which has `inner`."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.torch, self.fmt, self.nest, self.inner = (root / n for n in ("torch", "fmt", "nest", "inner"))
        self.inner_1 = commit(self.inner, {"inner.cu": "cuda inner 1\n"})
        commit(self.nest, {"nest.txt": "nest\n"})
        git(self.nest, "submodule", "add", "-q", "../inner", "deep/inner")
        self.nest_1 = commit(self.nest, {})
        self.fmt_1 = commit(self.fmt, {"fmt.h": "cuda fmt 1\n", "plain.txt": "x\n"})
        commit(
            self.torch,
            {
                "a.cu": "cuda a <<<1\n",
                "b.h": "cuda b 1\n",
                "readme": "one\n",
                ".gitignore": "build/\nhip/secret.hip\n",
                "tools/amd_build/build_amd.py": SCRIPT,
            },
        )
        git(self.torch, "submodule", "add", "-q", "../fmt", "third_party/fmt lib")
        git(self.torch, "submodule", "add", "-q", "../nest", "third_party/nest")
        self.v1 = commit(self.torch, {}, "v1")

    def adopt(self, root: Path, *, moved_from: Path) -> None:
        """Stand on a copy of generated repositories."""
        self.root = root
        self.torch, self.fmt, self.nest, self.inner = (root / n for n in ("torch", "fmt", "nest", "inner"))
        for config in root.rglob("config"):
            config.write_text(config.read_text().replace(str(moved_from), str(root)))
        self.inner_1, self.fmt_1, self.nest_1, self.v1 = (
            git(repository, "rev-parse", "HEAD")
            for repository in (self.inner, self.fmt, self.nest, self.torch)
        )

    @property
    def url(self) -> str:
        return self.torch.as_uri()

    def version_2(self) -> str:
        """`a.cu` becomes `c.cu`, `b.h` changes, both submodules move, `inner` too."""
        self.inner_2 = commit(self.inner, {"inner.cu": "cuda inner 2\n"})
        git(self.nest, "submodule", "update", "-q", "--init")
        self.nest_2 = move_submodule(self.nest, "deep/inner", self.inner_2)
        self.fmt_2 = commit(self.fmt, {"fmt.h": "cuda fmt 2\n", "more.cu": "cuda more\n"})
        git(self.torch / "third_party/fmt lib", "fetch", "-q")
        git(self.torch / "third_party/fmt lib", "checkout", "-q", self.fmt_2)
        git(self.torch / "third_party/nest", "fetch", "-q")
        git(self.torch / "third_party/nest", "checkout", "-q", self.nest_2)
        return commit(self.torch, {"a.cu": None, "c.cu": "cuda c\n", "b.h": "cuda b 2\n"}, "v2")

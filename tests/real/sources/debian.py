"""The real PyTorch that the tests hipify: Debian's source package as a git repository of one commit.

The tree is the upstream archive that Debian publishes (its "orig" file: PyTorch 2.6.0 without its submodules
and without what may not be shipped), Debian's own patches not applied. It comes through apt's signatures
once and is kept in the tests' cache.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from pathlib import Path

from real import corpus
from rocwright.sdk.intake.fetch import apt_options

SUITE = "trixie"
NAME, VERSION = "pytorch", "2.6.0+dfsg-7"
FILE = "pytorch_2.6.0+dfsg.orig.tar.xz"
SHA256 = "099a9601bc40d67656e75735c44abedb0fbe92d08817852ab7472eebb7e6ddff"
SCRIPT = "tools/amd_build/build_amd.py"
# Found with plain git and by running the script by hand, in an export, with the private HIP_PATH of
# `hip_path` below: the tree as published, and what its script makes of it for either compiler.
TREE = "44a139f8fbcb45f6fb69c5959bc612be3d620833"
HIPIFIED = "24f5daed656584d1f813585c28ae54617581df16"
HIPIFIED_CLANG = "e1ac7500fcbc83ff62a051a30d1fb17b5f63a02c"
# Run a second time over its own outputs, the script doubles a directory in torch/csrc/cuda/Module.cpp.
HIPIFIED_TWICE = "ecacf23fb5584b15e02fae274a37d969ce6b39c0"
ADDED, MODIFIED, DIFFER_WITH_CLANG = 593, 96, 112
BRANCH = "release/2.6"

_PLAIN = {
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_AUTHOR_NAME": "Ann",
    "GIT_AUTHOR_EMAIL": "ann@example.org",
    "GIT_COMMITTER_NAME": "Ann",
    "GIT_COMMITTER_EMAIL": "ann@example.org",
    "GIT_AUTHOR_DATE": "1738000000 +0000",
    "GIT_COMMITTER_DATE": "1738000000 +0000",
}


def git(repository: Path, *words: str, **env: str) -> str:
    """Plain git in `repository`, a directory of ours, without anybody's configuration."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    command = ["git", "-c", "core.autocrlf=false", "-c", "gc.auto=0", *words]
    done = subprocess.run(
        command, cwd=repository, env=clean | _PLAIN | env, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def archive() -> Path:
    """The archive, from the cache or from Debian; its sha256 is the frozen one."""
    kept = corpus.cache_directory() / "corpus" / FILE
    if not kept.exists():
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix="landing-") as landing:
            _download(Path(landing))
            (Path(landing) / FILE).replace(kept)
    found = hashlib.sha256(kept.read_bytes()).hexdigest()
    if found != SHA256:
        raise ValueError(f"{kept} has sha256 {found}, not {SHA256}: delete it")
    return kept


def _download(landing: Path) -> None:
    state = landing / "apt"
    options = apt_options(state)
    sources, none = state / "sources.list", state / "none"
    sources.write_text(f"deb-src [signed-by={corpus.KEYRING}] {corpus.DEBIAN} {SUITE} main\n")
    none.mkdir()
    for setting in (f"sourcelist={sources}", f"sourceparts={none}"):
        options += ["-o", f"Dir::Etc::{setting}"]
    for words in (
        ["update", "--error-on=any"],
        ["source", "--download-only", "--tar-only", f"{NAME}={VERSION}"],
    ):
        command = ["apt-get", *options, *words]
        subprocess.run(
            command, cwd=landing, check=True, capture_output=True, env={**os.environ, "LC_ALL": "C"}
        )


def make_repository(root: Path) -> str:
    """Make the repository at `root`, its only commit on the branch `BRANCH`; returns the commit id."""
    root.mkdir(parents=True)
    unpack = ["tar", "--extract", "--no-same-owner", "--strip-components=1", "--file", str(archive())]
    subprocess.run(unpack, cwd=root, check=True)
    git(root, "init", "-q", "--template=", f"--initial-branch={BRANCH}")
    # It is served over the loopback interface: packing it tightly would only take time.
    for setting, value in (("pack.window", "0"), ("core.compression", "1")):
        git(root, "config", setting, value)
    git(root, "add", "--all", "--force")
    git(root, "commit", "-q", "-m", f"PyTorch as published in Debian's {NAME} {VERSION}")
    assert git(root, "rev-parse", "HEAD^{tree}") == TREE, "the archive unpacks to another tree"
    return git(root, "rev-parse", "HEAD")


def hip_path(root: Path, *, clang: bool) -> Path:
    """A directory for HIP_PATH that says for which compiler launches are written."""
    (root / "lib").mkdir(parents=True)
    if clang:
        (root / "lib" / ".hipInfo").write_text("HIP_COMPILER=clang\n")
    return root


def export(repository: Path, commit: str, target: Path) -> Path:
    """The files of a commit as a plain directory."""
    target.mkdir(parents=True)
    with subprocess.Popen(
        ["git", "archive", commit],
        cwd=repository,
        stdout=subprocess.PIPE,
        env={**os.environ, **_PLAIN},
    ) as pack:
        subprocess.run(["tar", "--extract"], cwd=target, stdin=pack.stdout, check=True)
    assert pack.returncode == 0
    return target


def run_script(tree: Path, hip: Path, python: Path | str) -> None:
    """Run a tree's own hipify script on itself, as its authors do."""
    subprocess.run(
        [python, SCRIPT],
        cwd=tree,
        check=True,
        capture_output=True,
        env={"PATH": os.environ["PATH"], "HIP_PATH": str(hip), "PYTHONDONTWRITEBYTECODE": "1"},
    )


def tree_of(directory: Path, repository: Path) -> str:
    """The id of the git tree that a directory's files make, whatever git says of the directory itself.

    Every file is read; objects that `repository` has are not written again.
    """
    with tempfile.TemporaryDirectory() as area:
        git(Path(area), "init", "-q", "--bare", "--template=", ".")
        where = (f"--git-dir={area}", f"--work-tree={directory}")
        known = {"GIT_ALTERNATE_OBJECT_DIRECTORIES": str(repository / ".git/objects")}
        git(Path(area), *where, "-c", "core.compression=0", "add", "--all", "--force", **known)
        return git(Path(area), *where, "write-tree", **known)

#!/usr/bin/env python3
"""Turns the miniature PyTorch family into git repositories that can be checked out like the real ones.

    python make_origins.py OUT [--url-prefix URL]

writes the bare repositories OUT/{minifmt,pytorch,audio,vision,triton,apex}, with branches main, nightly
and release/2.9 (apex also master, triton also release/3.5.x), minifmt as a submodule of pytorch, and the
pins in related_commits and .ci/docker filled in. Prints {project: commit} as JSON.

Authors and dates are fixed, the user's git configuration is not read, file modes are not taken from
the disk: the same sources and URL prefix give the same commit ids everywhere. Everything is built in
a folder beside OUT and renamed; running it again changes nothing. Standard library and git only.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
MARKER = ".mini-pytorch-origins.json"
# Repository -> folder here. Dependencies first: pins and the submodule name earlier commits.
PROJECTS = {
    "minifmt": "minifmt",
    "audio": "pytorch_audio",
    "vision": "pytorch_vision",
    "triton": "triton",
    "apex": "apex",
    "pytorch": "pytorch",
}
BRANCHES = ("main", "nightly", "release/2.9")
EXTRA_BRANCHES = {"apex": ("master",), "triton": ("release/3.5.x",)}
SUBMODULE = "third_party/minifmt"
LEFT_OUT = shutil.ignore_patterns(
    "__pycache__",
    "*.pyc",
    "*.egg-info",
    "build",
    "dist",
    ".git",
    ".pytest_cache",
    ".ruff_cache",
    ".mypy_cache",
)
IDENTITY = {
    "GIT_AUTHOR_NAME": "Miniature PyTorch",
    "GIT_AUTHOR_EMAIL": "miniature@example.invalid",
    "GIT_COMMITTER_NAME": "Miniature PyTorch",
    "GIT_COMMITTER_EMAIL": "miniature@example.invalid",
}
# The second commit of each repository is a day after the first.
DATES = ("2025-10-15T12:00:00+00:00", "2025-10-16T12:00:00+00:00")


def git_environment(**extra):
    """An environment in which git reads neither the user's configuration nor an outer repository."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    return (
        environment
        | IDENTITY
        | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
        | extra
    )


def git(*arguments, environment=None):
    """Runs git and returns its output without the newline."""
    done = subprocess.run(
        ["git", *map(str, arguments)],
        env=environment or git_environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        sys.exit(f"git {' '.join(map(str, arguments))} failed ({done.returncode}):\n{done.stderr.strip()}")
    return done.stdout.strip()


def fill_pins(tree, commits, prefix):
    """Writes commits and URLs into related_commits, triton's pin file and .gitmodules of pytorch."""
    values = {"@TRITON_COMMIT@": commits["triton"]}
    for project, name in (("TORCHAUDIO", "audio"), ("TORCHVISION", "vision"), ("APEX", "apex")):
        values[f"@{project}_COMMIT@"] = commits[name]
        values[f"@{project}_ORIGIN@"] = f"{prefix}/{name}"
    for pinned in ("related_commits", ".ci/docker/ci_commit_pins/triton.txt"):
        path = tree / pinned
        text = path.read_text(encoding="utf-8")
        for placeholder, value in values.items():
            text = text.replace(placeholder, value)
        path.write_text(text, encoding="utf-8", newline="\n")
    (tree / ".gitmodules").write_text(
        # Beside this repository, wherever that is.
        f'[submodule "{SUBMODULE}"]\n\tpath = {SUBMODULE}\n\turl = ../minifmt\n',
        encoding="utf-8",
        newline="\n",
    )


def commit(repository, tree, message, date, parent, submodule):
    """Commits the whole tree and returns the commit id."""
    environment = git_environment(
        GIT_DIR=str(repository),
        GIT_WORK_TREE=str(tree),
        GIT_INDEX_FILE=str(repository / "index.building"),
        GIT_AUTHOR_DATE=date,
        GIT_COMMITTER_DATE=date,
    )
    settings = ("-c", "core.fileMode=false", "-c", "core.autocrlf=false", "-c", "core.symlinks=true")
    git("-C", tree, *settings, "add", "--all", "--force", ".", environment=environment)
    if submodule is not None:
        git(
            "update-index", "--add", "--cacheinfo", f"160000,{submodule},{SUBMODULE}", environment=environment
        )
    tree_id = git("write-tree", environment=environment)
    parents = ("-p", parent) if parent else ()
    made = git("commit-tree", tree_id, *parents, "-m", message, environment=environment)
    (repository / "index.building").unlink()
    return made


def build_repository(name, staging, repository, commits, prefix):
    """Makes one bare repository with two commits; the second is what every branch points at."""
    source, tree = HERE / PROJECTS[name], staging / name
    tree.mkdir(parents=True)
    # The object format is named, so that a newer default cannot change the ids; no template, so no hooks.
    git(
        "init",
        "--quiet",
        "--bare",
        "--object-format=sha1",
        "--initial-branch=main",
        "--template=",
        repository,
    )
    shutil.copyfile(source / "README.md", tree / "README.md")
    first = commit(repository, tree, f"Say what the miniature {name} is", DATES[0], None, None)
    shutil.copytree(source, tree, ignore=LEFT_OUT, dirs_exist_ok=True, copy_function=shutil.copyfile)
    submodule = None
    if name == "pytorch":
        fill_pins(tree, commits, prefix)
        submodule = commits["minifmt"]
    made = commit(repository, tree, f"Add the miniature {name}", DATES[1], first, submodule)
    for branch in (*BRANCHES, *EXTRA_BRANCHES.get(name, ())):
        git("--git-dir", repository, "update-ref", f"refs/heads/{branch}", made)
    # Clients may ask for pinned commits and for partial clones, as from the usual hosts.
    for setting in ("uploadpack.allowAnySHA1InWant", "uploadpack.allowFilter"):
        git("--git-dir", repository, "config", setting, "true")
    git("--git-dir", repository, "update-server-info")  # for a plain static file server
    return made


def is_current(out, commits):
    """True when OUT already holds exactly these commits on every branch."""
    marker = out / MARKER
    if not marker.is_file() or json.loads(marker.read_text(encoding="utf-8")) != commits:
        return False
    for name, made in commits.items():
        for branch in (*BRANCHES, *EXTRA_BRANCHES.get(name, ())):
            done = subprocess.run(
                [
                    "git",
                    "--git-dir",
                    str(out / name),
                    "rev-parse",
                    "--verify",
                    "--quiet",
                    f"refs/heads/{branch}",
                ],
                env=git_environment(),
                capture_output=True,
                text=True,
                check=False,
            )
            if done.stdout.strip() != made:
                return False
    return True


def replace_folder(new, out):
    """Puts the finished folder in OUT's place."""
    if out.exists():
        old = Path(tempfile.mkdtemp(prefix=f".{out.name}.old-", dir=out.parent))
        os.replace(out, old / out.name)
        os.replace(new, out)
        shutil.rmtree(old)
    else:
        os.replace(new, out)


def make_origins(out, url_prefix=None):
    """Makes or refreshes the repositories under out; returns {project: commit}."""
    out = Path(os.path.abspath(out))
    if out.exists() and not (out / MARKER).is_file() and (not out.is_dir() or any(out.iterdir())):
        sys.exit(f"{out} exists and was not made by this script; name a new or an empty folder")
    prefix = (url_prefix or out.as_uri()).rstrip("/")
    out.parent.mkdir(parents=True, exist_ok=True)
    building = Path(tempfile.mkdtemp(prefix=f".{out.name}.new-", dir=out.parent))
    try:
        new, commits = building / "origins", {}
        new.mkdir()
        for name in PROJECTS:
            commits[name] = build_repository(name, building / "trees", new / name, commits, prefix)
        (new / MARKER).write_text(json.dumps(commits, indent=2) + "\n", encoding="utf-8")
        if not is_current(out, commits):
            replace_folder(new, out)
    finally:
        shutil.rmtree(building, ignore_errors=True)
    return commits


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("out", metavar="OUT", help="folder for the repositories")
    parser.add_argument("--url-prefix", metavar="URL", help="where OUT will be served (default: file://OUT)")
    arguments = parser.parse_args()
    print(json.dumps(make_origins(arguments.out, arguments.url_prefix), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The documented checkout: defaults, history, tags, pins of the family, as any user on a bare machine."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ME = ("-c", "user.name=Ann", "-c", "user.email=ann@example.org", "-c", "protocol.file.allow=always")
RUN = """
import sys
from pathlib import Path
from rocwright.data import load_table
from rocwright.model.project import ProjectTable
from rocwright.sources.checkout import checkout
from rocwright.sources.hipify import hipify
from rocwright.sources.resolve import Request, resolve
base, torch, audio = map(Path, sys.argv[1:])
projects = load_table("projects", ProjectTable)
def bring(request, **more):
    locked = resolve([request], projects=projects, **more).sources[0]
    done = checkout(locked, base / locked.directory)
    if locked.hipify:
        hipify(done)
bring(Request("torch", origin=torch.as_uri(), ref="main"))
bring(Request("torchaudio"), torch_dir=base / "pytorch", require_related_commit=True)
"""


def git(where: Path, *words: str) -> str:
    env = os.environ | {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", *ME, "-c", f"safe.directory={where}", *words]
    return subprocess.run(
        command, cwd=where, env=env, check=True, capture_output=True, text=True
    ).stdout.strip()


def commit(repository: Path, message: str, **files: str) -> str:
    repository.mkdir(exist_ok=True)
    git(repository, "init", "-q", "-b", "main")
    for name, text in files.items():
        path = repository / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git(repository, "add", "-A")
    git(repository, "commit", "-q", "-m", message)
    return git(repository, "rev-parse", "HEAD")


@pytest.mark.parametrize("user", ["me", "nobody"])
def test_documented_history_as_any_user(tmp_path: Path, user: str) -> None:
    if user == "nobody" and os.geteuid() != 0:
        pytest.skip("only root can become another user; this run is unprivileged anyway")
    # Not below pytest's own directory, which other users may not enter.
    root = tmp_path
    if user == "nobody":
        root = Path(subprocess.check_output(["mktemp", "-d"], text=True).strip())
        root.chmod(0o755)
    audio, torch, base = root / "audio.origin", root / "torch.origin", root / "work"
    audio_pin = commit(audio, "audio 1", setup="1")
    commit(audio, "audio 2", setup="2")
    commit(torch, "Example upstream commit 1", readme="1")
    script = textwrap.dedent(
        """
        import pathlib
        pathlib.Path("kernel.hip").write_text(pathlib.Path("kernel.cu").read_text().replace("cuda", "hip"))
        """
    )
    upstream = commit(
        torch,
        "Example upstream commit 2",
        **{
            "kernel.cu": "cuda",
            "tools__amd_build__build_amd.py": script,
            "related_commits": f"# pins\n\nubuntu|pytorch|torchaudio|main|{audio_pin}|{audio.as_uri()}\n",
        },
    )
    base.mkdir()
    env = {"PATH": os.environ["PATH"], "PYTHONDONTWRITEBYTECODE": "1"}  # no HOME, no git configuration
    become: dict[str, int] = {}
    python = sys.executable
    if user == "nobody":
        subprocess.run(["chown", "-R", "65534:65534", str(root)], check=True)
        become = {"user": 65534, "group": 65534}
        # The interpreter may live in root's home; the system's one loads the same modules.
        python = f"/usr/bin/python{sys.version_info[0]}.{sys.version_info[1]}"
        if not Path(python).exists():
            pytest.skip(f"{python}, which every user may run, is not installed")
        env["PYTHONPATH"] = os.pathsep.join(
            path for path in sys.path if "site-packages" in path or path.endswith("src")
        )
    done = subprocess.run(
        [python, "-c", RUN, str(base), str(torch), str(audio)],
        env=env, capture_output=True, text=True, check=False, cwd=root, **become,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    log = git(base / "pytorch", "log", "--format=%H %D %s").splitlines()
    assert log[0].split(" ", 1)[1] == "HEAD, tag: THEROCK_HIPIFY_DIFFBASE DO NOT SUBMIT: HIPIFY"
    assert log[1] == f"{upstream} tag: THEROCK_UPSTREAM_DIFFBASE, origin/main Example upstream commit 2"
    assert log[2].endswith("Example upstream commit 1")
    assert (base / "pytorch/kernel.hip").read_text() == "hip"
    assert git(base / "pytorch_audio", "rev-parse", "HEAD") == audio_pin
    tags = git(base / "pytorch_audio", "tag").split()
    assert tags == ["THEROCK_HIPIFY_DIFFBASE", "THEROCK_UPSTREAM_DIFFBASE"]
    if user == "nobody":
        subprocess.run(["rm", "-rf", str(root)], check=True)

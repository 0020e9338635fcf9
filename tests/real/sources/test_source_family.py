"""The whole family as documented: five projects, one lock, the same commits wherever it is replayed.

The commands are run literally, with the addresses that they have on their own; the user's git configuration
leads those to a server with the miniature family.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from git_server import serving
from real.sources.desk import HIPIFY, LOCK, UPSTREAM, Desk

# Folder below the checkouts' directory, and the name of the documented script.
FAMILY = {
    "pytorch": "torch",
    "pytorch_audio": "audio",
    "pytorch_vision": "vision",
    "triton": "triton",
    "apex": "apex",
}


@dataclass
class Made:
    """A desk where `rocwright checkout all` has run, and the server it asked."""

    desk: Desk
    server: Any

    def tips(self, base: str = ".") -> dict[str, tuple[str, str, str]]:
        """HEAD and both tags of every project."""
        return {
            folder: tuple(self.desk.ref(name, at=f"{base}/{folder}") for name in ("HEAD", UPSTREAM, HIPIFY))
            for folder in FAMILY
        }


@pytest.fixture(scope="module")
def made(newcomer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Made]:
    """The family checked out once."""
    root = tmp_path_factory.mktemp("family")
    place = Path(newcomer.home) / "desks" / "family"
    place.mkdir(parents=True)
    with serving(root / "origins") as server:
        script = Path(newcomer.clone) / "examples/mini-pytorch/make_origins.py"
        prefix = server.url("").rstrip("/")
        made = [sys.executable, script, root / "origins", "--url-prefix", prefix]
        subprocess.run(made, check=True, capture_output=True)
        desk = Desk(newcomer, place)
        desk.write(
            ".home/.gitconfig",
            f'[url "{prefix}/"]\n'
            "insteadOf = https://github.com/pytorch/\ninsteadOf = https://github.com/ROCm/\n",
        )
        desk.run("checkout", "all", "--platform", "linux")
        yield Made(desk, server)
    shutil.rmtree(place)


def test_every_project_is_there_as_documented(made):
    for folder, (head, upstream, hipified) in made.tips().items():
        log = made.desk.git("log", "--format=%H %s", "-2", at=folder).splitlines()
        assert upstream
        if folder == "pytorch":
            assert log[0] == f"{hipified} DO NOT SUBMIT: HIPIFY"
            assert log[1].startswith(upstream)
        else:
            assert head == upstream, "no script in this project, or hipify was not wanted"


def test_replay_in_two_folders_gives_the_same_commits(made):
    first = made.tips()
    made.server.forget()
    for base in ("a", "b"):
        made.desk.run("checkout", "all", "--locked", "--lock-file", LOCK, "--directory", base)
        assert made.tips(base) == first
    assert made.server.count() == 0, "both come from the mirrors"


def test_same_command_again_fetches_nothing(made):
    before = made.tips()
    made.server.forget()
    made.desk.run("checkout", "all", "--platform", "linux")
    assert made.tips() == before
    assert made.server.sent() < 20_000, "only the names of branches were asked for"


def test_documented_scripts_bring_the_same_commits(made):
    """Each with its own defaults; only the places are given."""
    desk = made.desk
    for folder, script in FAMILY.items():
        where = ["--checkout-dir", desk.place / "scripts" / folder]
        torch = [] if script == "torch" else ["--torch-dir", desk.place / "scripts/pytorch"]
        desk.script(script, "checkout", *where, *torch, cwd=Path("/"))
    assert made.tips("scripts") == made.tips()
    assert (desk.place / "scripts/triton/build_env.json").is_file()


def test_every_version_of_the_table_that_the_family_has(made):
    """The branch of a version is torch's; the others come from its pins."""
    made.desk.run("checkout", "all", "--pytorch-version", "2.9", "--directory", "v2.9", "--platform", "linux")
    lock = made.desk.lock("v2.9")
    torch = next(row for row in lock["sources"] if row["project"] == "torch")
    assert (torch["ref"], torch["why"]) == ("refs/heads/release/2.9", "line")
    pins = {row["project"]: row["pin"] for row in lock["sources"] if row["why"] == "pin"}
    assert set(pins) == {"torchaudio", "torchvision", "triton", "apex"}
    for said in pins.values():
        assert torch["commit"] in said

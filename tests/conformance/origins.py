"""The miniature family in the place of the repositories on GitHub, for the git of one home."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

from conformance.world import ROOT, Shell, World

# Who has which of the miniature repositories, under the names that the documents and their pins give them.
OWNERS = {
    "pytorch": ("pytorch", "audio", "vision", "minifmt", "apex"),
    "ROCm": ("pytorch", "triton", "apex", "minifmt"),
}

# What torch needs to be built, as the real one does; the miniature needs nothing.
REQUIREMENT = "typing-extensions"


def github(world: World) -> Path:
    """A directory that is laid out like github.com."""

    def make(place: Path) -> None:
        sources = shutil.copytree(ROOT / "examples/mini-pytorch", place / "sources")
        with (sources / "pytorch/requirements.txt").open("a") as file:
            file.write(f"{REQUIREMENT}\n")
        prefix = "https://github.com/pytorch"
        script = sources / "make_origins.py"
        words = [sys.executable, str(script), str(place / "origins"), "--url-prefix", prefix]
        subprocess.run(words, check=True, capture_output=True)
        for owner, names in OWNERS.items():
            (place / "github.com" / owner).mkdir(parents=True)
            for name in names:
                for spelled in (name, f"{name}.git"):
                    (place / "github.com" / owner / spelled).symlink_to(place / "origins" / name)

    return world.once("github", make) / "github.com"


def turn_to(shell: Shell) -> None:
    """From now on git takes what the documents have from github.com out of that directory."""
    settings = f'[url "file://{github(shell.world)}/"]\n\tinsteadOf = https://github.com/\n'
    # git refuses submodules from this machine unless told.
    (shell.home / ".gitconfig").write_text(settings + '[protocol "file"]\n\tallow = always\n')

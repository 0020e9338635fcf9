"""`rocwright completion`."""

from __future__ import annotations

from typing import Literal

from rocwright.system import console


def completion(shell: Literal["bash", "fish", "powershell", "zsh"], /) -> None:
    """Print what makes a shell complete commands, options and files of rocwright.

    Write it where the shell looks for such files, and again after an update. Making it takes seconds: every
    command is read.

    Parameters
    ----------
    shell
        The shell that it is for.
    """
    # Not above: the application names this command before it is there itself.
    from rocwright.cli import app

    console.out(app.generate_completion(shell=shell).rstrip("\n"))

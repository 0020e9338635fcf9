"""`rocwright doctor`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.cli.options import Text, tell_age
from rocwright.cli.reply import Reply, plain, replies
from rocwright.cli.store.options import StoreOptions
from rocwright.compat.doctor.environment import active_python, find_python
from rocwright.compat.doctor.mend import INDEX
from rocwright.compat.doctor.observations import Diagnosis
from rocwright.compat.doctor.run import diagnose, import_failed, wrong_torch
from rocwright.errors import InvalidInput, MissingTool, TorchBroken, UsageError, WrongTorch
from rocwright.model.sets import SetManifest, parse_set
from rocwright.store.sets.find import resolve_set
from rocwright.store.sets.records import read_set
from rocwright.system import console

_DEFAULTS = StoreOptions()


@replies
def doctor(
    *,
    python: Text = "",
    set_: Annotated[str, Parameter(name="--set", show_default=False)] = "",
    manifest: Path | None = None,
    deep: bool = False,
    import_torch: bool = False,
    index_url: Text = "",
    root: Path = Path("/"),
    options: StoreOptions = _DEFAULTS,
) -> Iterator[Reply]:
    """Examine this machine and an environment: each problem with the command that fixes it.

    The environment is that of --python, or the active one (VIRTUAL_ENV, CONDA_PREFIX, or .venv here) where it
    has anything of ROCm or torch. Nothing in it is imported unless you ask for that. Changes nothing, and
    never guesses a GPU.

    Exit code 0 when nothing is missing or wrong, 4 otherwise, 15 when torch cannot be imported.

    Parameters
    ----------
    python
        The environment to look at: its directory, or its python program.
    set_
        The set that it should contain, in the store of --store: digits of its id, CHANNEL:FAMILY, or newest.
    manifest
        The same, as the file manifest.json of the set.
    deep
        Read every file of the packages, and compare its content with RECORD, not only its size.
    import_torch
        Import torch, in a process of its own with a time limit.
    index_url
        The index that the printed commands name (default: the published one that fits GPU and version).
    root
        Examine a machine whose /sys, /proc, /dev, /etc and /opt were copied to this directory.
    json
        Print the result as JSON.
    """
    chosen = find_python(python) if python else active_python(os.environ)
    wanted = chosen_set(set_, manifest, options)
    found = diagnose(
        root=root,
        python=chosen,
        asked=bool(python),
        manifest=wanted,
        index=index_url,
        deep=deep,
        import_=import_torch,
        note=console.say,
    )
    yield Reply(found, lambda: show_diagnosis(found))
    tell_age("doctor", "families", "gpus")
    if found.environment is None:
        console.say(
            "No environment with torch or ROCm is active, so none was checked: name one with --python."
        )
    broken = import_failed(found)
    if broken is not None:
        raise TorchBroken(broken.cause, next_step=broken.next_step)
    wrong = wrong_torch(found)
    if wrong is not None:
        raise WrongTorch(wrong.cause, next_step=wrong.next_step)
    if found.errors:
        what = "thing is" if found.errors == 1 else "things are"
        raise MissingTool(
            f"{found.errors} {what} missing or wrong",
            next_step="run the commands that stand above after `next for`",
        )


# -- the set that an environment is compared with, from a store or a file


def chosen_set(text: str, manifest: Path | None, options: StoreOptions) -> SetManifest | None:
    """The manifest that was named; None where none was. Raises `UsageError` for two of them."""
    if text and manifest is not None:
        raise UsageError("--set and --manifest both name a set", next_step="give one of them")
    if text:
        store = options.opened()
        return read_set(store, resolve_set(store, options.channels(), text))
    if manifest is None:
        return None
    try:
        return parse_set(manifest.read_bytes(), where=str(manifest))
    except OSError as error:
        raise InvalidInput(
            f"{manifest} cannot be read: {error.strerror}",
            where=manifest,
            next_step="give the manifest.json of a set",
        ) from error


# -- how the doctor's observations look


_HEAD = ("what", "verdict", "detail")


def show_diagnosis(found: Diagnosis) -> None:
    """A table of the machine, and one of the environment where there was one."""
    for section, title in (("machine", "This machine"), ("environment", "The environment")):
        items = [item for item in found.observations if item.section == section]
        if items:
            if section == "environment" and found.environment is not None:
                title = f"{title} {found.environment.python}"
            console.table(title, _HEAD, [(item.id, item.verdict, item.detail) for item in items])
            # Not in the table: a command is copied as a whole.
            for item in items:
                if item.next_step:
                    console.out(plain(f"next for {item.id}: {item.next_step}"))
    if any(f" {INDEX} " in item.next_step for item in found.observations):
        console.say(
            f"{INDEX} stands for the index that has packages for your GPUs: name it with --index-url."
        )

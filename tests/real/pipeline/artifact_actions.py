"""Stand-ins for the actions that keep artifacts of a run and hand them out: folders of this machine."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

# As GitHub's: a name is given once, a pattern may have words in braces, and one that is alone gets no folder.
_KEEP = """
import pathlib, shutil, sys
kept, name, source = sys.argv[1:]
if (pathlib.Path(kept) / name).exists():
    sys.exit(f"an artifact named {name} exists already")
shutil.copytree(source, pathlib.Path(kept) / name)
"""
_TAKE = """
import fnmatch, pathlib, re, shutil, sys
kept, pattern, target = sys.argv[1:]
found = re.fullmatch(r"(.*)[{](.*)[}](.*)", pattern)
patterns = [found[1] + word + found[3] for word in found[2].split(",")] if found else [pattern]
held = sorted(path for path in pathlib.Path(kept).iterdir())
wanted = [path for path in held if any(fnmatch.fnmatchcase(path.name, one) for one in patterns)]
for path in wanted:
    shutil.copytree(path, pathlib.Path(target) / (path.name if len(wanted) > 1 else ""), dirs_exist_ok=True)
    print("took", path.name)
"""


def stand_in_artifacts(actions: Path, kept: Path) -> None:
    """Write both actions below a folder; what they keep lies in another."""
    kept.mkdir()
    _write(actions / "upload-artifact", _KEEP, kept, ("name", "path"))
    _write(actions / "download-artifact", _TAKE, kept, ("pattern", "path"))


def _write(folder: Path, program: str, kept: Path, inputs: tuple[str, str]) -> None:
    folder.mkdir(parents=True)
    script = folder / "do.py"
    script.write_text(program)
    given = {f"GIVEN_{number}": f"${{{{ inputs.{name} }}}}" for number, name in enumerate(inputs)}
    line = f'"{sys.executable}" "{script}" "{kept}" "$GIVEN_0" "$GIVEN_1"'
    more = ("if-no-files-found", "retention-days", "compression-level")
    action = {
        "name": f"stand-in for {folder.name}",
        "description": "",
        "inputs": {name: {"description": "", "default": ""} for name in (*inputs, *more)},
        "runs": {"using": "composite", "steps": [{"run": line, "shell": "bash", "env": given}]},
    }
    (folder / "action.yml").write_text(json.dumps(action))
    commit = ["-c", "user.name=x", "-c", "user.email=x@x", "commit", "-qm", "x"]
    for words in (["init", "-q"], ["add", "-A"], commit):
        subprocess.run(["git", *words], cwd=folder, check=True)

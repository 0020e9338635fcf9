"""A stand-in for the commands of Slurm: remembers what it was given, runs nothing.

The directory has `calls`, a line for each call, and `queue`, the jobs that `squeue` shows. `sbatch` counts
its jobs from 101; it refuses the job whose number is in a file `refuse`, and hangs at that in a file `stall`.
"""

from __future__ import annotations

import os
from pathlib import Path

_SBATCH = """\
echo "sbatch $*" >>"$STAND_IN/calls"
number=$((100 + $(grep -c ^sbatch "$STAND_IN/calls")))
if [ "$number" = "$(cat "$STAND_IN/refuse" 2>/dev/null)" ]; then
  echo "sbatch: error: no such partition" >&2
  exit 1
fi
[ "$number" != "$(cat "$STAND_IN/stall" 2>/dev/null)" ] || { touch "$STAND_IN/stalled"; exec sleep 60; }
echo "$number;cluster"
"""
_SQUEUE = """\
[ ! -e "$STAND_IN/down" ] || { echo "slurm_load_jobs error: Unable to contact slurm controller" >&2; exit 1; }
cat "$STAND_IN/queue" 2>/dev/null || true
"""
_SCANCEL = """\
echo "scancel $*" >>"$STAND_IN/calls"
"""


class StandIn:
    """The commands in a directory, and the environment that finds them first."""

    def __init__(self, root: Path) -> None:
        self.root = root
        (root / "bin").mkdir(parents=True)
        for name, text in (("sbatch", _SBATCH), ("squeue", _SQUEUE), ("scancel", _SCANCEL)):
            (root / "bin" / name).write_text("#!/usr/bin/env bash\n" + text)
            (root / "bin" / name).chmod(0o755)
        self.env = {**os.environ, "PATH": f"{root / 'bin'}:{os.environ['PATH']}", "STAND_IN": str(root)}

    def calls(self) -> list[str]:
        """Since the last time that this was asked."""
        path = self.root / "calls"
        lines = path.read_text().splitlines() if path.exists() else []
        path.unlink(missing_ok=True)
        return lines

    def say(self, name: str, text: str = "") -> None:
        (self.root / name).write_text(text)

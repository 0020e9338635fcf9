"""The store's benchmarks, one after the other, as one JSON object.

``python benchmarks/store.py`` runs every ``store_*.py`` beside it, each of which prints an object with goal,
measured, floor and met.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def main() -> int:
    """Run them, print, and tell by the exit code whether every goal was met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", default=[], help="a part, such as index; may be repeated")
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    parts = {path.stem.removeprefix("store_"): path for path in sorted(HERE.glob("store_*.py"))}
    results: dict[str, object] = {}
    met = True
    for name in options.only or parts:
        command = [sys.executable, str(parts[name]), "--runs", str(options.runs)]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
        results[name] = json.loads(done.stdout) if done.stdout else {"met": False}
        met = met and done.returncode == 0
    facts = {"cores": len(os.sched_getaffinity(0)), "load": os.getloadavg()[0]}
    print(json.dumps({**results, **facts, "met": met}, indent=2))
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())

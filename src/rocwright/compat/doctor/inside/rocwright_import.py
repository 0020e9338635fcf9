"""Import torch, and say how it went and which libraries the process then has: nothing else is needed.

Started as `python rocwright_import.py ANSWER`. The answer is written again after each step: what ends the
process (a library, a driver) takes nothing of what was known before.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any


def tell(path: str, answer: dict[str, Any]) -> None:
    """Put the answer in the file's place as a whole."""
    with open(path + ".part", "w", encoding="utf-8") as stream:
        json.dump(answer, stream)
    os.replace(path + ".part", path)


def libraries() -> list[Any]:
    """Libraries that this process has mapped; empty where the system does not say."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as stream:
            rows = [line.rstrip("\n").split(None, 5) for line in stream]
    except OSError:
        return []
    return sorted({row[5] for row in rows if len(row) == 6 and ".so" in os.path.basename(row[5])})


def main(path: str) -> None:
    """Import, then ask torch what it has code for."""
    # The interpreter puts the directory of this script there, unless PYTHONSAFEPATH is set.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if entry != here]
    answer: dict[str, Any] = {}
    tell(path, answer)
    try:
        torch = importlib.import_module("torch")
    except Exception as error:  # a library that is not found, a version that does not fit
        answer["error"] = "%s: %s" % (type(error).__name__, error)
        answer["module"] = getattr(error, "name", None) or ""
        answer["loaded"] = libraries()
        tell(path, answer)
        return
    answer["loaded"] = libraries()
    if not hasattr(torch, "__version__"):
        answer["error"] = "what is imported has no __version__: it is not torch, or only a remnant of it"
        tell(path, answer)
        return
    answer["version"] = str(torch.__version__)
    tell(path, answer)
    flags = getattr(getattr(torch, "_C", None), "_cuda_getArchFlags", None)
    answer["architectures"] = str((flags() if flags else "") or "").split()
    tell(path, answer)


if __name__ == "__main__":
    main(sys.argv[1])

"""Try what an installed torch can do, exercise by exercise; needs the standard library and torch alone.

    python rocwright_try.py TABLE [--device auto|cuda|cpu] [--timeout S] [--out FILE] [--json]

TABLE is the table `probe` as TOML (Python 3.11 and newer) or JSON. The exercises run in a process that may be
lost: one that crashes or hangs costs its own row, and another process goes on behind it. This process never
imports torch. The answers are JSON, written again as a whole after each exercise.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from typing import Any

INSIDE = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120
if INSIDE not in sys.path:
    # PYTHONSAFEPATH leaves the directory of the program out.
    sys.path.insert(0, INSIDE)

from rocwright_process import NO_FORK, Worker  # noqa: E402

# Of the version of what is written below.
SCHEMA = 1
# So many processes that are lost before they begin an exercise: then there is no use in another one.
_VAIN = 2


def read_table(path: str) -> dict[str, Any]:
    """The table, from TOML or JSON."""
    parse: Any = json.loads
    if not path.endswith(".json"):
        try:
            import tomllib
        except ImportError:
            sys.exit(f"{path}: TOML needs Python 3.11 or newer; give the table as JSON")
        parse = tomllib.loads
    try:
        with open(path, encoding="utf-8") as stream:  # noqa: PTH123
            table: dict[str, Any] = parse(stream.read())
    except (OSError, ValueError) as error:
        sys.exit(f"{path} cannot be read: {error}")
    return table


def exercises(table: dict[str, Any]) -> list[dict[str, Any]]:
    """What is to be done, in order: each data type, each function, each flag."""
    kinds = {kind["name"]: kind for kind in table["kind"]}
    found = []
    for row in table["dtype"]:
        kind = kinds[row["kind"]]
        found.append(
            {"id": f"dtype:{row['name']}", "names": [row["name"], *row.get("also", [])], "kind": kind}
        )
    found += [{"id": f"call:{row['name']}"} for row in table["exercise"]]
    found += [{"id": f"flag:{row['name']}", "flag": row} for row in table["flag"]]
    return found


class Answers:
    """What is known so far; `save` puts it in the file's place as a whole."""

    def __init__(self, asked: str, path: str) -> None:
        self._path = path
        self._began = time.monotonic()
        self.known: dict[str, Any] = {
            "schema": SCHEMA,
            "python": platform.python_version(),
            "executable": sys.executable,
            "platform": f"{sys.platform}-{platform.machine()}",
            "asked": asked,
            "device": "",
            "device_problem": "",
            "import": {"state": "not run", "error": "", "output": ""},
            "torch": None,
            "mapped": [],
            "exercises": [],
            "restarts": 0,
            "complete": False,
        }

    def save(self) -> None:
        """Write all of it, if there is a file to write to."""
        self.known["seconds"] = round(time.monotonic() - self._began, 3)
        if not self._path:
            return
        partial = f"{self._path}.part"
        with open(partial, "w", encoding="utf-8") as stream:  # noqa: PTH123
            json.dump(self.known, stream)
        os.replace(partial, self._path)  # noqa: PTH105


class Course:
    """The whole run: which exercises are left, what is being done, what came of it."""

    def __init__(self, todo: list[dict[str, Any]], answers: Answers, limit_s: float, start_s: float) -> None:
        self.todo = list(todo)
        self.answers = answers
        self.known = answers.known
        self.limit_s, self.start_s = limit_s, start_s
        self.asked: str = self.known["asked"]
        self.profile = True
        self.running: dict[str, Any] | None = None
        self._since = 0.0
        self._at = 0
        self._vain = 0
        self._over = self._spoiled = False

    def run(self, directory: str) -> None:
        """Processes, until nothing is left to do or none can be had."""
        while self.todo and self._vain < _VAIN and not self._over:
            self._one(Worker(self.todo, self.asked, self.profile, os.path.join(directory, "log")))  # noqa: PTH118
            self.answers.save()
        for row in self.todo:
            self.known["exercises"].append({"id": row["id"], "state": "not run", "steps": []})
        self.known["complete"] = True
        self.answers.save()

    def _one(self, worker: Worker) -> None:
        """Follow one process to its end, and say what that was where it came early."""
        self._since, self._at = time.monotonic(), worker.start
        before = len(self.todo)
        while not worker.closed:
            limit = self.limit_s if self.running else self.start_s
            left = self._since + limit - time.monotonic()
            if left <= 0:
                worker.end()
                self._lost("hung", f"not done after {limit:g} seconds", worker, before)
                return
            for message in worker.messages(left):
                self._take(message, worker)
        ended = worker.end()
        if self._spoiled:
            # As it was agreed: the GPU answers this process no more, the next one goes on.
            self._spoiled = False
            self.known["restarts"] += 1
        elif self.todo and not self._over:
            self._lost("crashed", f"the process {ended}", worker, before)

    def _take(self, message: dict[str, Any], worker: Worker) -> None:
        what = message.pop("what")
        if what == "torch":
            # A process that takes another's place says it again.
            if self.known["torch"] is None:
                self.known["torch"], self.known["mapped"] = message["facts"], message["mapped"]
                self.known["import"]["state"] = "ok"
        elif what == "no torch":
            self.known["import"] = {**message, "output": worker.printed(self._at)}
            self._over = True
        elif what == "device":
            self._take_device(**message)
        elif what == "begin":
            self._since, self._at = time.monotonic(), message["at"]
            self.running = {"id": message["id"], "state": "done", "steps": [], "step": ""}
        elif what == "step":
            assert self.running is not None
            self.running["step"] = message["name"]
        elif what == "stepped":
            assert self.running is not None
            self.running["steps"].append(message)
            self.running["step"] = ""
        elif what == "spoiled":
            self._spoiled = True
            self.known["exercises"][-1]["output"] = f"the GPU stopped answering: {message['error']}"
        elif what == "end":
            assert self.running is not None
            self._end({**self.running, **message})
        self.answers.save()

    def _take_device(self, device: str, problem: str, devices: list[dict[str, Any]]) -> None:
        """What is computed on: the same to the end, or a fault of the GPU would leave the rest to the CPU."""
        if device and not self.known["device"]:
            self.asked = self.known["device"] = device
            self.known["torch"]["devices"] = devices
        elif not device and self.known["device"]:
            problem = f"the GPU was gone after a process was lost ({problem or 'torch lists none'})"
        self.known["device_problem"] = self.known["device_problem"] or problem
        self._over = not device

    def _end(self, row: dict[str, Any], output: str = "") -> None:
        row["seconds"] = round(time.monotonic() - self._since, 3)
        if row["state"] != "done":
            print(f"{row['id']}: {row['state']}: {row['error']}", file=sys.stderr, flush=True)
        if output:
            row["output"] = output
        self.known["exercises"].append(row)
        self.todo = self.todo[1:]
        self.running = None

    def _lost(self, state: str, why: str, worker: Worker, before: int) -> None:
        """A process is gone before its work was done."""
        self.known["restarts"] += 1
        output = worker.printed(self._at)
        if self.running is not None:
            if self.running["step"] == "kernels":
                # The profiler's doing: the exercise itself was over, and the next ones go without it.
                self.profile = False
            self._end({**self.running, "state": state, "error": why}, output)
            self._vain = 0
        elif self.known["import"]["state"] != "ok":
            if not self._over:
                self.known["import"] = {"state": state, "error": why, "output": output}
                self._over = True
        elif not self.known["device"] and self.asked == "auto":
            self.known["device_problem"] = f"asking for GPUs: {why}"
            self.asked = "cpu"
        elif not self.known["device"]:
            self.known["device_problem"] = f"asking for GPUs: {why}"
            self._over = True
        elif len(self.todo) == before:
            self._vain += 1


def main(argv: list[str]) -> int:
    """Do all of it; ends with 0 once the answers are written, whatever they are."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("table", help="the table `probe`, as TOML or JSON")
    parser.add_argument("--device", choices=("auto", "cuda", "cpu"), default="auto")
    parser.add_argument("--timeout", type=float, default=0.0, help="seconds for one exercise")
    parser.add_argument("--out", default="", help="file for the answers")
    parser.add_argument("--json", action="store_true", help="print the answers")
    options = parser.parse_args(argv)
    if options.timeout < 0:
        parser.error(f"an exercise cannot end within {options.timeout:g} seconds")
    if not hasattr(os, "fork"):
        sys.exit(NO_FORK)
    table = read_table(options.table)
    limits = table["limits"]
    answers = Answers(options.device, os.path.abspath(options.out) if options.out else "")  # noqa: PTH100
    limit_s = options.timeout or limits["exercise_s"]
    course = Course(exercises(table), answers, limit_s, max(limits["start_s"], limit_s))
    directory = tempfile.mkdtemp(prefix="rocwright-try-")
    before = os.getcwd()  # noqa: PTH109
    try:
        # Not the caller's, which may hold a torch of its own.
        os.chdir(directory)
        course.run(directory)
    finally:
        os.chdir(before)
        shutil.rmtree(directory, ignore_errors=True)
    if options.json:
        print(json.dumps(answers.known, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

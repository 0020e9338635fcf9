"""`rocm-sdk test`: what all its levels share.

A check is {"id", "verdict", "cause", "fix"}; cause and fix are empty for a passed one. One bad library fails
one check, an absent GPU fails none.
"""

import importlib
import json
import subprocess
import sys

VERDICTS = ("passed", "failed", "skipped")
# Level to the exit status when one of its checks fails, in the order in which they run.
STATUS = {"static": 1, "device": 3, "torch": 4}
MARK = "rocm-sdk check: "  # begins a worker's own lines; libraries print what they like


def run(levels):
    """{level: its checks} of the levels, each in a fixed order."""
    return {level: _level(level) for level in levels}


def _level(level):
    checks = []
    parts = importlib.import_module(f"rocm_sdk._test_{level}").PARTS
    for part in parts:
        try:
            checks.extend(part())
        except Exception as error:  # a broken installation breaks one part of the report, not the report
            checks.append(check("test:" + part.__name__.strip("_"), "failed", repr(error)))
    return checks


def status(report):
    """Exit status for {level: checks}: that of the first level with a failed check, else 0."""
    failing = [level for level, checks in report.items() if any(c["verdict"] == "failed" for c in checks)]
    return STATUS[failing[0]] if failing else 0


def check(name, verdict, cause="", fix=""):
    """One check of the report."""
    return {"id": name, "verdict": verdict, "cause": cause, "fix": fix}


def run_command(command, seconds, environ=None):
    """(stdout and stderr, None when it succeeded, else how it ended): a command that may crash or hang."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
            env=environ,
        )
    except subprocess.TimeoutExpired as error:
        return (error.stdout or b"").decode("utf-8", "replace"), f"no end after {seconds} s"
    except OSError as error:
        return "", f"{error.filename}: {error.strerror}"
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode == 0:
        return text, None
    return text, f"signal {-done.returncode}" if done.returncode < 0 else f"status {done.returncode}"


def failure(command, seconds):
    """None when a command succeeds, else how it failed, in a line."""
    text, ending = run_command(command, seconds)
    return in_a_line(text, ending) if ending else None


def in_a_line(text, ending):
    """How a command failed: its last words and its end."""
    lines = text.strip().splitlines()
    return "{} ({})".format(lines[-1].strip() if lines else "no message", ending)


def tell(step, verdict, cause="", **more):
    """In a worker: report one step, at once, as the next one may crash."""
    print(MARK + json.dumps(dict(more, step=step, verdict=verdict, cause=cause)), flush=True)


def run_worker(module, task, steps, seconds, environ=None, isolated=True):
    """{step: what the worker told} of a module of this package, run with `task` in a process of its own.

    Every one of `steps` is in the answer: the first that the worker did not reach failed as it ended, the
    others are skipped.
    """
    code = "import sys; sys.path[:] = {!r}; from rocm_sdk import {} as w; w.main(sys.argv[1])"
    flags = ["-I", "-S"] if isolated else []
    command = [sys.executable, *flags, "-c", code.format(sys.path[:], module), json.dumps(task)]
    text, ending = run_command(command, seconds, environ)
    told, other = {}, []
    for line in text.splitlines():
        if line.startswith(MARK):
            answer = json.loads(line[len(MARK) :])
            told[answer["step"]] = answer
        else:
            other.append(line)
    # A worker that ended well has left out what makes no sense after a failure; one that did not, broke off.
    broken = [step for step in told if told[step]["verdict"] == "failed"][-1:] if ending is None else []
    for step in [step for step in steps if step not in told]:
        if broken:
            told[step] = {"step": step, "verdict": "skipped", "cause": f"{broken[0]} failed before"}
        else:
            cause = in_a_line("\n".join(other), ending or "no answer")
            told[step] = {"step": step, "verdict": "failed", "cause": cause}
            broken = [step]
    return told

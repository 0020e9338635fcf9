"""The answer: this machine's GPUs (or wished-for targets) with the lines for them, and how it is printed."""

import os
import re
import sys

from . import _known, _pci
from ._detect import base, near
from ._install import KINDS, checked, lines
from ._machine import look
from ._table import INDEXES

FOUND, NONE, USAGE, UNKNOWN, UNREACHABLE = 0, 1, 2, 3, 5
# Whose lines are shown where nobody names an index.
SUGGESTED = "stable"
# Variables of rocm-bootstrap: the GPUs that there are (`gfx942,gfx1100`), and that there are none (1).
FORCED, DISABLED = "ROCM_BOOTSTRAP_FORCE_GFX_ARCH", "ROCM_BOOTSTRAP_DISABLE_DETECTION"
UNCHECKED = "not checked against the index: what it really has shows when you install"


def answer(
    root="/",
    text=None,
    targets=(),
    index=None,
    kind=None,
    torch=None,
    pre=False,
    python=None,
    offline=False,
):
    """The whole answer, as `--json` prints it; `ValueError` for options that make no sense.

    What `look` found, or a report on `targets` that somebody names instead, and: `targets`; `unserved`, those
    that there is nothing for, with advice; `install` (see `lines`); `suggested`, the same for AMD's stable
    index, unchecked, where no `index` is given; `asked`, what the index said (see `ask`), None where it was
    not asked; `exit_status`, 0 when every GPU is identified and, with `index`, served, 1
    when there is none, 5 when the index cannot be asked or is none, 3 otherwise.
    """
    if index is not None:
        index = checked(index, torch)
    elif torch is not None or pre or kind or python or offline:
        raise ValueError(
            "--torch, --pre, --kind, --python and --offline say what to install: give --index or "
            "--index-name, too"
        )
    if python is not None and not re.fullmatch(r"3\.[0-9]{1,3}t?", python):
        raise ValueError(f"{python!r} is no Python; give one like 3.12")
    report = seen(root, text, targets)
    platform = "windows" if report["platform"] == "windows" else "linux"
    report["unserved"], report["install"], report["asked"] = [], [], None
    wanted = list(dict.fromkeys(map(_known.package_of, report["targets"])))
    report["notes"] += [
        f"code for {one} comes in the packages for {_known.package_of(one)}"
        for one in report["targets"]
        if one != _known.package_of(one)
    ]
    report["suggested"] = []
    if index is None:
        report["suggested"] = lines(wanted, *INDEXES[SUGGESTED], platform=platform)
    if index is not None and wanted and not offline:
        # Only now: it loads what talks to servers.
        from ._ask import ask, place_of

        asked = ask(index, wanted, place_of(python, platform), kind, torch, pre)
        report["unserved"], report["install"] = asked.pop("unserved"), asked.pop("install")
        report["notes"] += asked.pop("notes")
        report["asked"] = {"index": index, **asked}
    elif index is not None:
        report["unserved"] = [
            {"target": target, "advice": _known.advice(target, platform)}
            for target in wanted
            if _known.family_for(target, platform) is None
        ]
        report["install"] = lines(wanted, index, kind or KINDS[0], torch, pre, platform)
        report["notes"] += [UNCHECKED] if report["install"] else []
    report["exit_status"] = status(report, report["asked"] and report["asked"]["problem"])
    return report


def seen(root="/", text=None, targets=()):
    """What `look` found, or a report on `targets` that somebody names instead: here, or by AMD's variables.

    Beside what `look` says, `targets`: those of all GPUs, each once. `ValueError` for what makes no sense.
    """
    if targets and text is not None:
        raise ValueError("--target and --from-windows both say which GPUs: give one of them")
    if not os.path.isdir(root):
        raise ValueError(f"--root: there is no directory {root}")
    variable, forced = ("", None) if targets or text is not None else _forced()
    if forced is not None:
        report = _wanted(forced)
        report["notes"] += [f"{variable} is set: this machine was not looked at"]
    elif targets:
        report = _wanted(targets)
        if not report["gpus"]:
            raise ValueError("--target names none; give one like gfx1100")
    else:
        report = look(root=root, text=text)
    report["targets"] = list(dict.fromkeys(gpu["target"] for gpu in report["gpus"] if gpu["target"]))
    return report


def _forced():
    """What AMD's rocm-bootstrap obeys instead of looking: the variable that is set, and the GPUs it names."""
    if os.environ.get(DISABLED) == "1":
        return f"{DISABLED}=1", []
    words = os.environ.get(FORCED)
    return (f"{FORCED}={words}", [words]) if words else ("", None)


def text_of(path):
    """The text of a file that Windows wrote, `-` being standard input; None without a path."""
    if path is None:
        return None
    if path == "-":
        return _pci.decoded(sys.stdin.buffer.read())
    with open(path, "rb") as stream:
        return _pci.decoded(stream.read())


def status(report, problem):
    """The exit status; `problem` is why the index cannot be asked."""
    if problem:
        return UNREACHABLE
    if any(gpu["target"] is None for gpu in report["gpus"]) or report["unserved"]:
        return UNKNOWN
    if report["gpus"]:
        return FOUND
    # Something may be there that could not be looked at.
    return UNKNOWN if report["problems"] else NONE


def _wanted(words):
    """A report on targets that somebody names instead of this machine's."""
    chips = {target for _, target, _, _ in _known.CHIPS}
    known = sorted({*chips, *_known.OWNERS, *_known.published("linux")})
    report = {
        "platform": sys.platform.replace("win32", "windows"),
        "source": "asked",
        "problems": [],
        "notes": [],
    }
    report["gpus"] = []
    named = dict.fromkeys(word for one in words for word in one.lower().replace(",", " ").split())
    for target in named:
        gpu = dict.fromkeys(("name", "chip", "integrated", "device_id", "revision", "location"))
        found = base(target) in known
        gpu.update(index=len(report["gpus"]), target=base(target) if found else None)
        gpu["near"] = [] if found else near(target, known)
        report["gpus"].append(gpu)
        if not found:
            close = " ".join(gpu["near"])
            report["problems"].append(
                f"{target} is no known target" + (f"; near it are: {close}" if close else "")
            )
    return report


def show(report, out=print, err=None):
    """Print the answer for people: GPUs and lines with `out`, all else with `err` (default: to stderr)."""
    err = err or (lambda line: print(line, file=sys.stderr))
    show_gpus(report, out, err)
    if report["asked"]:
        asked(report["asked"], bool(report["install"]), err)
    for one in report["suggested"]:
        err(f"to install PyTorch, not checked (--index-name {SUGGESTED} asks the index):")
        err("  " + one["pip"])
    for one in report["install"]:
        if len(report["install"]) > 1:
            err("one environment holds one family; for " + " ".join(one["for"]) + ":")
        for line in ("", one["pip"], one["uv"], "", one["pyproject"].rstrip("\n")):
            out(line)


def show_gpus(report, out, err):
    """Print the GPUs, and what is to be said of them."""
    for gpu in report["gpus"]:
        out(row(gpu))
    for gpu in report["gpus"]:
        if gpu["target"] is None and gpu["device_id"]:
            err(unknown(gpu))
    for line in [*report["problems"], *report["notes"], *(one["advice"] for one in report["unserved"])]:
        err(line)
    if not report["gpus"] and not report["problems"]:
        err("no AMD GPU is visible here")


def asked(said, lines_there, err):
    """Tell what an index said, beside the lines."""
    if lines_there:
        there = f"; torch is there for Python {' '.join(said['pythons'])}" if said["pythons"] else ""
        err(f"checked against the index ({counted(said)}){there}")
    if said["problem"]:
        err(f"{said['problem']} ({counted(said)})")


def counted(said):
    """How many requests that took, in words."""
    return f"{said['requests']} request{'' if said['requests'] == 1 else 's'}"


def row(gpu):
    """A GPU in one line: index, target, name, where it is."""
    name = gpu["name"] or gpu["chip"] or gpu["device_id"] or ""
    parts = [str(gpu["index"]), gpu["target"] or "unknown", name, gpu["location"] or ""]
    return "  ".join(part for part in parts if part)


def unknown(gpu):
    """Why a GPU has no target, and what to do."""
    line = f"PCI id {_known.VENDOR}:{gpu['device_id'][2:]} is not in the table, so its target is not known"
    if gpu["near"]:
        line += f"; ids beside it are of: {' '.join(gpu['near'])}"
    return line + ". If you know it: --target"

"""Ways in which Python source goes wrong: merges, editors, templates, renames."""

from __future__ import annotations

import ast
import importlib.util
import marshal
import re
import struct
import sys
from collections.abc import Sequence
from random import Random

from real.fault_generator.base import operator, pick
from real.fault_generator.blind.places import (
    change_text,
    found,
    is_module,
    is_text,
)
from real.mutations_base import Workbench


def insert(rng: Random, text: str, line: str) -> str:
    """Put a line between two statements of a module, or at one of its ends."""
    lines = text.splitlines(keepends=True)
    try:
        tops = [node.lineno - 1 for node in ast.parse(text).body[1:]]
    except (SyntaxError, ValueError):
        tops = []
    at = rng.choice([0, len(lines), *tops])
    return "".join([*lines[:at], f"{line}\n", *lines[at:]])


def insert_one_of(bench: Workbench, rng: Random, lines: Sequence[str]) -> str | None:
    """Put one of these lines into a module."""

    def change(text: str) -> tuple[str, str]:
        line = rng.choice(lines)
        return insert(rng, text, line), f"a new line: {line}"

    return change_text(bench, rng, is_module, change)


@operator
def merge_left_open(bench: Workbench, rng: Random) -> str | None:
    """The marks of a conflict of a merge are still there."""

    def change(text: str) -> tuple[str, str]:
        lines = text.splitlines(keepends=True) or ["\n"]
        at = rng.randrange(len(lines))
        new = ["<<<<<<< HEAD\n", lines[at], "=======\n", lines[at], ">>>>>>> release/2.9\n"]
        return "".join([*lines[:at], *new, *lines[at + 1 :]]), f"a conflict at line {at + 1}"

    return change_text(bench, rng, is_text, change, info=rng.random() < 0.3)


@operator
def saved_by_other_editor(bench: Workbench, rng: Random) -> str | None:
    """A text has another encoding, other line ends or other blanks."""
    place = found(
        bench, rng, lambda name: is_text(name) and not name.endswith("RECORD"), info=rng.random() < 0.3
    )
    if place is None:
        return None
    project, name, data = place
    text = data.decode("utf-8", "replace")
    what, new = rng.choice(
        (
            ("UTF-16", text.encode("utf-16")),
            ("a byte-order mark", b"\xef\xbb\xbf" + data),
            ("line ends of Windows", data.replace(b"\n", b"\r\n")),
            ("line ends of old Macs", data.replace(b"\n", b"\r")),
            ("a comment in Latin-1", b"# Gr\xfc\xdfe\n" + data),
            ("tabs for blanks", data.replace(b"    ", b"\t", max(1, data.count(b"    ") // 2))),
            ("a blank that does not break", data.replace(b" ", b"\xc2\xa0", 1)),
            ("curly quotes", text.replace('"', "\u201c", 1).encode()),
            ("a NUL at its end", data + b"\0"),
            ("a pound sign of a coding that nobody knows", b"# -*- coding: utf8-mac-rocm -*-\n" + data),
        )
    )
    if new == data:
        return None
    with bench.edit(project) as wheel:
        wheel.put(name, new)
    return f"{project}: {name} has {what}"


@operator
def template_not_filled(bench: Workbench, rng: Random) -> str | None:
    """A version or a name is still the template's."""
    holes = ("@VERSION@", "{{ version }}", "${ROCM_VERSION}", "%(version)s", "unknown", "0.0.0", "")

    def change(text: str) -> tuple[str, str] | None:
        places = list(re.finditer(r"\d+\.\d+(?:\.[\d*]+)?(?:\+[a-z0-9.]+)?", text))
        if not places:
            return None
        place, hole = rng.choice(places), rng.choice(holes)
        return text[: place.start()] + hole + text[place.end() :], f"{place.group()} became {hole!r}"

    return change_text(
        bench, rng, lambda name: name.endswith((".py", "METADATA", "WHEEL")), change, info=True
    )


@operator
def syntax_of_other_python(bench: Workbench, rng: Random) -> str | None:
    """Source that other Pythons take."""
    lines = (
        "type Index = int",
        "print 'loaded'",
        'NAME = f"{"".join(["a"])}"',
        "def first[T](values: list[T]) -> T: return values[0]",
        "exec 'pass'",
        "async = False",
        "from __future__ import braces",
    )
    return insert_one_of(bench, rng, lines)


@operator
def import_of_build_machine(bench: Workbench, rng: Random) -> str | None:
    """A module imports what only the build machine has."""
    lines = (
        "import numpy",
        "import setuptools",
        "from . import _generated",
        "from .._build_info import *",
        "import torch._inductor_config",
        "from distutils.version import LooseVersion",
        "from importlib import resources; resources.files('triton').joinpath('config.json').read_text()",
        "import ctypes; ctypes.CDLL('/opt/rocm/lib/libamdhip64.so')",
    )
    return insert_one_of(bench, rng, lines)


@operator
def left_from_debugging(bench: Workbench, rng: Random) -> str | None:
    """Somebody's experiment is still in a module."""
    lines = (
        "import os; os._exit(3)",
        "raise SystemExit(0)",
        "assert False, 'not reached'",
        "import os; os.environ['PYTORCH_ROCM_ARCH']",
        "import sys; sys.path.insert(0, '/home/builder/src')",
        "import sys; sys.modules.pop(__name__, None)",
        "import os; open(os.path.expanduser('~/.trace.log'), 'a').close()",
        "__version__ = 'dev'",
        "del __name__",
    )
    return insert_one_of(bench, rng, lines)


@operator
def name_misspelt(bench: Workbench, rng: Random) -> str | None:
    """Two letters of a name have changed places, in one place."""

    def change(text: str) -> tuple[str, str] | None:
        places = list(re.finditer(r"[A-Za-z_]\w{3,}", text))
        if not places:
            return None
        place = rng.choice(places)
        old, at = place.group(), rng.randrange(len(place.group()) - 1)
        new = old[:at] + old[at + 1] + old[at] + old[at + 2 :]
        return text[: place.start()] + new + text[place.end() :], f"{old} became {new} at {place.start()}"

    return change_text(bench, rng, is_module, change)


@operator
def definition_renamed(bench: Workbench, rng: Random) -> str | None:
    """A function or class has a new name, and who uses it does not know."""

    def change(text: str) -> tuple[str, str] | None:
        places = list(re.finditer(r"(?m)^(?:def|class) (\w+)", text))
        if not places:
            return None
        place = rng.choice(places)
        return text[: place.end()] + "_v2" + text[
            place.end() :
        ], f"{place.group(1)} became {place.group(1)}_v2"

    return change_text(bench, rng, is_module, change)


@operator
def indentation_shifted(bench: Workbench, rng: Random) -> str | None:
    """A line stands further left or further right."""

    def change(text: str) -> tuple[str, str] | None:
        lines = text.splitlines(keepends=True)
        at = pick(rng, [str(number) for number, line in enumerate(lines) if line.strip()])
        if at is None:
            return None
        old = lines[int(at)]
        lines[int(at)] = old[4:] if old.startswith("    ") and rng.random() < 0.6 else f"    {old}"
        return "".join(lines), f"line {int(at) + 1}: {old.strip()[:60]}"

    return change_text(bench, rng, is_module, change)


@operator
def module_compiled(bench: Workbench, rng: Random) -> str | None:
    """Compiled modules were packed: alone, of another Python, or an older state that wins."""
    place = found(bench, rng, is_module)
    if place is None:
        return None
    project, name, data = place
    folder, _, last = name.rpartition("/")
    what = rng.choice(("alone", "of another Python, alone", "beside an older state", "cut short, alone"))
    source = b"STATE = 'older'\n" if what.startswith("beside") else data
    # Bit 0: valid by the source's digest; bit 1, not set: nobody compares.
    body = struct.pack("<4sI8x", importlib.util.MAGIC_NUMBER, 1) + marshal.dumps(
        compile(source, name, "exec")
    )
    if what.startswith("of another"):
        body = struct.pack("<HH", 3531, 0x0A0D) + body[4:]
    if what.startswith("cut"):
        body = body[:20]
    with bench.edit(project) as wheel:
        if what.startswith("beside"):
            tag = sys.implementation.cache_tag
            wheel.put(f"{folder}/__pycache__/{last[:-3]}.{tag}.pyc".lstrip("/"), body)
        else:
            wheel.remove(name)
            wheel.put(f"{name}c", body)
    return f"{project}: {name} is compiled, {what}"

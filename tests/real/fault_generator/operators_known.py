"""Ways to break a set, thought up by those who know the checks: what they had not thought of at first."""

from __future__ import annotations

from random import Random

from real.fault_generator.base import any_wheel, members, operator, pick
from real.mutations_base import Workbench


@operator
def misspell_an_import(bench: Workbench, rng: Random) -> str | None:
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        name = pick(rng, members(wheel, ending=(".py",)))
        if name is None:
            return None
        lines = wheel.read(name).decode().splitlines(keepends=True)
        imports = [i for i, line in enumerate(lines) if line.startswith(("from ", "import "))]
        found = [i for i in imports if "__future__" not in lines[i]]
        if not found:
            return None
        at = rng.choice(found)
        words = lines[at].split()
        words[1] += "_v2"
        lines[at] = " ".join(words) + "\n"
        wheel.put(name, "".join(lines))
    return f"{name} of {project} imports {words[1]}"


@operator
def hide_metadata_behind_an_empty_line(bench: Workbench, rng: Random) -> str | None:
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        head, gap, body = wheel.read("{info}/METADATA").decode().partition("\n\n")
        lines = head.split("\n")
        at = rng.randrange(1, len(lines))
        wheel.put("{info}/METADATA", "\n".join([*lines[:at], "", *lines[at:]]) + gap + body)
    return f"an empty line before {lines[at]!r} in METADATA of {project}"


@operator
def change_a_pin(bench: Workbench, rng: Random) -> str | None:
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        text = wheel.read("{info}/METADATA").decode()
        lines = text.splitlines(keepends=True)
        found = [i for i, line in enumerate(lines) if line.startswith("Requires-Dist:") and "==" in line]
        if not found:
            return None
        at = rng.choice(found)
        name, _, version = lines[at].strip().partition("==")
        public = version.partition("+")[0]
        same = f"{name}=={version}"
        other = rng.choice([f"{same}.post1", f"{name}<{public}", f"{same}; python_version < '3'"])
        lines[at] = other + "\n"
        wheel.put("{info}/METADATA", "".join(lines))
    return f"{project} says {other!r}"


@operator
def shadow_a_module(bench: Workbench, rng: Random) -> str | None:
    project = any_wheel(bench, rng)
    startup = ["sitecustomize.py", "usercustomize.py", "extra.pth"]
    name = rng.choice(["json.py", "typing/__init__.py", "pip/__init__.py", *startup])
    text = "import os; os.environ['SEEN'] = '1'\n" if name.endswith(".pth") else "SEEN = 1\n"
    with bench.edit(project) as wheel:
        wheel.put(name, text)
    return f"{project} brings {name}"


@operator
def a_second_build(bench: Workbench, rng: Random) -> str | None:
    """A rebuild of one version with a build tag, in which a library is missing."""
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        name = pick(rng, members(wheel))
        if name is None:
            return None
        parts = wheel.name.split("-")
        first = bench.paths[project]
        wheel.remove(name)
        wheel.name = "-".join([*parts[:2], "1", *parts[2:]])
    bench.paths[f"{project} again"] = bench.paths[project]
    bench.paths[project] = first
    return f"a second build of {project} without {name}"

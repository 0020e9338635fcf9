"""Ways to break a set, thought up by those who know the checks: what they had not thought of at first."""

from __future__ import annotations

from random import Random

from real.fault_generator.base import any_wheel, members, operator, pick
from real.mutations_base import Workbench

<<<<<<< HEAD
LIBRARY = (".so",)


@operator
def lose_a_member(bench: Workbench, rng: Random) -> str | None:
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        name = pick(rng, members(wheel))
        if name is None:
            return None
        wheel.remove(name)
    return f"{project} lost {name}"


@operator
def strip_a_library(bench: Workbench, rng: Random) -> str | None:
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        name = pick(rng, members(wheel, ending=LIBRARY))
        if name is None:
            return None
        section = rng.choice(
            [".dynamic", ".init_array", ".rela.dyn", ".hip_fatbin", ".data.rel.ro", ".comment"]
        )
        try:
            wheel.run(name, "objcopy", "--remove-section", section)
        except (subprocess.CalledProcessError, AssertionError):
            return None
    return f"objcopy took {section} out of {name} in {project}"


@operator
def rename_a_symbol(bench: Workbench, rng: Random) -> str | None:
    """One character of a name that the loader looks for, as a mangled name of another compiler."""
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        name = pick(rng, members(wheel, ending=LIBRARY))
        if name is None:
            return None
        data = wheel.read(name)
        found = [word for word in _symbols(data, bench.scratch) if data.count(word) == 1 and len(word) > 5]
        if not found:
            return None
        word = rng.choice(sorted(found))
        wheel.put(name, data.replace(word, word[:-2] + b"Q\0"))
    return f"{word[1:-1].decode()} is called otherwise in {name} of {project}"


def _symbols(data: bytes, scratch: Path) -> set[bytes]:
    path = scratch / "symbols.so"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    said = subprocess.run(["nm", "-D", str(path)], capture_output=True, text=True, check=False).stdout
    return {
        b"\0" + line.split()[-1].partition("@")[0].encode() + b"\0"
        for line in said.splitlines()
        if line.split()
    }


@operator
def need_another_library(bench: Workbench, rng: Random) -> str | None:
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        name = pick(rng, members(wheel, ending=LIBRARY))
        if name is None:
            return None
        needed = rng.choice(["libmkl_rt.so.2", "libcudart.so.12", "libtorch_cuda.so", "libgfortran.so.5"])
        try:
            wheel.run(name, "patchelf", "--add-needed", needed)
        except (subprocess.CalledProcessError, AssertionError):
            return None
    return f"{name} of {project} needs {needed}"


@operator
def merge_badly(bench: Workbench, rng: Random) -> str | None:
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        name = pick(rng, members(wheel, ending=(".py",)))
        if name is None:
            return None
        lines = wheel.read(name).decode().splitlines(keepends=True)
        at = rng.randrange(len(lines) + 1)
        ours, theirs = lines[max(0, at - 1) : at], lines[at : at + 1]
        lines[max(0, at - 1) : at + 1] = ["<<<<<<< HEAD\n", *ours, "=======\n", *theirs, ">>>>>>> release\n"]
        wheel.put(name, "".join(lines))
    return f"{name} of {project} has a conflict in line {at}"

=======
>>>>>>> generator

@operator
def misspell_an_import(bench: Workbench, rng: Random) -> str | None:
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        name = pick(rng, members(wheel, ending=(".py",)))
        if name is None:
            return None
        lines = wheel.read(name).decode().splitlines(keepends=True)
<<<<<<< HEAD
        found = [
            i
            for i, line in enumerate(lines)
            if line.startswith(("from ", "import ")) and "__future__" not in line
        ]
=======
        imports = [i for i, line in enumerate(lines) if line.startswith(("from ", "import "))]
        found = [i for i in imports if "__future__" not in lines[i]]
>>>>>>> generator
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
<<<<<<< HEAD
        other = rng.choice(
            [
                f"{name}=={version}.post1",
                f"{name}<{version.partition('+')[0]}",
                f"{name}=={version}; python_version < '3'",
            ]
        )
=======
        public = version.partition("+")[0]
        same = f"{name}=={version}"
        other = rng.choice([f"{same}.post1", f"{name}<{public}", f"{same}; python_version < '3'"])
>>>>>>> generator
        lines[at] = other + "\n"
        wheel.put("{info}/METADATA", "".join(lines))
    return f"{project} says {other!r}"


@operator
def shadow_a_module(bench: Workbench, rng: Random) -> str | None:
    project = any_wheel(bench, rng)
<<<<<<< HEAD
    name = rng.choice(
        [
            "json.py",
            "typing/__init__.py",
            "sitecustomize.py",
            "extra.pth",
            "pip/__init__.py",
            "usercustomize.py",
        ]
    )
=======
    startup = ["sitecustomize.py", "usercustomize.py", "extra.pth"]
    name = rng.choice(["json.py", "typing/__init__.py", "pip/__init__.py", *startup])
>>>>>>> generator
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

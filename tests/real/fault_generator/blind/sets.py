"""Ways in which wheels do harm beside others: scripts, data, builds that do not belong together."""

from __future__ import annotations

import gzip
import io
import re
import tarfile
from random import Random

from real.fault_generator.base import any_wheel, members, open_wheel, operator, pick
from real.fault_generator.blind.metadata import retitle
from real.fault_generator.blind.places import (
    LARGEST,
    change_text,
    found,
    is_library,
    is_module,
)
from real.mutations_base import Workbench
from real.wheel_edit import FILE, WheelEdit


@operator
def entry_points_wrong(bench: Workbench, rng: Random) -> str | None:
    """Entry points that cannot be written, cannot run, or take another program's name."""
    project = any_wheel(bench, rng)
    top = rng.choice(("torch", "triton", "apex", "rocm_sdk"))
    # No script takes the interpreter's own name: in an environment that is a link to the machine's.
    lines = rng.choice(
        (
            f"[console_scripts]\nrocm-sdk = {top}:main\n",
            f"[console_scripts]\ntorchrun = {top}.distributed.run:main\n",
            f"[console_scripts]\ntorchrun = {top}\n",
            f"[console_scripts]\ntorchrun {top}:main\n",
            f"torchrun = {top}:main\n",
            f"[console_scripts]\n../torchrun = {top}:main\n",
            f"[console_scripts]\nactivate = {top}:main\n",
            f"[console_scripts]\ntorchrun = {top}:main [gpu]\n",
            f"[console_scripts]\ntorchrun = {top}:main\ntorchrun = {top}:other\n",
            f"[console_scripts]\ntorchrun = {top}:ma in\n",
            f"[gui_scripts]\nhipcc = {top}:main\n",
            f"[torch.backends]\ndevice_backend = {top}_backend:_autoload\n",
        )
    )
    with bench.edit(project) as wheel:
        wheel.put("{info}/entry_points.txt", lines)
    return f"{project}: entry points: {lines.strip()!r}"


@operator
def data_directory(bench: Workbench, rng: Random) -> str | None:
    """Files in the wheel's data directory that go where they should not."""
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        base = wheel.info.replace(".dist-info", ".data")
        if rng.random() < 0.25:
            base = base.replace("-", "-0.", 1)
        place, data = rng.choice(
            (
                ("scripts/activate", b"true\n"),
                ("scripts/rocm-sdk", b"#!/bin/sh\nexit 3\n"),
                ("scripts/hipconfig", b"#!/usr/bin/python2\nprint 1\n"),
                ("scripts/torch-run", b"#!python\nimport torch.distributed.run\n"),
                ("data/pyvenv.cfg", b"home = /build/bin\n"),
                ("data/etc/OpenCL/vendors/amdocl64.icd", b"libamdocl64.so\n"),
                ("data/share/man/man1/torchrun.1", b".TH torchrun 1\n"),
                ("purelib/torch/version.py", b"__version__ = '2.9.0'\nhip = None\n"),
                ("platlib/rocm_sdk/__init__.py", b""),
                ("headers/torch/extension.h", b"#pragma once\n"),
                ("libs/libc10_hip.so", b"\x7fELF"),
                ("data/lib/python3.11/site-packages/triton/__init__.py", b"raise ImportError('no driver')\n"),
            )
        )
        wheel.put(f"{base}/{place}", data, mode=FILE | 0o755)
    return f"{project}: {base}/{place}"


@operator
def files_moved_to_data(bench: Workbench, rng: Random) -> str | None:
    """A build put the package, or a part of it, below the data directory."""
    project = any_wheel(bench, rng)
    with bench.edit(project) as wheel:
        names = [name for name in members(wheel) if wheel.part(name).size < LARGEST]
        chosen = names if rng.random() < 0.3 else [rng.choice(names)]
        below = rng.choice(("purelib", "platlib", "data", "data/lib", "PURELIB", "scripts"))
        base = wheel.info.replace(".dist-info", f".data/{below}")
        for name in chosen:
            wheel.rename(name, f"{base}/{name}")
    return f"{project}: {len(chosen)} files, as {chosen[0]}, below {base}"


@operator
def start_hook(bench: Workbench, rng: Random) -> str | None:
    """The wheel does something at the start of every interpreter."""
    project = any_wheel(bench, rng)
    name, text = rng.choice(
        (
            ("rocm.pth", "import sys; sys.path.insert(0, '/opt')\n"),
            ("torch-preload.pth", "import torch\n"),
            ("__editable__.torch.pth", "/build/pytorch\n"),
            ("zz.pth", "import os; open(os.path.expanduser('~/.started'), 'w').close()\n"),
            ("paths.pth", "torch/utils\n"),
            ("sitecustomize.py", "import os\nos.environ.setdefault('HIP_VISIBLE_DEVICES', '')\n"),
            ("usercustomize.py", "import json\n"),
            ("broken.pth", "import not_there_at_all\n"),
        )
    )
    with bench.edit(project) as wheel:
        wheel.put(name, text)
    return f"{project}: {name}: {text.strip()}"


@operator
def stray_files(bench: Workbench, rng: Random) -> str | None:
    """What lay about when the wheel was built is in it, under names that others use."""
    project = any_wheel(bench, rng)
    name, text = rng.choice(
        (
            ("tests/__init__.py", ""),
            ("setup.py", "from setuptools import setup\nsetup()\n"),
            ("build/lib/torch/version.py", "__version__ = '2.8.0'\n"),
            ("typing.py", "Any = object\n"),
            ("random.py", "seed = None\n"),
            ("numpy/__init__.py", "__version__ = '0'\n"),
            ("Torch/__init__.py", ""),
            ("rocm_sdk/_local.py", "DEBUG = True\n"),
            ("torch/json.py", "loads = None\n"),
            ("torch/_C/__init__.py", ""),
            ("torch/cuda.py", "raise ImportError('old module')\n"),
            ("torch/version/__init__.py", "__version__ = '2.8.0'\n"),
            (".git/config", "[core]\n"),
            ("../stray.py", ""),
            ("../../../stray.txt", "stray\n"),
            ("./torch/version.py", "__version__ = '2.8.0'\n"),
            ("torch//version.py", "__version__ = '2.8.0'\n"),
            ("torch/con.py", ""),
            ("torch/a\nb.py", ""),
            ("pip/__init__.py", "__version__ = '1'\n"),
        )
    )
    with bench.edit(project) as wheel:
        wheel.put(name, text)
    return f"{project}: a stray {name!r}"


@operator
def file_of_other_wheel(bench: Workbench, rng: Random) -> str | None:
    """Two wheels bring the same file, with the same bytes or with others."""
    place = found(bench, rng, lambda name: is_module(name) or is_library(name))
    other = any_wheel(bench, rng)
    if place is None or place[0] == other:
        return None
    project, name, data = place
    changed = rng.random() < 0.5
    more = (b"\n# another build\n" if is_module(name) else bytes(16)) if changed else b""
    with bench.edit(other) as wheel:
        wheel.put(name, data + more)
    return f"{other}: {name} of {project}, {'changed' if changed else 'the same'}"


# -- extension modules and the set


@operator
def extension_renamed(bench: Workbench, rng: Random) -> str | None:
    """An extension module is named as another Python, platform or module has it."""
    place = found(bench, rng, lambda name: ".cpython-311-" in name)
    if place is None:
        return None
    project, name, _ = place
    folder, slash, last = name.rpartition("/")
    stem, _, ending = last.partition(".")
    new = rng.choice(
        (
            f"{stem}.{ending.replace('311', '310')}",
            f"{stem}.{ending.replace('311', '311d')}",
            f"{stem}.{ending.replace('x86_64', 'aarch64')}",
            f"{stem}.so",
            f"{stem}.abi3.so",
            f"{stem}.pyd",
            f"lib{stem}.{ending}",
            f"{stem}2.{ending}",
            f"{stem}.{ending}.1",
        )
    )
    with bench.edit(project) as wheel:
        wheel.rename(name, folder + slash + new)
    return f"{project}: {name} is named {new}"


@operator
def library_of_other_build(bench: Workbench, rng: Random) -> str | None:
    """A library holds what another wheel's library of the set has."""
    one, other = found(bench, rng, is_library), found(bench, rng, is_library)
    if one is None or other is None or one[2] == other[2]:
        return None
    with bench.edit(one[0]) as wheel:
        wheel.put(one[1], other[2])
    return f"{one[0]}: {one[1]} holds {other[1]} of {other[0]}"


@operator
def distribution_left_out(bench: Workbench, rng: Random) -> str | None:
    """A file of the set was not copied."""
    project = rng.choice(sorted(bench.paths))
    bench.drop(project)
    return f"{project} is left out"


def other_version(wheel: WheelEdit, new: str) -> str:
    """Give a wheel another version in all places that installers read; gives the old one."""
    stem, _, old = wheel.info.removesuffix(".dist-info").partition("-")
    wheel.substitute("{info}/METADATA", f"\nVersion: {old}\n", f"\nVersion: {new}\n", 1)
    retitle(wheel, f"{stem}-{new}.dist-info")
    wheel.name = wheel.name.replace(f"{stem}-{old}-", f"{stem}-{new}-", 1)
    return old


def near_version(rng: Random, old: str) -> str:
    """A version that another job, branch or day would have given."""
    public, _, local = old.partition("+")
    more = f"+{local}" if local else ""
    return rng.choice(
        (f"{public}.post1{more}", f"{public}+rocm5.2.4", f"{public}+cpu", f"{public}+cu128", public,
         f"{public}.dev20251001{more}", f"{public}rc1{more}", f"{public[:-1]}{int(public[-1]) + 1}{more}")
    )  # fmt: skip


@operator
def build_of_other_version(bench: Workbench, rng: Random) -> str | None:
    """One distribution of the set is another job's: all of the wheel says so."""
    project = any_wheel(bench, rng)
    if bench.paths[project].stat().st_size > LARGEST:
        return None
    wheel = open_wheel(bench.paths[project])
    old = wheel.info.removesuffix(".dist-info").partition("-")[2]
    new = near_version(rng, old)
    if new == old:
        return None
    inside = rng.random() < 0.5
    with bench.edit(project) as edit:
        other_version(edit, new)
        for name in members(edit, ending=("version.py",)) if inside else []:
            text = edit.read(name).decode("utf-8", "surrogateescape").replace(old, new)
            edit.put(name, text.encode("utf-8", "surrogateescape"))
    return f"{project}: {new} in place of {old}{', inside too' if inside else ''}"


@operator
def two_builds_of_one(bench: Workbench, rng: Random) -> str | None:
    """An older or newer build of a distribution lies beside the good one."""
    project = any_wheel(bench, rng)
    if bench.paths[project].stat().st_size > LARGEST or f"{project}-again" in bench.paths:
        return None
    wheel = open_wheel(bench.paths[project])
    old = wheel.info.removesuffix(".dist-info").partition("-")[2]
    new = near_version(rng, old)
    if new == old:
        return None
    other_version(wheel, new)
    bare = [name for name in members(wheel) if is_library(name)]
    if rng.random() < 0.5:
        wheel.remove(*bare)
    bench.add(f"{project}-again", wheel)
    return f"{project}: {new} beside {old}"


@operator
def wheel_of_other_python(bench: Workbench, rng: Random) -> str | None:
    """One wheel is another Python's, platform's or nobody's, in name, tag and members."""
    project = any_wheel(bench, rng)
    if bench.paths[project].stat().st_size > LARGEST:
        return None
    old, new = rng.choice(
        (
            ("cp311-cp311", "cp312-cp312"),
            ("cp311-cp311", "cp310-cp310"),
            ("cp311-cp311", "cp313-cp313t"),
            ("cp311-cp311", "cp311-none"),
            ("cp311-cp311", "py3-none"),
            ("cp311-cp311", "pp311-pypy311_pp73"),
            ("linux_x86_64", "linux_aarch64"),
            ("linux_x86_64", "win_amd64"),
            ("linux_x86_64", "manylinux_2_99_x86_64"),
            ("linux_x86_64", "musllinux_1_2_x86_64"),
        )
    )
    with bench.edit(project) as wheel:
        wheel.retag(old, new)
        digits = re.match(r"cp(\d+)", new)
        for name in members(wheel, ending=(".so",)) if digits else []:
            if digits is not None and "cpython-311" in name:
                wheel.rename(name, name.replace("cpython-311", f"cpython-{digits.group(1)}"))
    return f"{project}: {new} in place of {old}"


@operator
def pins_of_other_build(bench: Workbench, rng: Random) -> str | None:
    """What a wheel requires has the version of another set, in METADATA or in its source."""
    old, new = rng.choice(
        (
            ("rocm5.2.3", "rocm5.2.4"),
            ("5.2.3", "6.4.1"),
            ("5.2.*", "6.4.*"),
            ("2.9.0", "2.8.0"),
            ("3.5.0", "3.4.0"),
        )
    )

    def change(text: str) -> tuple[str, str]:
        head, mark, tail = text.rpartition(old)
        return (head + new + tail if mark else text), f"{old} became {new}"

    return change_text(bench, rng, lambda name: name.endswith((".py", "METADATA")), change, info=True)


@operator
def source_distribution_damaged(bench: Workbench, rng: Random) -> str | None:
    """A file of a source distribution is gone, empty, shorter by a line, or elsewhere."""
    project = pick(rng, sorted(name for name, path in bench.paths.items() if path.name.endswith(".tar.gz")))
    if project is None:
        return None
    told: list[str] = []

    def change(data: bytes) -> bytes:
        out = io.BytesIO()
        with tarfile.open(fileobj=io.BytesIO(data)) as old:
            files = [(entry, old.extractfile(entry)) for entry in old]
            held = [(entry, stream.read() if stream else b"") for entry, stream in files]
        chosen = rng.choice([entry.name for entry, _ in held if entry.isfile()])
        what = rng.choice(("gone", "empty", "shorter by a line", "elsewhere", "read by nobody"))
        told.append(f"{chosen} is {what}")
        # No time of packing, so that the same seed gives the same bytes.
        with (
            gzip.GzipFile(fileobj=out, mode="wb", mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w") as new,
        ):
            for entry, body in held:
                kept = body
                if entry.name == chosen:
                    if what == "gone":
                        continue
                    lines = body.splitlines(keepends=True)
                    if what == "shorter by a line" and lines:
                        del lines[rng.randrange(len(lines))]
                        kept = b"".join(lines)
                    kept = b"" if what == "empty" else kept
                    entry.mode = 0 if what == "read by nobody" else entry.mode
                    entry.name = entry.name.partition("/")[2] if what == "elsewhere" else entry.name
                entry.size = len(kept)
                new.addfile(entry, io.BytesIO(kept) if entry.isfile() else None)
        return out.getvalue()

    bench.overwrite(project, change)
    return f"{project}: {told[0]}"

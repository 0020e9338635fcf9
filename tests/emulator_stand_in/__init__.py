"""A stand-in for an emulator and for HIP's runtime, built by gcc: they play finding, starting and faults.

Nothing of an instruction set is executed by them. `build` makes a prefix as an installation of the real one
looks: the library, its configurations, its version; the runtime; a compiler that gives out a program which
was built before.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from needs import need

_HERE = Path(__file__).resolve().parent
TARGETS = {"gfx942": "gfx942_cdna3_kmd.json", "gfx1100": "gfx1100_w7900.json"}
RUNTIME = "libamdhip64.so.7.2.4"


@cache
def _built() -> Path:
    """The three parts, compiled once in a run."""
    import atexit

    need("gcc")
    place = Path(mkdtemp(prefix="emulator-stand-in-"))
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    options = ["gcc", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-pedantic"]
    shared = [*options, "-shared", "-fPIC"]
    for words in (
        [*shared, str(_HERE / "preload.c"), "-o", str(place / "librocjitsu.so")],
        [
            *shared,
            "-Wl,-soname,libamdhip64.so.7",
            str(_HERE / "runtime.c"),
            "-o",
            str(place / RUNTIME),
            "-ldl",
        ],
        [*options, str(_HERE / "program.c"), "-o", str(place / "program"), str(place / RUNTIME)],
    ):
        done = subprocess.run(words, check=False, text=True, capture_output=True)
        assert done.returncode == 0, done.stderr
    return place


def build(prefix: Path, *, fault: str = "", at: str = "", without: tuple[str, ...] = ()) -> Path:
    """A prefix with all of it; every configuration has the `fault`, for the kernel `at` alone where given.

    `without` are targets that have no configuration.
    """
    built = _built()
    for folder in ("lib", "bin", "share/rocjitsu/configs"):
        (prefix / folder).mkdir(parents=True, exist_ok=True)
    for name in ("librocjitsu.so", RUNTIME):
        shutil.copy(built / name, prefix / "lib" / name)
    for link in ("libamdhip64.so", "libamdhip64.so.7"):
        (prefix / "lib" / link).symlink_to(RUNTIME)
    for target, name in TARGETS.items():
        if target not in without:
            text = json.dumps({"stand_in": True, "target": target, "fault": fault, "at": at})
            (prefix / "share/rocjitsu/configs" / name).write_text(text)
    # Other names that an installation holds, none of which is for one GPU.
    (prefix / "share/rocjitsu/configs/gfx950_cdna4_kmd_2gpu.json").write_text("{}")
    (prefix / "share/rocjitsu/configs/guest_gfx950_on_gfx942.json").write_text("{}")
    script(prefix / "bin/rocjitsu", "echo rocjitsu 0.2.0-stand-in")
    script(prefix / "bin/hipcc", f'for word; do last="$word"; done; cp {built / "program"} "$last"')
    return prefix


def script(path: Path, text: str) -> Path:
    """A shell script that can be executed."""
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def protocol_program(path: Path, prefix: Path, target: str = "gfx942", *, counts: int | None = None) -> Path:
    """A program that speaks the protocol of emulators, over the stand-in of a prefix.

    It counts kernels in the stand-in's log; `counts` is what it says instead.
    """
    path.write_text(
        f"""#!{sys.executable} -I
import json, os, subprocess, sys, tempfile
from pathlib import Path
if sys.argv[1:] == ["--targets"]:
    print(json.dumps([{target!r}]))
    raise SystemExit
assert sys.argv[1:4] == ["--target", {target!r}, "--"], sys.argv
prefix, folder = Path({str(prefix)!r}), Path(tempfile.mkdtemp())
(folder / "config_path").write_text(str(prefix / "share/rocjitsu/configs" / {TARGETS[target]!r}))
env = dict(os.environ, LD_PRELOAD=str(prefix / "lib/librocjitsu.so"), ROCJITSU_RUNTIME_DIR=str(folder),
           RJ_LOG="1", RJ_SINK_DIR=str(folder))
done = subprocess.run(sys.argv[4:], env=env)
log = folder / "logging.log"
said = log.read_text().count("dispatch\\n") if log.exists() else 0
told = {counts!r}
result = {{"dispatches": said if told is None else told, "refused": []}}
Path(os.environ["ROCWRIGHT_EMULATOR_RESULT"]).write_text(json.dumps(result))
raise SystemExit(done.returncode if done.returncode >= 0 else 128 - done.returncode)
"""
    )
    path.chmod(0o755)
    return path

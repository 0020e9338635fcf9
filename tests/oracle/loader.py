"""Opens a library as a machine with ROCm would, without either, and tells what its constructors registered.

A stand-in for libamdhip64 (`stub_hip/`) takes the place of the runtime. It follows fat wrappers (HIPF) to
the code object of one ISA, and split ones (HIPK) through their marker to the archive, as AMD's runtime does;
so the same code object must come out of a library before and after its device code was split off. What a GPU
would make of the code object stays untested.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from oracle.stub_hip import stand_ins

HIPF, HIPK = 0x48495046, 0x4B504948
SECONDS = 300


@dataclass(frozen=True)
class Entry:
    """One entry of a fat bundle's header; `offset` and `size` in bytes from the bundle's start."""

    triple: str
    offset: int
    size: int


@dataclass(frozen=True)
class Registration:
    """One call of __hipRegisterFatBinary.

    `number` counts the calls from 0. `wrapper` is the wrapper's address as the file's own headers count it:
    it identifies the wrapper before and after a split. `low` and `high` are the halves of its reserved word
    (`low` is the wrapper's index in a split library), `head` the first 64 bytes it points to (fewer where
    the mapping ends), `library` the file it lies in. `code_object` holds what the runtime would load for the
    ISA, `arch` under which name it was stored; `reason` says why there is none, and is empty otherwise.
    HIPF: `entries` and `extent` (bytes) of the bundle, `compressed` where it was. HIPK: the marker's
    `kernel_name`, the search `paths` in order, the file `binary` that holds the marker, and the `archive`
    that the code object came from.
    """

    number: int
    wrapper: int
    magic: int
    version: int
    low: int
    high: int
    head: bytes
    library: Path | None
    reason: str
    arch: str | None = None
    code_object: Path | None = None
    entries: tuple[Entry, ...] = ()
    extent: int | None = None
    compressed: bool = False
    kernel_name: str | None = None
    paths: tuple[str, ...] = ()
    binary: Path | None = None
    archive: Path | None = None

    def read(self) -> bytes:
        """The code object; an AssertionError with the reason where there is none."""
        assert self.code_object is not None and not self.reason, self.reason
        return self.code_object.read_bytes()


class Loading(list[Registration]):
    """The registrations in the order of the calls, and what the dynamic linker said.

    `error` and `error_now` are dlerror's text for lazy and immediate binding, empty where the library
    opened; a process that died says so there.
    """

    def __init__(self, registrations: Iterable[Registration], error: str, error_now: str) -> None:
        super().__init__(registrations)
        self.error = error
        self.error_now = error_now


class Run(list[Registration]):
    """The registrations of a program's run, its exit status and its output (stdout and stderr together)."""

    def __init__(self, registrations: Iterable[Registration], status: int, output: str) -> None:
        super().__init__(registrations)
        self.status = status
        self.output = output


def load(
    library: Path | str,
    *,
    isa: str,
    workdir: Path,
    runtime_paths: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
    fall_through: bool = False,
) -> Loading:
    """Open `library` by exactly this path in a fresh process and return what it registered.

    `isa` is a full name such as `gfx942:sramecc+:xnack-`, or several separated by commas, preferred first.
    `runtime_paths` are directories with real libraries that it needs. `environment` adds variables such as
    ROCM_KPACK_PATH. `fall_through` models runtimes since August 2026, which go on to a less specific archive
    when the first one that exists lacks the kernel; older ones stop there.
    """
    library = Path(os.path.abspath(library))  # noqa: PTH100 - resolve() would follow the link under test
    place = _fresh(workdir)
    built = _prepare(place, library, runtime_paths)
    variables = _variables(place, isa, [place, *runtime_paths], environment, fall_through)
    words = [str(library), *map(str, built)]
    error = _open([str(stand_ins.opener()), "lazy", *words], variables)
    unrecorded = {name: value for name, value in variables.items() if name != "STUB_HIP_RECORD"}
    error_now = _open([str(stand_ins.opener()), "now", *words], unrecorded)
    return Loading(_read_records(place), error, error_now)


def run_program(
    program: Path | str,
    arguments: Sequence[str] = (),
    *,
    isa: str,
    workdir: Path,
    runtime_paths: Sequence[Path] = (),
    environment: Mapping[str, str] | None = None,
    fall_through: bool = False,
) -> Run:
    """Run an executable with the stand-ins in place of what it needs; parameters as for `load`."""
    program = Path(os.path.abspath(program))  # noqa: PTH100 - resolve() would follow the link under test
    place = _fresh(workdir)
    built = _prepare(place, program, runtime_paths)
    variables = _variables(place, isa, [place, *runtime_paths], environment, fall_through)
    # By full path, so that no RPATH leads to a real runtime first.
    assert not set(str(place)) & set(" :"), "LD_PRELOAD takes no path with a space or a colon"
    variables["LD_PRELOAD"] = ":".join(map(str, built))
    done = subprocess.run(
        [str(program), *arguments],
        env=variables,
        text=True,
        errors="replace",
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=SECONDS,
        check=False,
    )
    return Run(_read_records(place), done.returncode, done.stdout)


def _fresh(workdir: Path) -> Path:
    workdir.mkdir(parents=True, exist_ok=True)
    place = Path(tempfile.mkdtemp(prefix="load-", dir=workdir)).resolve()
    (place / "objects").mkdir()
    return place


def _prepare(place: Path, file: Path, runtime_paths: Sequence[Path]) -> list[Path]:
    return stand_ins.build(stand_ins.survey(file, runtime_paths, _system_libraries), place)


def _variables(
    place: Path,
    isa: str,
    libraries: Sequence[Path],
    environment: Mapping[str, str] | None,
    fall_through: bool,
) -> dict[str, str]:
    ours = ("ROCM_KPACK_", "STUB_HIP_", "LD_")
    variables = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    variables |= {
        "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
        "STUB_HIP_ISA": isa,
        "STUB_HIP_RECORD": str(place / "registrations.jsonl"),
        "STUB_HIP_OBJECTS": str(place / "objects"),
    }
    if fall_through:
        variables["STUB_HIP_FALL_THROUGH"] = "1"
    return variables | dict(environment or {})


def _open(words: list[str], variables: dict[str, str]) -> str:
    """dlerror's text, or how the process died; empty where the library opened."""
    done = subprocess.run(
        words, env=variables, text=True, errors="replace", capture_output=True, timeout=SECONDS, check=False
    )
    assert done.returncode not in (2, 3), f"a stand-in does not open: {done.stdout}"
    if done.returncode < 0:
        return f"died of signal {-done.returncode}: {done.stderr}"
    return done.stdout.strip() if done.returncode else ""


def _system_libraries(names: Sequence[str]) -> list[Path | None]:
    """Where the dynamic linker finds each name on this system, None where it does not."""
    unknown = [name for name in names if name not in _SYSTEM]
    if unknown:
        words = [str(stand_ins.opener()), "where", *unknown]
        done = subprocess.run(words, text=True, capture_output=True, timeout=SECONDS, check=True)
        for name, path in zip(unknown, done.stdout.split("\n")[:-1], strict=True):
            _SYSTEM[name] = Path(path) if path else None
    return [_SYSTEM[name] for name in names]


_SYSTEM: dict[str, Path | None] = {}


def _read_records(place: Path) -> list[Registration]:
    file = place / "registrations.jsonl"
    lines = file.read_text("ascii").splitlines() if file.exists() else []
    return [_registration(json.loads(line)) for line in lines]


def _registration(fields: dict[str, Any]) -> Registration:
    entries = [entry for entry in fields.get("entries", ()) if entry]
    return Registration(
        **{name: fields[name] for name in ("number", "wrapper", "magic", "version", "low", "high")},
        head=bytes.fromhex(fields["head"]),
        library=_path(fields.get("library")),
        reason=_text(fields["reason"]) or "",
        arch=_text(fields.get("arch")),
        code_object=_path(fields.get("code_object")),
        entries=tuple(Entry(_text(e["triple"]) or "", e["offset"], e["size"]) for e in entries),
        extent=fields.get("extent"),
        compressed="compressed_size" in fields,
        kernel_name=_text(fields.get("kernel_name")),
        paths=tuple(_text(path) or "" for path in fields.get("paths", ())),
        binary=_path(fields.get("binary")),
        archive=_path(fields.get("archive")),
    )


def _text(value: str | None) -> str | None:
    """The stub writes each byte as one character, so that any file name survives."""
    return None if value is None else os.fsdecode(value.encode("latin-1"))


def _path(value: str | None) -> Path | None:
    text = _text(value)
    return None if text is None else Path(text)

"""The GPU detector that ships in `rocm` and as `rocwright-detect`, called from here: one, not two."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec

from rocwright.errors import InvalidInput, UsageError, see_who_may_read
from rocwright.system.files import shipped_directory

KFD_NODES = Path("/sys/class/kfd/kfd/topology/nodes")
# Not the name of the wheel, which may be installed beside rocwright in another version.
_PACKAGE = "_rocwright_runtime_detect"


class Gpu(msgspec.Struct, frozen=True):
    """An AMD GPU as the kernel driver lists it."""

    index: int
    node: int
    target: str


class Detected(msgspec.Struct, frozen=True):
    """All GPUs that could be read, and a sentence for each node that could not."""

    gpus: tuple[Gpu, ...]
    problems: tuple[str, ...]


def _load(name: str, path: Path, **places: Any) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path, **places)
    if spec is None or spec.loader is None or not path.is_file():
        raise InvalidInput("the GPU detector cannot be loaded", where=path, next_step="reinstall rocwright")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


@cache
def _module() -> ModuleType:
    path = shipped_directory("runtime") / "rocm" / "src" / "rocm_sdk" / "_detect.py"
    return _load(f"{_PACKAGE}._detect", path)


@cache
def _answers(name: str = "_answer") -> ModuleType:
    """A module of the wheel, that which answers; its package gets `_detect` from where it lies."""
    _module()
    directory = shipped_directory("runtime") / "detect" / "src" / "rocwright_detect"
    _load(_PACKAGE, directory / "__init__.py", submodule_search_locations=[str(directory)])
    return importlib.import_module(f"{_PACKAGE}.{name}")


def detect(nodes: Path = KFD_NODES) -> Detected:
    """The GPUs of this machine; empty without an AMD GPU or its kernel driver."""
    gpus, problems = _module().scan(str(nodes))
    return Detected(tuple(Gpu(gpu["index"], gpu["node"], gpu["target"]) for gpu in gpus), tuple(problems))


class FoundGpu(msgspec.Struct, frozen=True):
    """A GPU and what is known of it; without a `target` it is not identified, `near` are those beside."""

    index: int
    target: str | None
    name: str | None
    chip: str | None
    integrated: bool | None
    device_id: str | None
    revision: str | None
    location: str | None
    near: tuple[str, ...] = ()


class Unserved(msgspec.Struct, frozen=True):
    """A target that there are no packages for, with what there is."""

    target: str
    advice: str


class Lines(msgspec.Struct, frozen=True):
    """What installs torch for some targets from one index: with pip, with uv, by a pyproject.toml."""

    targets: tuple[str, ...] = msgspec.field(name="for")
    index: str
    pip: str
    uv: str
    pyproject: str


class IndexReply(msgspec.Struct, frozen=True):
    """What an index said: how many requests that took, what it has; `problem` says why it cannot be asked."""

    index: str
    requests: int
    problem: str | None
    targets: tuple[str, ...]
    families: tuple[str, ...]
    pythons: tuple[str, ...]


class DetectorReport(msgspec.Struct, frozen=True):
    """What is known of this machine, or of targets that somebody named; `exit_status` is the verdict."""

    platform: str
    source: str | None
    gpus: tuple[FoundGpu, ...]
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    targets: tuple[str, ...]
    unserved: tuple[Unserved, ...]
    exit_status: int


class Answer(DetectorReport, frozen=True, kw_only=True):
    """What `rocwright-detect` answers; see `answer` in `runtime/detect`."""

    install: tuple[Lines, ...]
    suggested: tuple[Lines, ...]
    asked: IndexReply | None


class IndexView(msgspec.Struct, frozen=True):
    """A view of an index, and `uv`, what installs from it: None without a view; `problem` may say why.

    `properties` are what the view states of the machine: by namespace and feature, values, best first.
    """

    directory: str
    index: str
    problem: str | None
    requests: int
    projects: int
    variants: int
    properties: dict[str, dict[str, tuple[str, ...]]]
    changed: bool
    uv: str | None


class Viewed(DetectorReport, frozen=True, kw_only=True):
    """What `rocwright-detect view` answers."""

    view: IndexView


def answer(
    *,
    root: Path = Path("/"),
    from_windows: Path | None = None,
    targets: Sequence[str] = (),
    index: str | None = None,
    kind: str | None = None,
    torch: str | None = None,
    pre: bool = False,
    python: str | None = None,
    offline: bool = False,
) -> Answer:
    """All GPUs of this machine, known by name, and the lines that install torch for them from `index`.

    The index is asked unless `offline`.

    Raises `UsageError` for options that make no sense and for a file that cannot be read.
    """
    words = _looked_at(from_windows, targets)
    with _told():
        found = _answers().answer(str(root), *words, index, kind, torch, pre, python, offline)
    return msgspec.convert(found, Answer)


def view(
    directory: Path,
    index: str,
    *,
    root: Path = Path("/"),
    from_windows: Path | None = None,
    targets: Sequence[str] = (),
) -> Viewed:
    """Write a view of an index with wheel variants for this machine's GPUs, from which uv takes their device.

    Raises `UsageError` as `answer`, and where the directory holds anything but an earlier view.
    """
    words = _looked_at(from_windows, targets)
    with _told():
        found = _answers("_view").answer(index, str(directory), str(root), *words)
    return msgspec.convert(found, Viewed)


def _looked_at(from_windows: Path | None, targets: Sequence[str]) -> tuple[str | None, list[str]]:
    try:
        text = None if from_windows is None else _answers().text_of(str(from_windows))
    except OSError as error:
        raise UsageError(
            f"{from_windows} cannot be read: {error.strerror}",
            where=from_windows,
            next_step=see_who_may_read(str(from_windows)),
        ) from error
    return text, list(targets)


@contextmanager
def _told() -> Iterator[None]:
    try:
        yield
    except ValueError as error:
        raise UsageError(
            str(error), next_step="`rocwright detect --help` shows how each option is written"
        ) from error


def shown(found: Answer | Viewed) -> tuple[list[str], list[str]]:
    """The answer for people: lines of data (GPUs, what installs), and lines of talk."""
    out: list[str] = []
    err: list[str] = []
    module = _answers("_view" if isinstance(found, Viewed) else "_answer")
    module.show(msgspec.to_builtins(found), out.append, err.append)
    return out, err

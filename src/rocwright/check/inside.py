"""Import one module in the environment that runs this file, and write as JSON what came of it.

Arguments: the module (before it, with commas, what is imported first), the file to write, names of modules
to stand in for. It runs in the interpreter of a set, so it uses the standard library alone (Python 3.8 and
newer). The file holds the exception and those that led to it, none where the module was imported; without
the file the interpreter did not live to write it, and beside it, in `….crash`, is where it ended.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import json
import os
import sys
import traceback
import types
import typing
from collections.abc import Iterator, MutableSequence, Sequence

_MOST, _MOST_LETTERS = 16, 4000


class _Kind(type):
    """The class of what a stand-in offers: any name of such a class, and any index, is one more."""

    def __getattr__(cls, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _named(name)

    def __getitem__(cls, key: object) -> object:
        return cls

    def __iter__(cls) -> Iterator[object]:
        return iter(())

    def __or__(cls, other: object) -> object:  # type: ignore[override]
        return typing.Union[cls, other]  # noqa: UP007 Python 3.8 has no other

    __ror__ = __or__  # type: ignore[assignment]


class _Thing(metaclass=_Kind):
    """What a stand-in offers under any name: a class, which is also a decorator."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        pass

    def __init_subclass__(cls, **kwargs: object) -> None:
        pass

    def __call__(self, *args: object, **kwargs: object) -> object:
        return args[0] if len(args) == 1 and callable(args[0]) else self

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Thing()

    def __getitem__(self, key: object) -> object:
        return self

    def __setitem__(self, key: object, value: object) -> None:
        pass

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __or__(self, other: object) -> object:
        return self

    __ror__ = __or__

    def __enter__(self) -> object:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def _named(name: str) -> object:
    return _Kind(name, (_Thing,), {})


class _Parameter(type):
    """The class of a kind of type parameter that takes what one of a newer Python takes."""

    real: type

    def __call__(cls, *args: object, **kwargs: object) -> object:
        for name in ("default", "infer_variance"):
            kwargs.pop(name, None)
        return cls.real(*args, **kwargs)

    def __instancecheck__(cls, one: object) -> bool:
        return isinstance(one, cls.real)


_Record: typing.Any = type(typing.TypedDict("_Record", {}))  # type: ignore[operator]


class _Open(_Record):  # type: ignore[misc]
    """The class of a TypedDict that takes `closed` and `extra_items`; what is made of it is Python's own."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], names: dict[str, object], total: bool = True, **more: object
    ) -> typing.Any:
        return _Record(name, tuple(base for base in bases if type(base) is not cls), names, total=total)

    def __call__(self, name: str, fields: dict[str, object], *, total: bool = True, **more: object) -> object:
        return _Record(name, (), {"__annotations__": fields}, total=total)


class _Unpack:
    def __class_getitem__(cls, key: object) -> object:
        return key


def _of_newer_python(name: str) -> object:
    """What typing_extensions offers under a name: that of a newer typing."""
    real = getattr(typing, name, None)
    if name in ("TypeVar", "ParamSpec", "TypeVarTuple") and sys.version_info < (3, 13):
        return _Parameter(name, (), {"real": real or typing.TypeVar})
    if name == "TypedDict" and sys.version_info < (3, 15):
        return type.__new__(_Open, name, (dict,), {})
    if real is None and name == "Unpack":
        return _Unpack
    if real is None and name in ("override", "runtime", "type_check_only", "disjoint_base"):
        return lambda decorated: decorated
    return _named(name) if real is None else real


def _allow_defaults() -> None:
    """Let a generic class be given fewer types than it has parameters: typing_extensions does so, too."""
    strict = getattr(typing, "_check_generic", None)
    if strict is None or sys.version_info >= (3, 13):
        return

    def check(cls: object, types: Sequence[object], *length: int) -> None:
        if not length or len(types) >= length[0]:
            strict(cls, types, *length)

    typing._check_generic = check  # type: ignore[attr-defined]


def _version(module: str) -> str:
    """That of the empty wheel in place of a project, which is one that whoever requires it takes."""
    try:
        return importlib.metadata.version(module)
    except Exception:
        raise AttributeError("__version__") from None


class _StandIn(types.ModuleType):
    """A module from elsewhere."""

    __path__: MutableSequence[str] = []  # noqa: RUF012 as modules declare it

    def __getattr__(self, name: str) -> object:
        if name == "__version__":
            return _version(self.__name__)
        if name.startswith("__"):
            raise AttributeError(name)
        return _of_newer_python(name) if self.__name__ == "typing_extensions" else _named(name)


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers for modules of these names, after everybody else."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = names

    def find_spec(
        self, name: str, path: object = None, target: object = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name.partition(".")[0] in self._names:
            return importlib.machinery.ModuleSpec(name, self, is_package=True)
        return None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        if module.__name__ == "typing_extensions":
            _allow_defaults()


def _unconnected(event: str, args: object) -> None:
    if event in ("socket.connect", "socket.getaddrinfo"):
        raise OSError("there is no network while a set is imported")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The exception, and what it was raised from or amid."""
    for _ in range(_MOST):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _told(error: BaseException) -> dict[str, object]:
    frames = [_text(frame.f_code.co_filename) for frame, _ in traceback.walk_tb(error.__traceback__)]
    line = _part(error, "lineno")
    return {
        "kinds": [_text(kind.__name__) for kind in type(error).__mro__],
        "message": _text(error),
        "name": _text(_part(error, "name") or ""),
        "path": _text(_part(error, "path") or ""),
        "source": _text(_part(error, "filename") or ""),
        "line": line if isinstance(line, int) and 0 < line < 1 << 31 else 0,
        "frames": frames[-_MOST:],
        "shared": isinstance(error, ImportError)
        and _is_shared(_text(_part(error, "name")).partition(".")[0]),
    }


def _part(error: BaseException, name: str) -> object:
    """An attribute of an exception, whose class may be anybody's."""
    try:
        return getattr(error, name, None)
    except Exception:
        return None


def _text(value: object) -> str:
    """What can be written as JSON of a value; an exception may fail to say what it is about."""
    try:
        return str(value)[:_MOST_LETTERS].encode("utf-8", "backslashreplace").decode()
    except Exception:
        return ""


def _is_shared(package: str) -> bool:
    """Whether other projects put modules into a package, as it says of itself in the old way."""
    source = getattr(sys.modules.get(package), "__file__", None)
    try:
        with open(source or os.devnull, encoding="utf-8") as stream:  # noqa: PTH123
            text = stream.read(1 << 20)
    except (OSError, ValueError):
        return False
    return "extend_path" in text or "declare_namespace" in text


def main(modules: str, result: str, stand_ins: Sequence[str]) -> None:
    """Import the last of `modules`, with those before it, and write `result`."""
    # What a module prints, however much it is, tells nothing; its last words go to the other stream.
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    crash = open(result + ".crash", "w")  # noqa: PTH123, SIM115 open for as long as there is somebody to crash
    faulthandler.enable(crash)
    sys.addaudithook(_unconnected)
    sys.meta_path.append(_Finder(stand_ins))
    told: list[dict[str, object]] = []
    *before, module = modules.split(",")
    for name in before:
        # What is wrong with it is told where it is imported by itself.
        with contextlib.suppress(BaseException):
            importlib.import_module(name)
    try:
        importlib.import_module(module)
    except BaseException as error:
        told += map(_told, _chain(error))
    with open(result + ".part", "w") as stream:  # noqa: PTH123
        json.dump(told, stream)
    os.replace(result + ".part", result)  # noqa: PTH105
    # What the module does at the end of an interpreter is not asked; threads that it left must not hold it.
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])

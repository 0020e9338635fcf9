"""What the end of an import is judged to be, and that no answer of a child stops the judge."""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from facts_by_hand import wheel
from hypothesis import example, given
from hypothesis import strategies as st

from rocwright.check import inside
from rocwright.check.environments import PythonPlatform
from rocwright.check.facts import Facts, ImportTry, Member
from rocwright.check.imports import Holdings, Raised, crashed, holdings, judged, offers, read_answer
from rocwright.check.install import interpreter_of, this_platform
from rocwright.check.installers import Surroundings
from rocwright.system import process

SITES = (Path("/work/pip-cp312/env/lib/python3.12/site-packages"),)
FILES: tuple[Facts, ...] = tuple(
    wheel(project, members=tuple(map(Member, members)))
    for project, members in {
        "thing": ("thing/__init__.py", "thing/sub.py", "thing/_ext.so", "thing/lib/libown.so"),
        "user": ("user/__init__.py", "_hidden.py"),
    }.items()
)
HELD: Holdings = holdings(FILES)
USER, THING = FILES[1].name, FILES[0].name
OFFER = offers(FILES)[1]


def at(place: str) -> str:
    return f"{SITES[0]}/{place}"


def raised(kind: str, message: str = "", *frames: str, **facts: Any) -> Raised:
    above = {"ModuleNotFoundError": ("ImportError",)}.get(kind, ())
    return Raised((kind, *above, "Exception"), message, frames=tuple(map(at, frames)), **facts)


def judge(*chain: Raised, stand_ins: Sequence[str] = ()) -> ImportTry:
    return judged(OFFER, chain, HELD, SITES, stand_ins)


def fault(one: ImportTry) -> tuple[str, str, str, str]:
    assert one.module == "user"
    assert not one.left
    return one.file, one.member, one.about, one.fault


def left(one: ImportTry) -> str:
    assert (one.module, one.file, one.fault, one.member) == ("user", USER, "", "")
    return one.left


def test_an_import_without_an_exception_says_nothing() -> None:
    assert OFFER.module == "user"
    assert judge() == ImportTry("user", USER)


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (
            raised("ImportError", "cannot import name 'gone' from 'thing.sub' (/x)", "user/__init__.py"),
            (USER, "user/__init__.py", "thing.sub",
             "it stops with ImportError: cannot import name 'gone' from 'thing.sub'"),
        ),
        (
            raised("AttributeError", "module 'thing' has no attribute 'gone'", "thing/sub.py"),
            (THING, "thing/sub.py", "thing",
             "it stops with AttributeError: module 'thing' has no attribute 'gone'"),
        ),
        (
            raised("AttributeError", "partially initialized module 'thing' has no attribute 'b' (most likely "
                   "due to a circular import)", "thing/sub.py"),
            (THING, "thing/sub.py", "thing", "it stops with AttributeError: partially initialized module "
             "'thing' has no attribute 'b' (most likely due to a circular import)"),
        ),
        (
            raised("ModuleNotFoundError", "No module named 'thing.gone'", "thing/__init__.py",
                   name="thing.gone"),
            (THING, "thing/__init__.py", "thing.gone", "it imports thing.gone, which is not there"),
        ),
        (
            raised("NameError", "name 'x' is not defined", "user/__init__.py", name="x"),
            (USER, "user/__init__.py", "x", "it stops with NameError: name 'x' is not defined"),
        ),
        (
            raised("ImportError", "attempted relative import beyond top-level package", "user/__init__.py"),
            (USER, "user/__init__.py", "",
             "it stops with ImportError: attempted relative import beyond top-level package"),
        ),
        (
            raised("SystemError", "init function of _ext returned uninitialized object", "thing/__init__.py"),
            (THING, "thing/__init__.py", "SystemError",
             "it stops with SystemError: init function of _ext returned uninitialized object"),
        ),
        (
            raised("FileNotFoundError", f"[Errno 2] No such file or directory: '{at('thing/a.json')}'",
                   "user/__init__.py"),
            (USER, "user/__init__.py", "thing/a.json", "it reads thing/a.json, which is not there"),
        ),
        (
            raised("SystemExit", "0", "user/__init__.py"),
            (USER, "user/__init__.py", "SystemExit",
             "it ends the interpreter, as if all were done, when it is imported"),
        ),
        (
            raised("SyntaxError", "invalid syntax (sub.py, line 3)", source=at("thing/sub.py"), line=3),
            (THING, "thing/sub.py", "", "line 3 is no Python: invalid syntax"),
        ),
        (
            raised("ImportError", f"{at('thing/_ext.so')}: undefined symbol: lost, version V1"),
            (THING, "thing/_ext.so", "lost", "nothing that it loads defines the symbol lost"),
        ),
        (
            raised("ImportError", "dynamic module does not define module export function (PyInit__ext)",
                   path=at("thing/_ext.so")),
            (THING, "thing/_ext.so", "PyInit__ext", "it does not define PyInit__ext"),
        ),
        (
            raised("OSError", "libown.so: cannot open shared object file: No such file", "user/__init__.py"),
            (USER, "user/__init__.py", "libown.so",
             "libown.so is in the set, and the loader does not find it"),
        ),
    ],
    ids=lambda value: value.kinds[0] if isinstance(value, Raised) else "",
)  # fmt: skip
def test_a_fault_of_the_set_is_told_of_the_file_that_has_it(
    one: Raised, told: tuple[str, str, str, str]
) -> None:
    assert fault(judge(one)) == told
    # Whoever wraps it in an error of his own does not hide what the loader or the parser said.
    if {"SyntaxError", "OSError"} & set(one.kinds) or "symbol" in one.message:
        assert fault(judge(raised("RuntimeError", "broken install", "user/__init__.py"), one)) == told


@pytest.mark.parametrize(
    ("one", "told"),
    [
        (raised("ModuleNotFoundError", "No module named 'numpy'", "user/__init__.py", name="numpy"),
         "ModuleNotFoundError: No module named 'numpy'"),
        (raised("ImportError", "cannot import name 'x' from 'numpy' (/n)", "user/__init__.py"),
         "ImportError: cannot import name 'x' from 'numpy' (/n)"),
        (raised("AttributeError", "'NoneType' object has no attribute 'x'", "user/__init__.py"),
         "AttributeError: 'NoneType' object has no attribute 'x'"),
        (raised("ModuleNotFoundError", "No module named 'thing.theirs'", "user/__init__.py",
                name="thing.theirs", shared=True), "ModuleNotFoundError: No module named 'thing.theirs'"),
        (raised("NameError", "name 'x' is not defined", "../elsewhere.py", name="x"),
         "NameError: name 'x' is not defined"),
        (raised("ImportError", "libcuda.so.1: cannot open shared object file: No such file"),
         "ImportError: libcuda.so.1: cannot open shared object file: No such file"),
        (raised("ImportError", "/lib/libc.so.6: version `GLIBC_2.99' not found (required by x)"),
         "ImportError: /lib/libc.so.6: version `GLIBC_2.99' not found (required by x)"),
        (raised("SyntaxError", "invalid syntax (a.py, line 1)", source="/elsewhere/a.py", line=1),
         "SyntaxError: invalid syntax (a.py, line 1)"),
        (raised("RuntimeError", "No HIP GPUs are available\nsecond line"),
         "RuntimeError: No HIP GPUs are available"),
        (raised("SystemExit", "3", "user/__init__.py"), "SystemExit: 3"),
        (raised("KeyboardInterrupt"), "KeyboardInterrupt"),
        (Raised(()), ""),
    ],
    ids=lambda value: value.kinds[0] if isinstance(value, Raised) and value.kinds else "",
)  # fmt: skip
def test_what_the_set_does_not_show_is_no_fault(one: Raised, told: str) -> None:
    assert left(judge(one)) == (told or "it ended with an exception that says nothing")


def test_with_stand_ins_neither_code_nor_a_symbol_is_a_fault() -> None:
    symbol = raised("ImportError", f"{at('thing/_ext.so')}: undefined symbol: lost")
    name = raised("NameError", "name 'x' is not defined", "user/__init__.py", name="x")
    for one in (symbol, name):
        assert left(judge(one, stand_ins=["numpy"])).startswith("it needs numpy from elsewhere; with")
        # This one is Python's own, so that nothing is excused.
        assert fault(judge(one, stand_ins=["typing_extensions"]))
    syntax = raised("SyntaxError", "invalid syntax", source=at("thing/sub.py"), line=1)
    assert fault(judge(syntax, stand_ins=["numpy"]))[1] == "thing/sub.py"


@pytest.mark.parametrize(
    ("message", "told"),
    [
        ("<thing.C object at 0x7f01a2b3c4d0> is none", "<thing.C object at 0x…> is none"),
        ("<function f at 0x5581> and at 0x5581ab", "<function f at 0x…> and at 0x…"),
        ("hipModule 0x55d1c0ffee00 is lost", "hipModule 0x… is lost"),
        ("magic 0xdeadbeef, code 0x80 at offset 0", "magic 0xdeadbeef, code 0x80 at offset 0"),
        (f"no file {SITES[0]}/thing/x.json", "no file thing/x.json"),
        (f"no file {SITES[0].parents[3]}/home/.cache/tmpab_12xyz/y", "no file home/.cache/tmp…/y"),
        ("no folder /tmp/templates, tmp/tmpfs", "no folder /tmp/templates, tmp/tmpfs"),
    ],
)
def test_findings_are_the_same_in_every_run(message: str, told: str) -> None:
    assert left(judge(raised("RuntimeError", message))) == f"RuntimeError: {told}"
    wrong = f"name 'x' is not defined: {message}"
    one = judge(raised("NameError", wrong, "user/__init__.py", name="x"))
    assert fault(one)[3] == f"it stops with NameError: name 'x' is not defined: {told}"


# -- interpreters that told nothing


def end(status: int, tail: str = "", stand_ins: Sequence[str] = ()) -> ImportTry:
    return crashed(OFFER, status, tail, HELD, SITES, stand_ins)


def test_a_signal_is_told_of_the_innermost_file_of_the_set() -> None:
    frames = ["/usr/lib/python3.12/ctypes.py", at("thing/sub.py"), at("user/__init__.py")]
    tail = "Fatal Python error\n\n" + "\n".join(f'  File "{path}", line 4 in x' for path in frames)
    told = "the interpreter ends with SIGSEGV when it is imported"
    assert fault(end(-signal.SIGSEGV, tail)) == (THING, "thing/sub.py", "SIGSEGV", told)
    assert fault(end(-signal.SIGSEGV)) == (USER, "", "SIGSEGV", told)
    assert fault(end(-signal.SIGABRT))[2] == "SIGABRT"
    assert fault(end(-99))[2] == "signal 99"


def test_what_the_machine_or_a_stand_in_may_have_ended_is_no_fault() -> None:
    for name in ("SIGKILL", "SIGTERM", "SIGILL", "SIGXCPU"):
        assert left(end(-signal.Signals[name])) == f"it was ended by {name}"
    assert left(end(-signal.SIGSEGV, "", ["numpy"])) == "it was ended by SIGSEGV"
    assert fault(end(-signal.SIGSEGV, "", ["typing_extensions"]))


def test_a_timeout_is_what_the_last_line_says_and_no_other() -> None:
    tail = "printed\nended by force: not done after 180 seconds"
    assert left(end(-signal.SIGKILL, tail)) == "it was not done after 180 seconds"
    # Whatever a module prints of its own.
    assert fault(end(-signal.SIGSEGV, "ended by force\nFatal Python error: Segmentation fault"))


@pytest.mark.parametrize("status", [0, 1, 3, 120, 255])
def test_an_interpreter_that_ends_by_itself_is_no_fault(status: int) -> None:
    assert left(end(status, "x" * 1_000_000)) == f"it ends the interpreter with exit code {status}"


# -- the answer of the child

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
TEXTS = st.text(max_size=60) | st.sampled_from(
    [f"{at('thing/_ext.so')}: undefined symbol: x", "cannot import name '' from ''", "module '", "\0",
     "x: cannot open shared object file", f"{at('thing/sub.py')}", "thing", "No module named"]
)  # fmt: skip
RAISED = st.builds(
    Raised,
    kinds=st.lists(
        st.sampled_from(["ImportError", "OSError", "SyntaxError", "NameError", "ModuleNotFoundError"])
        | st.text(max_size=8),
        max_size=3,
    ).map(tuple),
    message=TEXTS,
    name=TEXTS,
    path=TEXTS,
    source=TEXTS,
    line=st.integers(-(2**63), 2**63 - 1),
    frames=st.lists(TEXTS, max_size=4).map(tuple),
    shared=st.booleans(),
)


@given(st.binary(max_size=200) | VALUES.map(lambda value: json.dumps(value).encode()))
@example(b"")
@example(b"[" * 100_000)
@example(b'[{"kinds":["A"],"more":' + b"[" * 100_000)
@example(b'[{"kinds":["A"],"line":1e999}]')
@example(b'[{"kinds":["A"],"message":"\\ud800"}]')
@example(b'[{"kinds":["A"],"message":"\xff"}]')
def test_any_answer_is_read_or_is_none(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "answer.json"
    path.write_bytes(data)
    answer = read_answer(path)
    if answer is not None:
        judge(*answer)


def test_what_is_no_file_is_no_answer(tmp_path: Path) -> None:
    assert read_answer(tmp_path) is None
    assert read_answer(tmp_path / "nothing") is None
    (tmp_path / "link").symlink_to(tmp_path / "link")
    assert read_answer(tmp_path / "link") is None


@given(st.lists(RAISED, max_size=4), st.lists(st.sampled_from(["numpy", "typing_extensions"]), max_size=2))
def test_whatever_was_raised_is_a_fault_or_left(chain: list[Raised], stand_ins: list[str]) -> None:
    one = judge(*chain, stand_ins=stand_ins)
    assert bool(one.fault or one.left) == bool(chain)
    assert not one.fault or one.member
    assert len(one.left) <= 500


@given(st.integers(-300, 300), st.text(max_size=200))
def test_whatever_an_interpreter_ends_with_is_a_fault_or_left(status: int, tail: str) -> None:
    one = end(status, tail)
    assert bool(one.fault) != bool(one.left)


# -- a child that is unkind

UNKIND = {
    "mute": "class E(Exception):\n    def __str__(self): raise ValueError\nraise E\n",
    "surrogate": "raise ValueError('\\udcff')\n",
    "attributes": "class E(ImportError):\n    name = path = property(lambda self: 1 / 0)\nraise E\n",
    "line": "class E(Exception):\n    lineno = object()\nraise E\n",
    "leaves": "import os, sys\nos.makedirs(sys.argv[2])\nos.mkdir(sys.argv[2] + '.part')\n",
    "answers": "import os, sys\nopen(sys.argv[2], 'w').write('[' * 100000)\nos._exit(0)\n",
    "floods": "import os\nfor _ in range(99): os.write(1, b'x' * (1 << 20))\nraise ValueError('done')\n",
}


@pytest.mark.parametrize("name", UNKIND)
def test_an_unkind_module_is_answered_for(tmp_path: Path, name: str) -> None:
    (tmp_path / f"{name}.py").write_text(UNKIND[name])
    result = tmp_path / "result.json"
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import runpy; "
    code += f"runpy.run_path({inside.__file__!r}, run_name='__main__')"
    around = Surroundings(tmp_path)
    argv = [sys.executable, "-I", "-B", "-c", code, name, str(result)]
    if name == "leaves":
        with pytest.raises(Exception, match="exit code 1"):
            process.run(argv, env=around.env)
    else:
        done = process.run(argv, env=around.env)
        # What a module prints is not gathered.
        assert done.stdout == ""
    answer = read_answer(result)
    if name in ("leaves", "answers"):
        assert answer is None
    else:
        assert answer is not None
        assert left(judge(*answer)) in (
            "E", "ValueError: \\udcff", "ValueError: done",
        )  # fmt: skip


# -- what stands in for typing_extensions

NEWER = """\
from typing import Generic, List, Optional, Tuple
from typing_extensions import (
    Annotated, Buffer, Doc, NotRequired, ParamSpec, Protocol, ReadOnly, Self, TypeAliasType, TypedDict,
    TypeIs,
    TypeVar, TypeVarTuple, Unpack, deprecated, override, runtime_checkable,
)

T, U = TypeVar("T"), TypeVar("U", bound=int, default=int, infer_variance=True)
P, Ts = ParamSpec("P", default=...), TypeVarTuple("Ts", default=Unpack[Tuple[int, ...]])
assert isinstance(T, TypeVar) and not isinstance(1, TypeVar)

class Pair(Generic[T, U]):
    @override
    def __init__(self) -> None:
        self.made = True

class Many(Generic[T, Unpack[Ts]]): pass
class Page(Pair[str]): pass
class Given(TypedDict, total=False, extra_items=int):
    a: NotRequired[int]
    b: ReadOnly[str]
class More(Given):
    c: bytes
class Both(TypedDict):
    c: Self
Made = TypedDict("Made", {"a": int}, closed=True)

@runtime_checkable
class Asks(Protocol[T]):
    def ask(self) -> Self: ...

@deprecated("use Page")
class Old: pass
class Older(Old): pass

Alias = TypeAliasType("Alias", List[int])
def f(a: Alias | None, b: Optional[Alias], c: Annotated[int, Doc("c")]) -> TypeIs[int]: ...

assert Made(a=1) == More(a=1) == {"a": 1} and set(More.__annotations__) == {"a", "b", "c"}
assert Page().made and Older().__class__ is Older
"""


@pytest.mark.parametrize("minor", range(10, 16))
def test_what_typing_extensions_has_of_newer_pythons(tmp_path: Path, minor: int) -> None:
    kind = f"cp3{minor}"
    python = interpreter_of(PythonPlatform(kind, kind, this_platform()))
    if python is None:
        pytest.skip(f"this machine has no Python 3.{minor}")
    (tmp_path / "newer.py").write_text(NEWER)
    result = tmp_path / "result.json"
    code = f"import sys, runpy; sys.path.insert(0, {str(tmp_path)!r}); "
    # Where it is installed, it is not stood in for.
    code += "sys.modules.pop('typing_extensions', None); "
    code += "sys.path[:] = [path for path in sys.path if 'site-' not in path]; "
    code += f"runpy.run_path({inside.__file__!r}, run_name='__main__')"
    process.run([str(python), "-I", "-B", "-c", code, "newer", str(result), "typing_extensions"])
    assert read_answer(result) == ()

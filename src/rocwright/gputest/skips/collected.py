"""The tests that there are: a list that somebody collected, or collecting in an environment with torch."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.data import load_table
from rocwright.errors import CommandFailed, InvalidInput, UsageError
from rocwright.gputest.environment import ONLY_FOR, ChildEnvironment, child_environment, inside_directory
from rocwright.gputest.inside.rocwright_patterns import is_exact, matches, parts
from rocwright.model.platforms import this_platform
from rocwright.model.suites import SkipEntry, SuiteTable
from rocwright.model.testing import RunRecord
from rocwright.system import process

# PyTorch's tests lie in this folder of its tree, and pytest names them from the tree.
_FOLDER = "test/"


class Collected(msgspec.Struct, frozen=True):
    """Node ids relative to the directory of the tests, in order, and where they come from.

    `broken` are files whose tests are not known, with the reason.
    """

    ids: tuple[str, ...]
    where: str
    broken: Mapping[str, str] = msgspec.field(default_factory=dict)

    @property
    def files(self) -> tuple[str, ...]:
        """The files that tests were collected from, each once."""
        return tuple(dict.fromkeys(parts(one)[0] for one in self.ids))


class _Answer(msgspec.Struct, frozen=True):
    ids: tuple[str, ...]
    broken: dict[str, str]


def read_collected(path: Path) -> Collected:
    """A list of node ids, one a line (`pytest --collect-only -q` prints it), or the results.json of a run.

    Where every id begins with `test/`, that is taken for PyTorch's folder of tests and cut off. Raises
    `InvalidInput` for a file that cannot be read, or in which there is no node id.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise InvalidInput(
            f"{path} cannot be read: {why}",
            where=path,
            next_step="name what `pytest --collect-only -q` printed, or the results.json of a run",
        ) from error
    if text.lstrip().startswith("{"):
        ids = _ids_of_record(path, text)
    else:
        # What pytest says around its list (warnings, a count, errors) has no `::` behind a file name.
        ids = [line for line in text.splitlines() if _is_node_id(line)]
    if not ids:
        raise InvalidInput(
            f"{path} names no test",
            where=path,
            next_step="in the directory of the tests run: pytest --collect-only -q --rootdir=. > FILE",
        )
    if all(one.startswith(_FOLDER) for one in ids):
        ids = [one.removeprefix(_FOLDER) for one in ids]
    return Collected(tuple(dict.fromkeys(ids)), str(path))


def _ids_of_record(path: Path, text: str) -> list[str]:
    try:
        record = msgspec.json.decode(text, type=RunRecord)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{path} is not a record of a test run: {error}", where=path) from error
    if not record.complete or record.ran.shards > 1 or record.deselected:
        raise InvalidInput(
            f"{path} contains only part of the tests, so a test missing from it proves nothing",
            where=path,
            next_step="give the record of a complete run, without shards and without -k",
        )
    return [result.id for result in record.results if "::" in result.id]


def _is_node_id(line: str) -> bool:
    file, colons, rest = line.partition("::")
    return bool(colons and rest) and file.endswith(".py") and not line.startswith((" ", "ERROR ", "FAILED "))


def files_named(entries: Sequence[SkipEntry], root: Path) -> tuple[str, ...]:
    """The test files that entries name and that are there, relative to `root`."""
    names = dict.fromkeys(parts(test)[0] for entry in entries for test in entry.tests)
    there: dict[str, None] = {}
    tree: list[str] | None = None
    for name in names:
        if is_exact(name):
            if (root / name).is_file():
                there[name] = None
            continue
        if tree is None:
            tree = sorted(path.relative_to(root).as_posix() for path in root.rglob("test_*.py"))
        found = [file for file in tree if matches(f"{name}::x", f"{file}::x")]
        there.update(dict.fromkeys(found))
    return tuple(sorted(there))


def collect(
    python: Path,
    root: Path,
    files: Sequence[str],
    *,
    limit_s: float,
    env: Mapping[str, str] | None = None,
    drop_env: Sequence[str] = (),
    log: Path | None = None,
) -> Collected:
    """Collect test files in another interpreter, really: what a test is called follows from torch and GPU.

    A process that dies (a crash at import) costs its file only: the files are then taken one by one.
    `limit_s` is the time for one file. Raises `UsageError` for a directory that is not there.
    """
    if not root.is_dir():
        raise UsageError(f"{root} is not a directory", next_step="name the one that has test_torch.py")
    if not files:
        return Collected((), str(root))

    def once(chosen: Sequence[str]) -> _Answer:
        return _collect_once(python, root, chosen, limit_s * len(chosen), env or {}, drop_env, log)

    try:
        answers = [once(files)]
    except CommandFailed:
        answers = []
        for file in files:
            try:
                answers.append(once([file]))
            except CommandFailed as error:
                last = error.tail.splitlines()[-1:] or [error.what]
                answers.append(_Answer((), {file: f"the process that collected it ended: {last[0]}"}))
    broken: dict[str, str] = {}
    for answer in answers:
        broken.update(answer.broken)
    return Collected(tuple(one for answer in answers for one in answer.ids), str(root), broken)


def _collect_once(
    python: Path,
    root: Path,
    files: Sequence[str],
    limit_s: float,
    env: Mapping[str, str],
    drop_env: Sequence[str],
    log: Path | None,
) -> _Answer:
    """One process over some files; raises `CommandFailed` when it did not come to its end."""
    path_list = [str(inside_directory()), env.get("PYTHONPATH") or os.environ.get("PYTHONPATH", "")]
    with tempfile.TemporaryDirectory(prefix="rocwright-collect-") as folder:
        answer = Path(folder) / "collected.json"
        options = ["--collect-only", "-q", "-p", "rocwright_collect", "-p", "no:cacheprovider"]
        process.run(
            [str(python.absolute()), "-m", "pytest", *options, "--rootdir", str(root), *files],
            cwd=root,
            env={
                **env,
                "PYTHONPATH": os.pathsep.join(filter(None, path_list)),
                "ROCWRIGHT_COLLECTED": str(answer),
                "ROCWRIGHT_COLLECT_S": str(limit_s),
                "ROCWRIGHT_TESTS_ROOT": str(root.resolve()),
            },
            drop_env=drop_env,
            log=log,
            # Its own watch comes first, and says where it hung.
            limit_s=limit_s + 30,
        )
        return msgspec.json.decode(answer.read_bytes(), type=_Answer)


class TestTree(msgspec.Struct, frozen=True):
    """A PyTorch tree to collect tests in: interpreter, directory of the tests, environment."""

    python: Path
    root: Path
    table: SuiteTable
    environment: ChildEnvironment

    @classmethod
    def opened(
        cls, pytorch_dir: Path, python: Path | None = None, *, rocm: bool = True, scratch: Path | None = None
    ) -> TestTree:
        """A checkout, or any directory with tests. Raises `UsageError` if it is not there.

        Tests for all devices that torch sees are collected, the CPU among them. `scratch` is where MIOpen
        keeps what it compiles; `rocm` whether torch is built for it.
        """
        root = pytorch_dir / "test" if (pytorch_dir / "test").is_dir() else pytorch_dir
        if not root.is_dir():
            raise UsageError(
                f"{pytorch_dir} is not a directory", next_step="name a PyTorch checkout: --pytorch-dir DIR"
            )
        table = load_table("tests", SuiteTable)
        given = child_environment(
            table,
            tests_dir=root.resolve(),
            miopen_cache=(scratch or Path(tempfile.gettempdir())).resolve() / "rocwright-miopen",
            platform=this_platform(),
            inherited=os.environ,
            rocm=rocm,
        )
        # Would leave out the tests of all other devices, and entries may name them.
        variables = {name: value for name, value in given.set.items() if name != ONLY_FOR}
        environment = ChildEnvironment(variables, (*given.removed, ONLY_FOR))
        return cls(python or Path(sys.executable), root.resolve(), table, environment)

    def collected(self, entries: Sequence[SkipEntry]) -> Collected:
        """The tests of the files that entries name."""
        return collect(
            self.python,
            self.root,
            files_named(entries, self.root),
            limit_s=self.table.limits.collect_s,
            env=self.environment.set,
            drop_env=self.environment.removed,
        )

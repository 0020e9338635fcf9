"""Change single lines of the product, one at a time, and see whether `make test` notices.

``make mutants`` draws lines by a seed from all rooms, in proportion to their size, changes one thing on each
(a comparison, a constant, a condition, a call that is left out), runs the tests against it in a copy of the
tree, first those of the same room, and prints which changes no test noticed. Exit code 1: fewer were noticed
than `--least`. It takes hours of processor time: what goes unnoticed costs a whole run of the tests. With
``--covered FILE`` (of ``pytest --cov=rocwright --cov-context=test``, by pytest-cov) tests that reach the line
come first, and ``--near`` leaves it at those and at the room's tests.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import time
import venv
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue

REPOSITORY = Path(__file__).resolve().parents[1]
SOURCES = Path("src/rocwright")
SUITE = ("tests/unit", "tests/contract")
PYTHON = Path(".venv/bin/python")
# Tests that take longer hang: all of them, and those of a room.
LIMIT_S, LIMIT_ROOM_S = 1200, 300
# Of the tests that reach a line so many are run first.
MOST = 60
_PAIRS: tuple[tuple[type[ast.AST], type[ast.AST]], ...] = (
    *((ast.Eq, ast.NotEq), (ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.In, ast.NotIn), (ast.Is, ast.IsNot)),
    *((ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.FloorDiv)),
    *((ast.BitAnd, ast.BitOr), (ast.LShift, ast.RShift)),
)
_SWAPPED = {**dict(_PAIRS), **{second: first for first, second in _PAIRS}}


@dataclass(frozen=True)
class Mutant:
    """One change of one line: `text` comes in the place of the bytes of the file from `start` to `end`."""

    file: str
    line: int
    start: int
    end: int
    was: str
    text: str

    @property
    def room(self) -> str:
        """The first folder below the package, or the module itself."""
        return Path(self.file).relative_to(SOURCES).parts[0].removesuffix(".py")


# -- what can be changed


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Every change that can be made to a file, apart from annotations, docstrings and lines for Windows."""
    data = path.read_bytes()
    lines = data.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    for node, new in _changes(ast.parse(data)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        was = data[start:end].decode()
        if b"no cover" not in lines[node.lineno - 1]:
            text = f"({new})" if isinstance(node, (ast.expr, ast.BoolOp)) else new
            yield Mutant(str(path), node.lineno, start, end, was, text)


def _changes(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    passed_over = {id(inner) for outer in _not_run(tree) for inner in ast.walk(outer)}
    for node in ast.walk(tree):
        if id(node) in passed_over:
            continue
        if isinstance(node, ast.Compare) and type(node.ops[0]) in _SWAPPED:
            swapped = ast.Compare(node.left, [_SWAPPED[type(node.ops[0])](), *node.ops[1:]], node.comparators)
            yield node, ast.unparse(swapped)
        elif isinstance(node, ast.BoolOp):
            yield node, ast.unparse(ast.BoolOp(_SWAPPED[type(node.op)](), node.values))
        elif isinstance(node, ast.BinOp) and type(node.op) in _SWAPPED:
            yield node, ast.unparse(ast.BinOp(node.left, _SWAPPED[type(node.op)](), node.right))
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node, ast.unparse(node.operand)
        elif isinstance(node, (ast.If, ast.IfExp, ast.While)):
            yield node.test, f"not ({ast.unparse(node.test)})"
        elif isinstance(node, ast.Return) and node.value is not None and not _is(node.value, None):
            yield node, "return None"
        elif (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)) or isinstance(node, ast.Raise):
            yield node, "pass"
        elif isinstance(node, ast.Constant) and (new := _other(node.value)) is not None:
            yield node, repr(new)


def _not_run(tree: ast.Module) -> Iterator[ast.AST]:
    """Annotations, docstrings, f-strings, what type checkers alone see."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)) and ast.get_docstring(node):
            yield node.body[0]
        if isinstance(node, ast.FunctionDef):
            every = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            yield from (each.annotation for each in every if each.annotation)
            yield from [node.returns] if node.returns else []
        if isinstance(node, ast.AnnAssign):
            yield node.annotation
        if isinstance(node, ast.JoinedStr):
            # Before Python 3.12 their parts do not say where they stand.
            yield node
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            yield node
        if isinstance(node, ast.If) and "win32" in ast.unparse(node.test):
            yield node


def _is(node: ast.expr, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


def _other(value: object) -> object:
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, (str, bytes)) and value:
        return value[:-1]
    return None


def drawn(count: int, seed: int) -> list[Mutant]:
    """One change on each of `count` lines of all rooms; the same for the same seed and sources."""
    by_line: dict[tuple[str, int], list[Mutant]] = defaultdict(list)
    for path in sorted(SOURCES.rglob("*.py")):
        for mutant in mutants_of(path):
            by_line[mutant.file, mutant.line].append(mutant)
    chance = random.Random(seed)
    return [chance.choice(by_line[line]) for line in chance.sample(sorted(by_line), count)]


# -- whether it is noticed


def suite(tree: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the tests of a copy of the tree, on its own sources."""
    path = [str(tree / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [tree / PYTHON, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-m", "not slow", *words],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=LIMIT_S if {*SUITE} <= {*words} else LIMIT_ROOM_S,
        check=False,
    )


def make_python(tree: Path) -> None:
    """A Python for a copy whose rocwright is the copy's also where a test passes no PYTHONPATH on.

    All else is that of the Python that runs this.
    """
    made = tree / PYTHON.parents[1]
    venv.create(made, symlinks=True)
    (packages,) = made.glob("lib/python*/site-packages")
    (packages / "copy.pth").write_text(f"{tree / 'src'}\n{sysconfig.get_path('purelib')}\n")
    command = f"#!{tree / PYTHON}\nfrom rocwright.cli import main\nmain()\n"
    (tree / PYTHON).with_name("rocwright").write_text(command)
    (tree / PYTHON).with_name("rocwright").chmod(0o755)
    for program in Path(sys.executable).parent.iterdir():
        if not (beside := (tree / PYTHON).with_name(program.name)).exists():
            beside.symlink_to(program)


def outcome(mutant: Mutant, tree: Path, rounds: list[list[str]], without: list[str]) -> tuple[str, float]:
    """The test that noticed (`timeout` where it would not end), or empty; and seconds."""
    changed = tree / mutant.file
    data = changed.read_bytes()
    began = time.monotonic()
    try:
        changed.write_bytes(data[: mutant.start] + mutant.text.encode() + data[mutant.end :])
        for tests in rounds:
            done = suite(tree, "-x", *without, *tests)
            if done.returncode:
                break
    except subprocess.TimeoutExpired:
        return "timeout", time.monotonic() - began
    finally:
        changed.write_bytes(data)
    failed = [line.split()[1] for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    noticed = (failed or ["the suite does not start"])[0] if done.returncode else ""
    return noticed, time.monotonic() - began


def reaching(covered: Path) -> Callable[[Mutant], list[str]]:
    """The tests that reach a line, those of its room first; none reaches what an import runs."""
    import coverage

    data = coverage.CoverageData(str(covered))
    data.read()
    measured = {Path(name).as_posix().partition("/src/")[2]: name for name in data.measured_files()}

    def of(mutant: Mutant) -> list[str]:
        name = measured.get(mutant.file.removeprefix("src/"), "")
        contexts = data.contexts_by_lineno(name).get(mutant.line, []) if name else []
        tests = {context.rpartition("|")[0].partition("[")[0] for context in contexts} - {""}
        return sorted(tests, key=lambda test: (f"/{mutant.room}/" not in test, test))[:MOST]

    return of


def _in_copies(jobs: int, work: Path) -> Callable[[Mutant, list[list[str]], list[str]], tuple[str, float]]:
    """Hand each change to a copy of the tree that is free."""
    listed = subprocess.run(["git", "ls-files"], stdout=subprocess.PIPE, text=True, check=True).stdout
    free: Queue[Path] = Queue()
    for number in range(jobs):
        copy = work / f"copy-{number}"
        shutil.rmtree(copy, ignore_errors=True)
        for name in listed.splitlines():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(name, copy / name, follow_symlinks=False)
        subprocess.run(["git", "init", "-q", str(copy)], check=True)
        make_python(copy)
        if not number and (found := suite(copy, "--collect-only", *SUITE)).returncode:
            # Every change would count as noticed.
            raise SystemExit(f"the tests cannot be collected as they are:\n{found.stdout[-2000:]}")
        free.put(copy)

    def tried(mutant: Mutant, rounds: list[list[str]], without: list[str]) -> tuple[str, float]:
        tree = free.get()
        try:
            return outcome(mutant, tree, rounds, without)
        finally:
            free.put(tree)

    return tried


def main() -> int:
    """Print a row for each change, and how many were noticed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--count", type=int, default=100)
    parser.add_argument("--seed", type=int, default=26)
    parser.add_argument("--first", type=int, default=0, help="leave out the changes before this one")
    parser.add_argument("--least", type=int, default=85, help="of a hundred")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--work", type=Path, default=Path("/tmp/rocwright-mutants"))
    parser.add_argument("--json", type=Path, help="write the results there as well, one a line, as they come")
    parser.add_argument("--without", action="append", default=[], help="a test that fails unchanged, too")
    parser.add_argument("--covered", type=Path, help="which tests reach which lines, as coverage wrote it")
    parser.add_argument(
        "--near", action="store_true", help="only the tests that reach the line, and its room's"
    )
    asked = parser.parse_args()
    os.chdir(REPOSITORY)
    chosen = drawn(asked.count, asked.seed)[asked.first :]
    tried = _in_copies(asked.jobs, asked.work)
    without = [word for name in asked.without for word in ("--deselect", name)]

    near = reaching(asked.covered.absolute()) if asked.covered else lambda _: []

    def one(mutant: Mutant) -> bool:
        room = [name for name in (f"tests/unit/{mutant.room}",) if Path(name).exists()]
        rounds = [tests for tests in (near(mutant), room if asked.near else [*room, *SUITE]) if tests]
        # Where neither is there any test may notice.
        noticed, seconds = tried(mutant, rounds or [[*SUITE]], without)
        word = "killed  " if noticed else "SURVIVED"
        print(f"{word} {mutant.file}:{mutant.line} {seconds:.0f} s", flush=True)
        print(f"    {mutant.was[:90]!r} -> {mutant.text[:90]!r}  {noticed}", flush=True)
        if asked.json:
            with asked.json.open("a") as stream:
                stream.write(json.dumps({**asdict(mutant), "noticed": noticed}) + "\n")
        return bool(noticed)

    with ThreadPoolExecutor(asked.jobs) as pool:
        killed = sum(pool.map(one, chosen))
    print(f"{killed} of {len(chosen)} killed")
    return 0 if killed * 100 >= asked.least * len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main())

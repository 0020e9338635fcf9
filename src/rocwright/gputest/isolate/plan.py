"""What an isolated run is asked for and what it gives; what of pytest's options a worker may not have."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from rocwright.emulator.session import Session
from rocwright.errors import UsageError
from rocwright.model.suites import SkipEntry
from rocwright.model.testing import CaseResult

# Of what is free, so much is left to everything else; one worker gets at least the other figure.
_SHARE = 0.9
_LEAST = 512 << 20

# Options that act on a whole session, of which a worker sees a part, and what to do instead.
_REFUSED: tuple[tuple[str, str], ...] = (
    (r"-n.*|--numprocesses(=.*)?|--dist(=.*)?|--tx(=.*)?|-d", "the run has workers of its own"),
    (r"--junit-?xml(=.*)?|--report-log(=.*)?", "reports are written beside results.json"),
    (r"--co|--collect-?only", "`pytest --collect-only` says what there is"),
    (r"--lf|--last-failed|--ff|--failed-first|--nf|--new-first", "name the tests with -k"),
    (r"--sw|--stepwise(-.*)?", "use -x"),
    (r"--pdb|--trace|--pdbcls(=.*)?", "run pytest itself on that test"),
    (r"-h|--help|-V|--version|--markers|--fixtures|--fixtures-per-test|--setup-(only|plan)|--cache-show(=.*)?",
     "ask pytest itself"),
)  # fmt: skip


class Isolation(msgspec.Struct, frozen=True):
    """A run of tests in workers that may be lost.

    `files` are test files or node ids relative to `root`, where the workers run. Of their tests those of
    `only` run (None: all) but those of `leave`; both hold node ids or beginnings of them up to a `::`. There
    is one worker per element of `workers`, with these variables of its own. Limits are in seconds, `memory`
    in bytes for one worker with its children (None: decided from the machine). `before` are words in front
    of the interpreter: a program that runs it.
    """

    python: Path
    root: Path
    files: tuple[str, ...]
    test_s: float
    collect_s: float
    end_s: float
    log_dir: Path
    pytest_args: tuple[str, ...] = ()
    env: Mapping[str, str] = msgspec.field(default_factory=dict)
    drop_env: tuple[str, ...] = ()
    workers: tuple[Mapping[str, str], ...] = ({},)
    entries: tuple[SkipEntry, ...] = ()
    only: tuple[str, ...] | None = None
    leave: tuple[str, ...] = ()
    memory: int | None = None
    reruns: int = 0
    before: tuple[str, ...] = ()

    def under(self, session: Session) -> Isolation:
        """The same run with the GPU that an emulator plays, and none that is chosen among the machine's."""
        return msgspec.structs.replace(
            self,
            env={**self.env, **session.env},
            drop_env=tuple(sorted({*self.drop_env, *session.drop_env})),
            workers=tuple({} for _ in self.workers),
            before=tuple(session.words(())),
        )


class Isolated(msgspec.Struct, frozen=True):
    """What a run gave, in the order of the files and of the tests in them.

    `complete` is false where tests were left out: stopped (`interrupted`), after -x, or without a worker.
    `start_s` and `collect_s` as in `RunRecord`, of files that were collected whole.
    """

    results: tuple[CaseResult, ...]
    seconds: float
    worker_starts: int
    deselected: int
    complete: bool
    interrupted: bool
    notes: tuple[str, ...]
    start_s: float = 0.0
    collect_s: Mapping[str, float] = msgspec.field(default_factory=dict)


def check_arguments(arguments: Sequence[str]) -> None:
    """Raise `UsageError` for an option of pytest that does not work on a part of the tests."""
    for argument in arguments:
        for pattern, instead in _REFUSED:
            if re.fullmatch(pattern, argument):
                raise UsageError(
                    f"{argument} cannot be passed to pytest here: every worker runs a part of the tests",
                    next_step=f"leave it out; {instead}",
                )


def check_plan(plan: Isolation) -> None:
    """Raise `UsageError` for what cannot run: no directory, none of the files, options that do not fit."""
    check_arguments(plan.pytest_args)
    if not plan.root.is_dir():
        raise UsageError(
            "the directory of the tests does not exist", where=plan.root, next_step="name the one that does"
        )
    if not plan.workers:
        raise UsageError("a run needs at least one worker", next_step="name a device, or none for the CPU")
    if not plan.files:
        raise UsageError("there are no test files to run", next_step="name one")
    if not any((plan.root / name.partition("::")[0]).exists() for name in plan.files):
        raise UsageError(
            f"none of the test files exists: {', '.join(plan.files[:6])}",
            where=plan.root,
            next_step="name the directory that holds them",
        )


def grouped(files: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """What is to be collected of each file: the file, or the node ids named; the same file stands once."""
    found: dict[str, list[str]] = {}
    for name in files:
        file = name.partition("::")[0].removeprefix("./")
        specs = found.setdefault(file, [])
        if name.removeprefix("./") not in specs:
            specs.append(name.removeprefix("./"))
    return {file: (file,) if file in specs else tuple(specs) for file, specs in found.items()}


def memory_limit(asked: int | None, available: int | None, workers: int) -> int | None:
    """Bytes of one worker with its children; None where nobody tells how much there is."""
    if asked is not None or available is None:
        return asked
    return max(_LEAST, int(available * _SHARE / workers))

"""Find the first bad set of a channel: halve, install, run the command, remember."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rocwright.data import load_table
from rocwright.errors import Interrupted, InvalidInput, UsageError
from rocwright.model.channels import LandingTable
from rocwright.model.sets import TRIAL
from rocwright.pipeline.trial import (
    NotInstalled,
    Question,
    Verdict,
    asked,
    python_of,
    remembered,
    requirements,
    said,
    try_set,
    verdict_of,
)
from rocwright.store.channel_log import read_events
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.objects.serve import serving
from rocwright.store.sets.diff import SetDiff, diff_sets
from rocwright.store.sets.records import read_listed, read_set, read_statements, save_statement
from rocwright.system import process
from rocwright.system.files import remove_tree
from rocwright.system.locks import turn

# So many sets that cannot be installed, before any that can: then it is not the sets.
_HOPELESS = 3


class Trial(msgspec.Struct, frozen=True):
    """One set that was tried or remembered; `why` says what came of it, `exit_codes` of the command."""

    set: str
    verdict: Verdict
    remembered: bool
    why: str
    exit_codes: tuple[int, ...] = ()
    seconds: float = 0.0


class Bisected(msgspec.Struct, frozen=True):
    """What a search came to.

    `first_bad` is None where sets had to be skipped: then it is one of `suspects`, oldest first. `flaky`
    are sets whose command ended well and badly. `diff` is from the set before to the first bad set.
    """

    good: str
    bad: str
    first_bad: str | None
    suspects: tuple[str, ...]
    flaky: tuple[str, ...]
    trials: tuple[Trial, ...]
    installs: int
    diff: SetDiff | None


class _Search:
    """The state of one search: verdicts by position, and what it took to get them."""

    def __init__(self, sets: Sequence[str]) -> None:
        self.sets = tuple(sets)
        self.verdicts: dict[int, Verdict] = {}
        self.trials: list[Trial] = []
        self.flaky: list[str] = []
        self.installs = 0
        self.failed = 0

    def narrowed(self) -> Narrowed:
        """See `narrow`; a contradiction names the sets."""
        try:
            return narrow(0, len(self.sets) - 1, self.verdicts)
        except Contradiction as found:
            good, bad = self.sets[found.good][:16], self.sets[found.bad][:16]
            raise InvalidInput(
                f"set {bad} is bad, and {good}, which is not older, is good: more than one thing changed, or "
                "the command does not always end the same way",
                next_step="search a shorter part (--good, --bad), or ask again without what is remembered "
                "(--again), each set several times (--tries)",
            ) from None

    def take(self, at: int, trial: Trial, verdicts: set[Verdict]) -> None:
        """Enter what was found out about a set; good and bad at once tell nothing."""
        if {"good", "bad"} <= verdicts:
            self.flaky.append(self.sets[at])
        self.verdicts[at] = trial.verdict
        self.trials.append(trial)


def behind(store: ObjectStore, prefix: str, good: str, current: str) -> str:
    """The set that is bad where nobody says which: the current set, or the last if `good` is not older.

    After a rollback the current set is good, and the set that was taken back came behind it.
    """
    order = _listed(store, prefix)
    if good in order and current in order and order.index(current) <= order.index(good):
        return order[-1]
    return current


def _listed(store: ObjectStore, prefix: str) -> list[str]:
    """The sets that a channel ever listed, in the order in which they came."""
    events = (event for _, event in read_events(store, prefix) if event.action == "list")
    return list(dict.fromkeys(one for event in events for one in event.sets))


def span(store: ObjectStore, prefix: str, good: str, bad: str) -> tuple[str, ...]:
    """The sets that a channel listed from `good` to `bad`, both included, in the order in which they came.

    Raises `InvalidInput` for a set that it never listed, or when `bad` came first.
    """
    order = _listed(store, prefix)
    for one in (good, bad):
        if one not in order:
            raise InvalidInput(
                f"{prefix} never listed the set {one[:16]}",
                next_step="rocwright set log shows what it listed",
            )
    first, last = order.index(good), order.index(bad)
    if first >= last:
        raise InvalidInput(
            f"the good set {good[:16]} is not older than the bad one {bad[:16]} in {prefix}",
            next_step="to find what fixed something, invert the command's exit code: sh -c '! …'",
        )
    return tuple(order[first : last + 1])


def bisect(
    store: ObjectStore,
    sets: Sequence[str],
    question: Question,
    work: Path,
    *,
    memory: ObjectStore | None = None,
    again: bool = False,
    tries: int = 1,
    tell: Callable[[str], None] = lambda text: None,
) -> Bisected:
    """Find the first bad set of `sets`, whose first is known to be good and whose last to be bad.

    Each trial is a fresh environment below `work`; verdicts are statements beside the set in `memory`
    (default: the store), so that the same question is never put to a set twice, unless `again`. Raises
    `InvalidInput` when verdicts contradict each other or nothing can be installed, `Interrupted` by Ctrl-C:
    the same call goes on where it was.
    """
    if tries < 1:
        raise UsageError(f"{tries} runs of the command tell nothing", next_step="give --tries 1 or more")
    memory = memory or store
    table = load_table("landing", LandingTable)
    python = python_of(question.python)
    key = asked(question, python)
    search = _Search(sets)
    try:
        with (
            turn(work / ".lock", lambda: tell(f"waiting for another search in {work}")),
            serving(store) as url,
        ):
            if not again:
                _remember(search, memory, key)
            while (at := search.narrowed().next) is not None:
                _tell_left(search, tell)
                _try(store, memory, url, search, at, (question, python, key, table), work, tries)
                trial = search.trials[-1]
                tell(f"{trial.set[:16]}  {trial.verdict}: {trial.why}")
    except KeyboardInterrupt:
        process.stop_all()
        raise Interrupted(
            "interrupted", next_step="run the same command again; sets that were tried are remembered"
        ) from None
    finally:
        # Unpacked wheels of several sets: gigabytes.
        remove_tree(work / "uv-cache")
    return _result(store, search)


def _remember(search: _Search, memory: ObjectStore, key: Mapping[str, Any]) -> None:
    last = len(search.sets) - 1
    for at, one in enumerate(search.sets):
        verdicts = remembered(read_statements(memory, one, TRIAL), key)
        if not verdicts:
            continue
        verdict = _one(verdicts)
        if at in (0, last) and verdict == "skip":
            # Somebody says what these are.
            search.flaky += [one] if len(verdicts) > 1 else []
            continue
        search.take(at, Trial(one, verdict, True, "as tried before"), verdicts)


def _one(verdicts: set[Verdict]) -> Verdict:
    if {"good", "bad"} <= verdicts:
        return "skip"
    return next(one for one in ("bad", "good", "skip") if one in verdicts)


def _tell_left(search: _Search, tell: Callable[[str], None]) -> None:
    now = search.narrowed()
    steps = math.ceil(math.log2(now.bad - now.good))
    sets = now.bad - now.good
    tell(f"one of {sets} sets is the first bad one; about {steps} more to try")


def _try(
    store: ObjectStore,
    memory: ObjectStore,
    url: str,
    search: _Search,
    at: int,
    about: tuple[Question, str, Mapping[str, Any], LandingTable],
    work: Path,
    tries: int,
) -> None:
    question, python, key, table = about
    one = search.sets[at]
    began = time.monotonic()
    try:
        listed = read_listed(store, one)
        wanted = requirements(listed, question, python, table)
        search.installs += 1
        codes = try_set(url, one, wanted, question, work, tries=tries)
    except NotInstalled as error:
        # Not remembered: a server may have been away.
        search.failed += 1
        if search.failed >= _HOPELESS and all(trial.verdict == "skip" for trial in search.trials):
            raise InvalidInput(
                f"{search.failed} sets could not be installed, the last one because {error.what}",
                where=error.where,
                next_step="see the log, --python, --target and --other-index",
            ) from error
        trial = Trial(one, "skip", False, f"not installed: {error.what}", (), _since(began))
        search.take(at, trial, {"skip"})
        return
    verdicts = {verdict_of(code) for code in codes}
    for code in dict.fromkeys(codes):
        save_statement(memory, one, said(listed.manifest, key, verdict_of(code), code))
    ended = "exit code " + ", ".join(map(str, codes))
    flaky = {"good", "bad"} <= verdicts
    why = f"does not always end the same way ({ended})" if flaky else ended
    search.take(at, Trial(one, _one(verdicts), False, why, tuple(codes), _since(began)), verdicts)


def _since(began: float) -> float:
    return round(time.monotonic() - began, 2)


def _result(store: ObjectStore, search: _Search) -> Bisected:
    now = search.narrowed()
    suspects = search.sets[now.good + 1 : now.bad + 1]
    found = suspects[0] if len(suspects) == 1 else None
    before, after = (read_set(store, one) for one in (search.sets[now.good], search.sets[now.bad]))
    return Bisected(
        good=search.sets[now.good],
        bad=search.sets[now.bad],
        first_bad=found,
        suspects=() if found else suspects,
        flaky=tuple(search.flaky),
        trials=tuple(search.trials),
        installs=search.installs,
        diff=diff_sets(before, after),
    )


# -- which set to try next: pure, by position in a channel's log


class Narrowed(msgspec.Struct, frozen=True):
    """`good` is the newest known good position, `bad` the oldest known bad position; `next` is to be tried.

    `next` is None when nothing is left to try: then the first bad set is `bad` itself, or, where those
    between were skipped, any of `good + 1 … bad`.
    """

    good: int
    bad: int
    next: int | None


def narrow(good: int, bad: int, verdicts: Mapping[int, Verdict]) -> Narrowed:
    """Halve what lies between; what was skipped is gone around, nearest to the middle first.

    Raises `InvalidInput` when a bad set is older than a good set: then no single set is the first bad.
    """
    inside = {at: verdict for at, verdict in verdicts.items() if good <= at <= bad}
    low = max([good, *(at for at, verdict in inside.items() if verdict == "good")])
    high = min([bad, *(at for at, verdict in inside.items() if verdict == "bad")])
    if low >= high:
        raise Contradiction(low, high)
    left = [at for at in range(low + 1, high) if verdicts.get(at) != "skip"]
    middle = (low + high) / 2
    return Narrowed(low, high, min(left, key=lambda at: (abs(at - middle), at), default=None))


class Contradiction(InvalidInput):
    """A set is good although an older set is bad, or a set is both."""

    def __init__(self, good: int, bad: int) -> None:
        super().__init__(f"position {bad} is bad and {good} is good")
        self.good = good
        self.bad = bad

"""Statements about a recorded set: what people and runners say, and what stays true in another version.

These are results, waivers and bypasses; a set that came out of another by giving its files another
version is stated to be made of it, and inherits how that was built and what may pass in it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from difflib import get_close_matches

import msgspec

from rocwright.errors import UsageError
from rocwright.model.channels import Asked, Channels
from rocwright.model.findings import Waiver, last_day
from rocwright.model.sets import (
    BUILD,
    REVERSION,
    FileEntry,
    SetManifest,
    Statement,
    about_set,
    new_set,
    set_id,
    waiver_statement,
    waivers_about,
)
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.sets.records import read_set, save_statement
from rocwright.store.statements import (
    Bypass,
    Required,
    Result,
    SuiteResult,
    bypass_statement,
    result_statement,
    why_void,
)

_RESULT = "rocwright set state SET --suite smoke-gpu --target gfx942 --result passed"
_BYPASS = "rocwright set state SET --suite smoke-gpu --bypass --reason WHY --expires 2030-01-31"


class Said(msgspec.Struct, frozen=True):
    """What is to be recorded; see `rocwright set state`."""

    suite: str | None = None
    target: str = ""
    result: Result | None = None
    runner: bool = True
    attempt: int = 1
    detail: str = ""
    build: str | None = None
    bypass: bool = False
    reason: str | None = None
    expires: str | None = None
    by: str = ""
    waivers: tuple[Waiver, ...] = ()
    device: Asked = "gpu"


def state_set(
    store: ObjectStore, channels: Channels, set_digest: str, said: Said, today: date
) -> tuple[str, ...]:
    """Write statements about the set; returns their keys.

    Raises `UsageError` for what contradicts itself or the set: nothing is written then.
    """
    manifest = read_set(store, set_digest)
    statements = tuple(statements_of(manifest, channels, said, today))
    if not statements:
        raise UsageError("nothing to state", next_step=_RESULT)
    return tuple(save_statement(store, set_digest, one) for one in statements)


def statements_of(manifest: SetManifest, channels: Channels, said: Said, today: date) -> Iterator[Statement]:
    """The statements that say this about the set; pure. Raises `UsageError` as `state_set`."""
    if said.build is not None:
        yield about_set(manifest, BUILD, {"result": said.build})
    if said.result is None and not said.bypass and said.suite is not None:
        raise UsageError(f"--suite {said.suite} needs a result or a bypass", next_step=_RESULT)
    # Each target has a statement of its own.
    for each in (msgspec.structs.replace(said, target=target) for target in said.target.split(",")):
        if said.result is not None:
            yield result_statement(manifest, _result(manifest, channels, each, said.result))
        if said.bypass:
            yield bypass_statement(manifest, _bypass(manifest, channels, each, today))
    if not said.bypass and not said.waivers and (said.reason is not None or said.expires is not None):
        raise UsageError("--reason and --expires belong to --bypass or --waive", next_step=_BYPASS)
    yield from (waiver_statement(manifest, waiver) for waiver in said.waivers)


def _result(manifest: SetManifest, channels: Channels, said: Said, result: Result) -> SuiteResult:
    if said.suite is None:
        raise UsageError("--result needs --suite", next_step=_RESULT)
    if not said.runner and result != "skipped":
        raise UsageError(
            f"without a runner nothing can have {result}",
            next_step="give --result skipped",
        )
    if said.attempt < 1:
        raise UsageError("attempts count from 1", next_step="give 1 or more")
    _require_target(manifest, channels, said.suite, said)
    return SuiteResult(
        said.suite, manifest.family, result, said.runner, said.attempt, said.detail, said.target, said.device
    )


def _bypass(manifest: SetManifest, channels: Channels, said: Said, today: date) -> Bypass:
    names = list(dict.fromkeys(suite.name for suite in channels.suite))
    if said.suite is None:
        raise UsageError("--bypass needs --suite", next_step=_BYPASS)
    if said.suite not in names:
        near = get_close_matches(said.suite, names, n=1)
        raise UsageError(
            f"no channel asks for the suite {said.suite!r}; suites: {', '.join(names)}",
            next_step=f"perhaps {near[0]}" if near else _BYPASS,
        )
    if said.reason is None or not said.reason.strip():
        raise UsageError("--bypass needs a reason", next_step=_BYPASS)
    if said.expires is None:
        raise UsageError("--bypass needs a last day", next_step=_BYPASS)
    _require_target(manifest, channels, said.suite, said)
    required = Required(said.suite, manifest.family, said.target, said.device)
    bypass = Bypass(required, said.reason.strip(), last_day(said.expires, today), said.by, today)
    _require_bounded(bypass, channels, today)
    return bypass


def _require_bounded(bypass: Bypass, channels: Channels, today: date) -> None:
    """The gate would not count it: whoever gives it is to know, and what they may give."""
    why = why_void(bypass, channels.bypass, today)
    if not why:
        return
    longest, who = channels.bypass.of(bypass.required.suite)
    last = (today + timedelta(days=longest)).isoformat()
    by = f", --by {' or '.join(who)}" if who else ""
    raise UsageError(
        f"a bypass of {bypass.required} until {bypass.expires} would not count: {why}",
        next_step=f"give --expires {last} or earlier{by}; [channels.bypass] bounds it",
    )


def _require_target(manifest: SetManifest, channels: Channels, suite: str, said: Said) -> None:
    """A result for another target than the gate asks for would count for nothing, without a word."""
    target = said.target
    if target and target not in manifest.targets:
        raise UsageError(
            f"the set is not for {target}", next_step=f"its targets: {' '.join(manifest.targets) or 'none'}"
        )
    per = channels.per(suite, said.device)
    if per == "target" and manifest.targets and not target:
        raise UsageError(
            f"{suite} runs on each target; say on which",
            next_step=f"give --target, one of: {' '.join(manifest.targets)}",
        )
    if per == "set" and target:
        raise UsageError(f"{suite} runs once for a set", next_step="leave out --target")


# -- about a set that came out of another by giving its files another version


class Renamed(msgspec.Struct, frozen=True):
    """A file before and after: names and hex sha256."""

    old_name: str
    old_sha256: str
    new_name: str
    new_sha256: str


def reversioned(
    manifest: SetManifest, files: Iterable[FileEntry], *, old_rocm: str, new_rocm: str
) -> SetManifest:
    """The manifest of the new set: for the same targets, from the same sources; ROCm's version among them."""
    sources = {name: new_rocm if pin == old_rocm else pin for name, pin in manifest.sources.items()}
    return new_set(
        family=manifest.family,
        targets=manifest.targets,
        platform=manifest.platform,
        files=files,
        sources=sources,
    )


def inherited(
    manifest: SetManifest,
    made: SetManifest,
    statements: Iterable[Statement],
    names: Mapping[str, str],
    *,
    old_rocm: str,
    new_rocm: str,
) -> list[Statement]:
    """Statements about the new set: what it was made of, how that was built, what may pass in it as before.

    `names` are new file names by the old. Verdicts of tests are not taken over: the bytes are others.
    """
    said = tuple(statements)
    digest = set_id(manifest)
    after = {entry.name: entry for entry in made.files}
    files = [
        Renamed(entry.name, entry.sha256, names[entry.name], after[names[entry.name]].sha256)
        for entry in manifest.files
    ]
    predicate = {"from": digest, "old": old_rocm, "new": new_rocm, "files": msgspec.to_builtins(files)}
    built = [item for item in said if item.predicate_type == BUILD and item.about(digest)]
    return [
        about_set(made, REVERSION, predicate),
        *(about_set(made, BUILD, item.predicate) for item in built),
        *(waiver_statement(made, waiver) for waiver in waivers_about(digest, said)),
    ]

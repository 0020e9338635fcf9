"""The gate over all statements about a set, and the step that lists the set in its channel if it is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec

from rocwright.engine.graph import Inputs, Note, Step
from rocwright.errors import GateClosed, IntegrityError
from rocwright.gputest.shards.level import NONE_OF_MINIATURE, NONE_TO_RUN
from rocwright.model.channels import Channels
from rocwright.model.gpu import Families, base_targets, expand
from rocwright.model.runners import Runners
from rocwright.model.sets import WAIVER, SetManifest, Statement, set_id
from rocwright.pipeline.options import RunOptions
from rocwright.pipeline.records import ENDED, Ended, LeftOut
from rocwright.pipeline.steps.own_tests import UNITS_SUITE, GpuTested, none_of_miniature
from rocwright.pipeline.steps.publish import StagedSet, keys_of
from rocwright.pipeline.steps.sources import family_projects
from rocwright.pipeline.steps.testing import (
    GPU_SUITE,
    HOST_SUITE,
    ROCM_SUITE,
    Tested,
    demo_bypasses,
    pinned_requirements,
    tested_statements,
)
from rocwright.store.gate import Decision, Ruling, decide, policy_for
from rocwright.store.index.verify import verify_listed
from rocwright.store.policy import policy_changes
from rocwright.store.sets.promote import promote
from rocwright.store.sets.records import read_statements
from rocwright.store.statements import (
    Bypass,
    Required,
    Result,
    SuiteResult,
    bypass_statement,
    latest_results,
    result_statement,
)
from rocwright.store.trust.guard import as_gate_sees
from rocwright.system.days import today


class Gated(msgspec.Struct, frozen=True):
    """The decision about a set, and the statements that it rests on beside those recorded."""

    set_id: str
    passed: bool
    decision: Decision
    statements: tuple[Statement, ...]


def gate_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`gate`: the channel's rules over all statements about the set. Nothing is changed.

    `needs` are all that has to have a result: a test without keeps the gate closed, whatever is bypassed.
    A gate that is closed for want of a GPU is a result where nothing could be published anyhow; it is
    `GateClosed` where something could, and for every other reason.
    """

    def act(inputs: Inputs, note: Note) -> Gated:
        if "stage" not in inputs.values:
            raise LeftOut(_without_set(inputs))
        staged = inputs.get("stage", StagedSet)
        manifest = staged.manifest
        values = inputs.values.values()
        silent = _silent(inputs, needs)
        tested = [value for value in values if isinstance(value, Tested)]
        machines = [value for value in values if isinstance(value, GpuTested)]
        for files in (*(one.files for one in tested), *(one.files for one in machines)):
            require_tested_files(manifest, files)
        # Waivers may come after staging; the gate weighs those in force today.
        channels = options.table("channels", Channels)
        channel = channels.named(options.channel or "release")
        seen = as_gate_sees(options.store, channel, today())
        recorded = read_statements(seen, set_id(manifest)) if not staged.why else ()
        statements = (
            *staged.said,
            *(item for item in recorded if item.predicate_type == WAIVER),
            *tested_statements(manifest, tested),
            *gpu_statements(manifest, machines, silent),
            *silent_statements(manifest, silent),
            *none_statements(options, manifest, machines, inputs),
            *_bypasses(options, manifest),
        )
        for change in policy_changes(options.overlay):
            note(f"the rocwright.toml changes the policy: {change}")
        policy = policy_for(manifest, channels, channel, today())
        decision = _with_tests(decide(set_id(manifest), statements, policy), statements)
        decision = _with_levels(decision, machines)
        untested = all(one.passed or one.rule == "untested" for one in decision.rulings)
        if not decision.promote and (options.publication.channels or not untested):
            raise GateClosed(
                f"set {set_id(manifest)[:12]} is not promoted (rule {decision.rule}): {decision.reason}",
                next_step="resolve what the reason names; a bypass needs a reason and an expiry date",
            )
        return Gated(set_id(manifest), decision.promote, decision, statements)

    return Step(
        id="gate",
        result=Gated,
        act=act,
        needs=needs,
        rooms=("store/gate.py", "store/statements.py", "model", "data"),
        facts=lambda: {
            "today": today().isoformat(),
            "channels": options.publication.channels,
            "own": options.overlaid("families", "channels"),
        },
        summary=_said,
    )


def _said(value: Gated) -> str:
    """The decision, and which tests there were none of: nobody is to take them for passed."""
    none = [
        one.detail
        for one in latest_results(value.statements).values()
        if not one.runner and one.detail.startswith(NONE_TO_RUN)
    ]
    return "; ".join([f"{'open' if value.passed else 'closed'}, {value.decision.rule}", *dict.fromkeys(none)])


def require_tested_files(manifest: SetManifest, tested: Mapping[str, str]) -> None:
    """Raise `IntegrityError` unless the wheels that were tested (digests by name) are those of the set."""
    served = {entry.name: entry.sha256 for entry in manifest.files}
    other = sorted(name for name, digest in tested.items() if served.get(name) != digest)
    if other:
        raise IntegrityError(
            f"the tested files are not those of the set: {', '.join(other)}", next_step="run the tests again"
        )


def _without_set(inputs: Inputs) -> str:
    """Why there is no set: how the step ended that makes it."""
    ended = inputs.get(ENDED, Ended).cells if ENDED in inputs.values else {}
    for id_, end in ended.items():
        if id_.startswith("stage/"):
            how = {"missing": "was not done", "skipped": "was left out"}.get(end.state, "failed")
            return f"there is no set to decide about: {id_} {how}{f' ({end.why})' if end.why else ''}"
    return "there is no set to decide about"


def _silent(inputs: Inputs, needs: Sequence[str]) -> list[str]:
    """Tests that had to have a result and have none: they failed, or nobody did them.

    Those that the plan leaves out are not among `needs`. A report of no suite at all is none, either.
    """
    values = inputs.values
    silent = [name for name in needs if name.startswith("test-") and name not in values]
    ended = inputs.get(ENDED, Ended).cells if ENDED in values else {}
    silent += [
        id_
        for id_, end in ended.items()
        if id_.startswith("test-") and end.state in ("failed", "missing") and _kind(id_) not in silent
    ]
    silent += [name for name, value in values.items() if isinstance(value, GpuTested) and not value.suites]
    return list(dict.fromkeys(silent))


def _kind(name: str) -> str:
    return name.partition("/")[0]


def silent_statements(manifest: SetManifest, silent: Sequence[str]) -> list[Statement]:
    """Of tests on a host without a result: success with another installer does not make up for it."""
    suites = {"test-pip": (ROCM_SUITE, HOST_SUITE), "test-units": (UNITS_SUITE,)}
    suites["test-uv"] = suites["test-pip"]
    return [
        result_statement(
            manifest,
            SuiteResult(suite, manifest.family, "cancelled", True, detail=f"{name} ended without a report"),
        )
        for name in silent
        for suite in suites.get(_kind(name), ())
    ]


def none_statements(
    options: RunOptions, manifest: SetManifest, tested: Sequence[GpuTested], inputs: Inputs
) -> list[Statement]:
    """What of the level there was nothing to run of, which is no pass: by suite, with the reason.

    A plan knows some of that before anything runs, and leaves those cells out.
    """
    ended = inputs.get(ENDED, Ended).cells if ENDED in inputs.values else {}
    none = {run.suite: run.none for machine in tested for run in machine.suites if run.none}
    none |= {_kind(id_): end.why for id_, end in ended.items() if end.why.startswith(NONE_TO_RUN)}
    if options.sources == "miniature":
        none = {UNITS_SUITE: NONE_OF_MINIATURE}
    return [
        result_statement(manifest, SuiteResult(suite, manifest.family, "skipped", False, detail=why))
        for suite, why in none.items()
    ]


def _with_levels(decision: Decision, tested: Sequence[GpuTested]) -> Decision:
    """The decision, closed where PyTorch's own tests of the level that was asked for were not to be run."""
    left = [
        f"{machine.asked} tests were asked for, and {run.told}"
        for machine in tested
        for run in machine.suites
        if run.none and not run.suite.startswith("rocm-") and run != none_of_miniature()
    ]
    if not decision.promote or not left:
        return decision
    return _closed(decision, "; ".join(dict.fromkeys(left)))


def _with_tests(decision: Decision, statements: Sequence[Statement]) -> Decision:
    """The decision, closed for a test that did not pass even where the channel asks for no test."""
    if not decision.promote:
        return decision
    bad = [
        f"{name} {one.result}"
        for name, one in latest_results(item for item in statements if item.about(decision.set_id)).items()
        # What failed on an emulated GPU closes the gate that asks for it there, and has done so above.
        if one.runner and one.result != "passed" and not name.emulated
    ]
    if not bad:
        return decision
    return _closed(decision, f"{'; '.join(sorted(bad))}; what fails its tests is not promoted")


def _closed(decision: Decision, reason: str) -> Decision:
    ruling = Ruling("tests", False, reason)
    rulings = (*(one for one in decision.rulings if one.rule != "tests"), ruling)
    return msgspec.structs.replace(decision, promote=False, rule="tests", reason=reason, rulings=rulings)


def gpu_statements(
    manifest: SetManifest, tested: Sequence[GpuTested], silent: Sequence[str]
) -> list[Statement]:
    """What tests on GPUs showed, by suite and target.

    A test for which there is a machine and that gave no result is cancelled for every target: that closes the
    gate, and no bypass opens it.
    """
    said: list[SuiteResult] = []
    for machine in tested:
        for run in machine.suites:
            if run.none:
                continue
            if run.target and run.target not in base_targets(manifest.targets):
                continue
            first = f" ({run.verdicts.failures[0]})" if run.verdicts.failures else ""
            counts = f"{run.verdicts.passed} passed, {run.verdicts.failed} failed{first}"
            counts += (
                f" on {machine.family or 'the host'}{f', shard {machine.shard}' if machine.shard else ''}"
            )
            result: Result = "passed" if run.good else "failed"
            target = next((one for one in manifest.targets if run.target in base_targets([one])), "")
            # Of several machines with one GPU the worse result counts.
            said.append(
                SuiteResult(
                    run.suite,
                    manifest.family,
                    result,
                    True,
                    detail=counts,
                    target=target,
                    device="emulated" if run.emulated else "gpu",
                )
            )
    for cell in (name for name in silent if _kind(name) == "test-pytorch"):
        detail = f"{cell} ended without a report"
        said += [
            SuiteResult(GPU_SUITE, manifest.family, "cancelled", True, detail=detail, target=target)
            for target in manifest.targets or ("",)
        ]
    return [result_statement(manifest, one) for one in said]


def _bypasses(options: RunOptions, manifest: SetManifest) -> list[Statement]:
    """Want of a GPU that is lifted: by the row of a family, or because it is the miniature."""
    if options.sources == "miniature":
        return demo_bypasses(manifest, today())
    table = options.table("families", Families)
    runners = Runners(table.family)
    found: list[Statement] = []
    for family in options.families:
        row = runners.bypass_of(family, options.platform)
        if row is None:
            continue
        covered = set(base_targets(expand([family], table.families)))
        for target in manifest.targets:
            if covered & set(base_targets([target])):
                required = Required(GPU_SUITE, manifest.family, target)
                # The row may last longer than one set may go without its tests.
                longest, _ = options.table("channels", Channels).bypass.of(GPU_SUITE)
                until = min(row.until, today() + timedelta(days=longest))
                bypass = Bypass(required, row.reason, until, f"families.{family}", today())
                found.append(bypass_statement(manifest, bypass))
    return found


class Released(msgspec.Struct, frozen=True):
    """A promoted set: where it is served from, its keys in the store, the decision, how to install it.

    `why` says why the set was not promoted; then there is nothing to install.
    """

    set_id: str
    index_url: str
    files: tuple[str, ...]
    decision: Decision
    requirements: tuple[str, ...]
    pip_line: str
    uv_line: str
    why: str = ""


def promote_step(options: RunOptions, needs: tuple[str, ...]) -> Step:
    """`promote`: the set from staging to `v2/<family>/`, as the gate decided."""

    def act(inputs: Inputs, note: Note) -> Released:
        staged = inputs.get("stage", StagedSet)
        gated = inputs.get("gate", Gated)
        manifest = staged.manifest
        requirements = pinned_requirements(manifest, family_projects(options), options.extensions)
        if staged.why or not options.publication.channels:
            why = staged.why or options.publication.why or "dry run"
            return Released(staged.set_id, "", (), gated.decision, requirements, "", "", why)
        store = options.store
        channel = options.table("channels", Channels).named(options.channel or "release")
        released = promote(
            store,
            channel,
            manifest,
            gated.decision,
            gated.statements,
            datetime.now(timezone.utc),
            policy=policy_changes(options.overlay),
        )
        verify_listed(store, released.prefix, manifest)
        return Released(
            set_id=released.set_id,
            index_url=released.index_url,
            files=keys_of(released.files),
            decision=gated.decision,
            requirements=requirements,
            pip_line=f"pip install --index-url {released.index_url} {' '.join(requirements)}",
            uv_line=f"uv pip install --index-url {released.index_url} {' '.join(requirements)}",
        )

    return Step(
        id="promote",
        result=Released,
        act=act,
        needs=needs,
        rooms=("store", "model"),
        facts=lambda: {
            "today": today().isoformat(),
            "channels": options.publication.channels,
            "own": options.overlaid("channels"),
        },
        outputs=lambda value: _outputs(options, value),
        summary=_summary,
    )


def _outputs(options: RunOptions, value: Released) -> tuple[Path, ...]:
    return tuple(options.workspace.store / key for key in value.files) if options.own else ()


def _summary(value: Released) -> str:
    said = f"set {value.set_id[:12]}"
    return f"{said} not promoted: {value.why}" if value.why else f"{said} promoted: {value.decision.rule}"

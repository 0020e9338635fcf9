"""A recorded set with another version of ROCm: fetched, written anew, checked, staged as a set of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from rocwright.check.contract import ContractTable
from rocwright.check.report import Report
from rocwright.check.run import CheckRequest
from rocwright.errors import ContractBroken
from rocwright.model.channels import Channels, PolicyChange
from rocwright.model.sets import FINDINGS, about_set, set_id
from rocwright.pipeline.check_set import check_set
from rocwright.store.layout import channel_prefix
from rocwright.store.mend.heal import heal_events
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.pool import describe_files
from rocwright.store.publish import require_listable
from rocwright.store.sets.promote import Promoted, promote_set
from rocwright.store.sets.records import fetch_set, read_set, read_statements
from rocwright.store.sets.stage import record_set
from rocwright.store.sets.state import inherited, reversioned
from rocwright.store.statements import verdict_on
from rocwright.store.trust.guard import signed_only
from rocwright.system.files import require_space
from rocwright.wheel.reversion.plan import plan_reversion
from rocwright.wheel.reversion.values import ReversionPlan
from rocwright.wheel.reversion.versions import Rule
from rocwright.wheel.reversion.write import WrittenFile, write_reversion


class Reversioned(msgspec.Struct, frozen=True):
    """The plan, and unless that was all: the files that were written, their check, the staged set."""

    old_set: str
    plan: ReversionPlan
    written: tuple[WrittenFile, ...] = ()
    report: Report | None = None
    staged: Promoted | None = None


def reversion_set(
    store: ObjectStore,
    channels: Channels,
    digest: str,
    rule: Rule,
    now: datetime,
    *,
    contract: ContractTable | None = None,
    policy: Sequence[PolicyChange] = (),
    install: bool = False,
    dry_run: bool = False,
    jobs: int = 2,
    work_dir: Path | None = None,
    note: Callable[[str], None] = lambda _: None,
) -> Reversioned:
    """Give the files of a recorded set another version, and list the result in the first channel.

    The new set is checked like any other, every new wheel is unpacked and compared with its RECORD, and it
    has to be tested again: only what was waived is taken over. Its files lie below `work_dir` meanwhile, the
    old ones as well. Nothing is stored of a set that breaks the wheel contract (`ContractBroken`); see
    `plan_reversion` for versions and pins, `fetch_set` for the store. The channel is asked as for any set
    (`promote_set`): `GateClosed` where it wants a signature, which the recorded set can get then, where it
    does not count a check that took rules away, or where it withdrew the new set. Running again after an
    interruption completes it, and after a complete run changes nothing.
    """
    manifest = read_set(store, digest)
    with tempfile.TemporaryDirectory(prefix="rocwright-reversion-", dir=work_dir) as scratch:
        old, new = Path(scratch, "old"), Path(scratch, "new")
        old.mkdir()
        size = sum(entry.size for entry in manifest.files)
        require_space(old, size if dry_run else 2 * size, purpose="files of the set, old and new,")
        note(f"fetching {len(manifest.files)} files of set {digest[:12]}")
        plan = plan_reversion(fetch_set(store, manifest, old), rule)
        if dry_run:
            return Reversioned(digest, plan)
        note(f"writing them for ROCm {plan.new}")
        written = write_reversion(plan, new, verify=True, threads=jobs)
        paths = [file.path for file in written]
        asked = CheckRequest(
            tuple(paths), targets=manifest.targets or None, closed=True, contract=contract, jobs=jobs
        )
        report = check_set(asked, install=install, work_dir=Path(scratch, "proof"), note=note)
        made = reversioned(manifest, describe_files(paths), old_rocm=plan.old, new_rocm=plan.new)
        said = inherited(
            manifest,
            made,
            read_statements(signed_only(store), digest),
            {change.source.name: change.name for change in plan.files},
            old_rocm=plan.old,
            new_rocm=plan.new,
        )
        statements = [about_set(made, FINDINGS, report.predicate()), *said]
        problem = verdict_on(made, statements, now.date()).problem
        if problem is not None:
            raise ContractBroken(
                f"the set with the new version is not recorded: {problem}",
                next_step="resolve what was found, or waive it for the set that it was to be made of",
            )
        channel = channels.named(channels.channel[0].name)
        prefix = channel_prefix(channel.prefix, made.family)
        require_listable(store, prefix, made)
        record_set(store, made, {path.name: path for path in paths}, statements, now)
    # A channel that trusts keys lists what one of them signed, and only a recorded set can be signed.
    heal_events(store, prefix, set_id(made))
    staged = promote_set(store, channels, channel, set_id(made), now, policy=policy)
    return Reversioned(digest, plan, written, report, staged)

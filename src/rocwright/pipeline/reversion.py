"""A recorded set with another version of ROCm: fetched, written anew, checked, staged as a set of its own."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from rocwright.check.contract import ContractTable
from rocwright.check.report import Report
from rocwright.check.run import CheckRequest
from rocwright.errors import ContractBroken
from rocwright.model.channels import Channels
from rocwright.model.sets import FINDINGS, about_set, set_id
from rocwright.pipeline.check_set import check_set
from rocwright.store.layout import channel_prefix
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.pool import describe_files
from rocwright.store.publish import list_set, require_listable
from rocwright.store.sets.records import fetch_set, read_set, read_statements
from rocwright.store.sets.sign import require_signed
from rocwright.store.sets.stage import Staged, record_set, rfc3339
from rocwright.store.sets.state import inherited, reversioned
from rocwright.store.statements import verdict_on
from rocwright.store.trust.guard import minding, signed_only, trusted_now
from rocwright.system.files import require_space
from rocwright.wheel.reversion.plan import plan_reversion
from rocwright.wheel.reversion.values import ReversionPlan
from rocwright.wheel.reversion.versions import Rule
from rocwright.wheel.reversion.write import WrittenFile, write_reversion


@dataclass(frozen=True)
class Reversioned:
    """The plan, and unless that was all: the files that were written, their check, the staged set."""

    old_set: str
    plan: ReversionPlan
    written: tuple[WrittenFile, ...] = ()
    report: Report | None = None
    staged: Staged | None = None


def reversion_set(
    store: ObjectStore,
    channels: Channels,
    digest: str,
    rule: Rule,
    now: datetime,
    *,
    contract: ContractTable | None = None,
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
    `plan_reversion` for versions and pins, `fetch_set` for the store; `GateClosed` where the channel wants a
    signature, which the recorded set can get then. Running again after an
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
    store = minding(store, channel, now.date())
    require_signed(store, channel.name, trusted_now(store, channel), made)
    list_set(store, prefix, made, at=rfc3339(now))
    staged = Staged(set_id(made), prefix, store.url(prefix), made.files)
    return Reversioned(digest, plan, written, report, staged)

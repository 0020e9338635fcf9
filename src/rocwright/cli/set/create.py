"""`rocwright set create | reversion`: a new set, of wheels and sdists or of another set's."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime, timezone
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from rocwright.check.loading import ask_waivers, load_contract
from rocwright.check.run import CheckRequest
from rocwright.cli.options import OptionalCount, given_targets
from rocwright.cli.reply import Reply, for_people, replies
from rocwright.cli.set.adopt import AdoptOptions, adopt_set
from rocwright.cli.set.look import promoted_next, staged_lines
from rocwright.cli.show_check import overlay_lines, override_lines, proved_lines, show_report, verdict
from rocwright.cli.store.options import StoreOptions
from rocwright.cli.wheel.reversion import show_reversion
from rocwright.data.overlay import read_overlay
from rocwright.errors import UsageError
from rocwright.pipeline.check_set import check_set
from rocwright.pipeline.create_set import (
    About,
    Planned,
    create_set,
    given_files,
    parse_sources,
    plan_set,
    wanted_by,
)
from rocwright.pipeline.reversion import reversion_set
from rocwright.pipeline.variants import with_variants
from rocwright.store.index.verify import verify_listed
from rocwright.store.layout import channel_prefix
from rocwright.store.mend.heal import heal_events
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.sets.find import resolve_set
from rocwright.store.sets.promote import promote_set
from rocwright.system import console
from rocwright.system.limits import available_cores
from rocwright.wheel.reversion.versions import parse_rule

_DEFAULTS, _ADOPT = StoreOptions(), AdoptOptions()


@replies
def set_create(
    *paths: Path,
    family: str | None = None,
    target: Annotated[str | None, Parameter(name=("--target", "--targets"))] = None,
    platform: str | None = None,
    source: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    install: bool = True,
    allow: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    reason: str | None = None,
    expires: str | None = None,
    variants: Annotated[bool, Parameter(negative=())] = False,
    stage: bool = False,
    dry_run: bool = False,
    adopt: AdoptOptions = _ADOPT,
    options: StoreOptions = _DEFAULTS,
    jobs: OptionalCount = None,
) -> Iterator[Reply]:
    """Check wheels and sdists as one closed set, put them into the store, and record the set.

    Prints the id of the set. Nothing is stored of a set that breaks the wheel contract (exit code 9). After
    an interruption the same command completes the set; files that are already there are not sent again.

    Parameters
    ----------
    paths
        Wheels and sdists, or directories that hold them: all files of the set and no other.
    family
        GPU family whose pages list the set (default: the one that the targets make up).
    target
        GPU targets that the set is for, separated by commas (default: those that its files hold code for). Of
        an index, only files for these are taken.
    platform
        linux, windows or any (default: what the wheels' tags say).
    source
        NAME=COMMIT: what the set was built from; may be repeated.
    install
        Install the set with pip and uv, too, from an index on this machine that holds nothing else, and
        import what it offers. With --no-install, the record says that this was not proved.
    allow
        A rule whose errors pass, as for `rocwright check`; recorded with the set. Needs --reason, --expires.
    reason
        Why they may pass.
    expires
        The last day on which they pass, such as 2030-01-31.
    variants
        Add wheel variants: of each wheel that was split, small ones that choose its device package for the
        GPU of whoever installs it, where the installer speaks variants. The wheel then requires them.
    stage
        List the set in the first channel, too. Of an index, its files are fetched for that.
    dry_run
        Check, and print every object of the set's files with its size and whether the store has it; nothing
        is written.
    jobs
        Threads (default: this machine's cores).
    json
        Print the result as JSON: the set, or what the check found.
    """
    targets = given_targets(target, options.config)
    if adopt.wanted:
        if paths or variants:
            raise UsageError(
                "a set is adopted as it is or made of files, not both",
                next_step="give either files, or one of --from-index, --from-page and --from-folder, and "
                "--variants only with files",
            )
        yield from adopt_set(
            options,
            adopt,
            family=family,
            targets=targets,
            platform=platform,
            stage=stage,
            dry_run=dry_run,
            install=install,
        )
        return
    # What is wrong with the store is said before the checks, which take a while.
    store, channels = options.opened(new=True), options.channels()
    now = datetime.now(timezone.utc)
    waivers = ask_waivers(allow, reason, expires, now.date())
    overlay = read_overlay(options.config)
    with with_variants(paths, console.say) if variants else nullcontext(paths) as files:
        asked = CheckRequest(
            files,
            targets=targets or None,
            closed=True,
            contract=load_contract(overlay, now.date()),
            jobs=jobs or available_cores(),
        )
        for line in overlay_lines(overlay):
            console.say(line)
        about = About(family, targets or None, platform, parse_sources(source), options.families())
        given = given_files(files)
        report = check_set(asked, install=install, note=console.say)
        planned = plan_set(given, report, about, waivers, now)
        if not planned.passed:
            found = {"set": planned.set_id, "check": report.predicate()}
            yield Reply(found, lambda: show_report(report, waivers, now.date()))
            verdict(report, waivers, now.date())
            planned.require_passed()
        if dry_run:
            yield _plan_reply(store, planned)
            return
        create_set(store, planned, now)
        yield for_people(lambda: _show(planned))
        first = channels.named(channels.channel[0].name)
        staged = served = None
        if stage:
            heal_events(store, channel_prefix(first.prefix, planned.manifest.family), planned.set_id)
            staged = promote_set(store, channels, first, planned.set_id, now, policy=options.policy())
            served = verify_listed(store, staged.prefix, planned.manifest)
        url = staged.index_url if staged else None

        def show() -> None:
            for line in staged_lines(staged, served):
                console.say(line)
            later = (
                promoted_next(store, channels, first, planned.manifest, options)
                if staged
                else [options.command("set", "promote", planned.set_id, "--to", first.name)]
            )
            for line in later:
                console.say(f"next: {line}")

        yield Reply({"set": planned.set_id, "manifest": planned.manifest, "index_url": url}, show)


@replies
def set_reversion(
    which: str,
    /,
    *,
    to: Annotated[str, Parameter(name="--to")],
    install: bool = False,
    dry_run: Annotated[bool, Parameter(negative=())] = False,
    work_dir: Path | None = None,
    options: StoreOptions = _DEFAULTS,
    jobs: OptionalCount = None,
) -> Reply:
    """Make a new set from a candidate or nightly, with its final version, and list it in the first channel.

    Like `rocwright wheel reversion`, for a set. The new set is checked before it is recorded, and has to be
    tested before it can be promoted: its bytes differ. A statement records which file was made from which. A
    set that already carries its final version does not need this: it is promoted as it is.

    Parameters
    ----------
    which
        Eight or more digits of the set's id, CHANNEL:FAMILY for the set that installers take from there, or
        newest: that of the first channel (newest:FAMILY where it has several).
    to
        release, a candidate (rc2), a nightly (a20260430), or ROCm's version itself (7.13.0).
    install
        Install the new set with pip and uv, too, from an index on this machine that holds nothing else.
        Without, the record says that this was not proved.
    dry_run
        Only show what would change.
    work_dir
        Where the files lie meanwhile, old and new (default: the directory for temporary files).
    jobs
        Threads (default: this machine's cores).
    json
        Print the result as JSON.
    """
    store, channels = options.opened(), options.channels()
    overlay = read_overlay(options.config)
    for line in overlay_lines(overlay):
        console.say(line)
    done = reversion_set(
        store,
        channels,
        resolve_set(store, channels, which),
        parse_rule(to),
        datetime.now(timezone.utc),
        contract=load_contract(overlay),
        policy=options.policy(),
        install=install,
        dry_run=dry_run,
        jobs=jobs or available_cores(),
        work_dir=work_dir,
        note=console.say,
    )
    staged = done.staged
    said = {"old": done.plan.old, "new": done.plan.new, "files": [one.said for one in done.plan.files]}
    made = {
        "set": staged.set_id if staged else None,
        "index_url": staged.index_url if staged else None,
        "manifest_files": staged.files if staged else (),
    }

    def show() -> None:
        show_reversion(done.plan, done.written, kept=False)
        if staged is not None:
            console.say(f"listed; install from it with --index-url {staged.index_url}")
            console.out(f"set {staged.set_id}")

    return Reply({"from": done.old_set, **said, **made}, show)


def _show(planned: Planned) -> None:
    manifest = planned.manifest
    for line in (*override_lines(planned.report), *proved_lines(planned.report)):
        console.say(line)
    size = console.human_bytes(sum(entry.size for entry in manifest.files))
    console.say(f"{len(manifest.files)} files, {size}, for {manifest.family}")
    # The only line on stdout.
    console.out(planned.set_id)


def _plan_reply(store: ObjectStore, planned: Planned) -> Reply:
    wanted = wanted_by(store, planned)

    def show() -> None:
        rows = [(console.human_bytes(one.size), "there" if one.present else "new", one.key) for one in wanted]
        console.table(f"Set {planned.set_id}", ("size", "in the store", "object"), rows, right=(0,))
        new = [one for one in wanted if not one.present]
        console.say(
            f"{len(new)} objects would be written, {console.human_bytes(sum(one.size for one in new))}"
        )

    return Reply({"set": planned.set_id, "manifest": planned.manifest, "objects": wanted}, show)

"""`rocwright test skips show | lint | export | import`: entries for tests that are not expected to pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rocwright.cli.options import Files, Repeated
from rocwright.cli.reply import Reply, replies
from rocwright.data.overlay import read_overlay
from rocwright.errors import ContractBroken, UsageError
from rocwright.gputest.skips.bring import imported
from rocwright.gputest.skips.collected import Collected, TestTree, read_collected
from rocwright.gputest.skips.entries import (
    chosen_entries,
    families_table,
    load_entries,
    rendered,
    write_all_new,
    write_new,
)
from rocwright.gputest.skips.export import exported, expression, list_entries
from rocwright.gputest.skips.hold import FamilyMembers, Place, asked_place, closed, unknown_of, where_fits
from rocwright.gputest.skips.lint import lint, pattern_of
from rocwright.gputest.skips.reference import read_lists
from rocwright.model.platforms import this_platform
from rocwright.model.suites import SkipEntry
from rocwright.system import console
from rocwright.system.days import today


@Parameter(name="*")
@dataclass(frozen=True)
class EntryOptions:
    """Which entries."""

    skips: Files = ()
    """A TOML file with entries of your own; may be repeated. Built-in ones and those of rocwright.toml
    always count."""

    entry: Repeated = ()
    """Only the entry with this id; may be repeated."""

    config: Path | None = None
    """A rocwright.toml (default: that of the current directory, if there is one)."""

    def entries(self) -> tuple[SkipEntry, ...]:
        """The entries, in order."""
        return chosen_entries(load_entries(self.skips, read_overlay(self.config)), self.entry)

    def families(self) -> FamilyMembers:
        """The members of each family, with what the rocwright.toml adds."""
        return families_table(read_overlay(self.config))


@Parameter(name="*")
@dataclass(frozen=True)
class PlaceOptions:
    """For which place; what is not given stays open."""

    target: Annotated[
        tuple[str, ...],
        Parameter(name=["--target", "--amdgpu-family"], negative_iterable=(), show_default=False),
    ] = ()
    """A GPU target or family, several with commas, or all; may be repeated."""

    platform: Annotated[str | None, Parameter(show_default=False)] = None
    """linux or windows."""

    torch: Annotated[str | None, Parameter(name=["--torch", "--pytorch-version"], show_default=False)] = None
    """The version of torch, such as 2.10 or that of a wheel, or all."""

    python_version: Annotated[str | None, Parameter(show_default=False)] = None
    """The version of Python, such as 3.12."""

    rocm: Annotated[str | None, Parameter(show_default=False)] = None
    """The version of ROCm, such as 7.10.0."""

    def place(self) -> Place:
        """The place; raises `UsageError` and `InvalidTarget` for what is none."""
        return asked_place(
            families_table(read_overlay()),
            targets=self.target,
            platform=self.platform,
            torch=self.torch,
            python=self.python_version,
            rocm=self.rocm,
        )


def collected_list(path: Path | None) -> Collected | None:
    """The list of tests that an option names."""
    return None if path is None else read_collected(path)


def require_one_source(collected: Path | None, pytorch_dir: Path | None) -> None:
    """Raise `UsageError` for two sources of the list of tests."""
    if collected is not None and pytorch_dir is not None:
        raise UsageError("--collected and --pytorch-dir contradict each other", next_step="give one of them")


def day_of(text: str | None, option: str) -> date:
    """A day as an option gives it, today for none; raises `UsageError`."""
    try:
        return today() if text is None else date.fromisoformat(text)
    except ValueError as error:
        raise UsageError(f"{option} {text} is not a date", next_step="write it like 2030-01-31") from error


Kind = Literal["skip", "xfail", "flaky", "hang"]

_ENTRIES, _PLACE = EntryOptions(), PlaceOptions()


@replies
def gputest_skips_show(
    *,
    entries: EntryOptions = _ENTRIES,
    place: PlaceOptions = _PLACE,
    collected: Path | None = None,
) -> Reply:
    """Show the skip entries, and whether they apply today to a GPU, version and platform.

    Parameters
    ----------
    collected
        A list of node ids, or the results.json of a run: what each entry matches of it is shown, too.
    json
        Print the entries as JSON.
    """
    found = list_entries(
        entries.entries(), entries.families(), today(), place.place(), collected_list(collected)
    )

    def show() -> None:
        if not found:
            console.say("there are no entries; --skips FILE adds your own")
            return
        rows = [
            (
                one.entry.id,
                one.entry.kind,
                one.state,
                one.where or "everywhere",
                str(one.entry.expires or ""),
                one.entry.issue,
                str(len(one.matched)) if collected else str(len(one.entry.tests)),
            )
            for one in found
        ]
        last = "tests" if collected else "patterns"
        columns = ("entry", "kind", "state", "where", "expires", "issue", last)
        console.table("Skip entries", columns, rows, right=(6,))

    return Reply(found, show)


@replies
def gputest_skips_lint(
    *,
    entries: EntryOptions = _ENTRIES,
    place: PlaceOptions = _PLACE,
    collected: Path | None = None,
    pytorch_dir: Path | None = None,
    python: Path | None = None,
) -> Iterator[Reply]:
    """Check the entries against the existing tests; exit code 9 when one is wrong.

    An entry is wrong when it matches no test, more tests than it declares or tests of several files, when it
    has expired, or when another applies to the same test in the same place. Without a list of tests only the
    entries themselves are checked.

    Parameters
    ----------
    collected
        A list of node ids (pytest --collect-only -q), or the results.json of a whole run.
    pytorch_dir
        A PyTorch checkout: the files that the entries name are collected there.
    python
        The interpreter with torch and pytest for that (default: the one that runs here).
    json
        Print the findings as JSON.
    """
    require_one_source(collected, pytorch_dir)
    chosen, families, asked = entries.entries(), entries.families(), place.place()
    judged = tuple(entry for entry in chosen if where_fits(entry.where, asked, families))
    tests = collected_list(collected)
    if pytorch_dir is not None:
        tests = TestTree.opened(pytorch_dir, python).collected(judged)
    found = lint(chosen, families, today(), place=asked, collected=tests)

    def show() -> None:
        if found.findings:
            rows = [(one.file, one.severity, one.rule, pattern_of(one), one.cause) for one in found.findings]
            console.table("", ("entry", "severity", "rule", "pattern", "what"), rows)

    yield Reply(found.as_json(), show)
    against = f"against {len(tests.ids)} tests" if tests else "without a list of tests"
    console.say(
        f"entries judged {against}: {len(judged)}; errors: {found.errors}, warnings: {found.warnings}"
    )
    if found.errors:
        raise ContractBroken(
            f"findings against skip entries: {found.errors}",
            next_step="correct the entries named above, or remove them",
        )


_SHOWN = 10


@replies
def gputest_skips_export(
    *,
    entries: EntryOptions = _ENTRIES,
    place: PlaceOptions = _PLACE,
    format_: Annotated[Literal["expression", "lists"], Parameter(name="--format")] = "expression",
    include: Annotated[bool, Parameter(name=["--include", "--include-tests"])] = False,
    collected: Path | None = None,
    output: Path | None = None,
) -> Reply:
    """Print the entries for a GPU and version as an expression for pytest's -k, or write skip lists.

    An expression matches more tests than the entries: -k looks for each word in names of tests, classes and
    files. Without entries nothing is printed. A target or version that is not given means none for an
    expression, and all for lists; the platform means this one, and all for lists.

    Parameters
    ----------
    format_
        expression, or lists: files in the format of generic.py and pytorch_2.9.py.
    include
        An expression that runs these tests and no others.
    collected
        A list of node ids: tells which other tests the expression would hit.
    output
        The directory for lists.
    json
        Print the result as JSON.
    """
    chosen, families, asked = entries.entries(), entries.families(), place.place()
    if (format_ == "lists") != (output is not None):
        raise UsageError("--format lists and --output belong together", next_step="give both or none")
    if format_ == "lists" and output is not None:
        fitting = [entry for entry in chosen if where_fits(entry.where, asked, families)]
        lists = exported(fitting, families, asked.torch)
        _say_left_out(lists.left_out)
        written = write_all_new(output, lists.files)

        def show_written() -> None:
            for path in written:
                console.out(str(path))

        return Reply(lists, show_written)
    here = closed(asked, place.target, place.torch, this_platform())
    found = expression(
        [entry for entry in chosen if where_fits(entry.where, here, families)],
        include=include,
        collected=collected_list(collected),
    )
    _say_left_out({**found.left_out, **unknown_of(chosen, here, asked, families)})
    if found.also_hit:
        shown = ", ".join(found.also_hit[:_SHOWN])
        more = f" and {len(found.also_hit) - _SHOWN} more" if len(found.also_hit) > _SHOWN else ""
        console.say(f"warning: the expression also hits {len(found.also_hit)} other tests: {shown}{more}")

    def show() -> None:
        if found.expression:
            console.out(found.expression)
        else:
            console.say("no entry applies there, so there is no expression; leave -k out")

    return Reply(found, show)


def _say_left_out(left_out: dict[str, str]) -> None:
    for name, why in left_out.items():
        console.say(f"note: {name} is left out: it {why}")


@replies
def gputest_skips_import(
    path: Path,
    /,
    *,
    collected: Path | None = None,
    kind: Kind = "skip",
    added: str | None = None,
    output: Path | None = None,
) -> Reply:
    """Read skip lists (generic.py, pytorch_2.9.py: skip_tests = {section: {module: [names]}}) as entries.

    The files are parsed, never run. Prints a file of entries for --skips.

    Parameters
    ----------
    path
        The directory with the lists, or one of them.
    collected
        A list of node ids (pytest --collect-only -q), or the results.json of a whole run: entries then name
        exact tests. Without it their patterns are wide, and each is to be narrowed.
    kind
        What the entries do.
    added
        The date to give them, such as 2026-01-31 (default: today).
    output
        Where to write the entries (default: stdout).
    json
        Print the entries, and what was odd, as JSON.
    """
    found = imported(
        read_lists(path),
        families_table(read_overlay()),
        added=day_of(added, "--added"),
        kind=kind,
        collected=collected_list(collected),
    )
    for note in found.notes:
        console.say(f"note: {note}")
    if found.wide:
        console.say(
            f"{len(found.wide)} of {len(found.entries)} entries may match more than their names say; "
            + ("give their exact tests" if collected else "--collected FILE makes them exact")
        )
    text = rendered(found.entries)
    if output is not None:
        write_new(output, text)
        console.say(f"wrote {len(found.entries)} entries to {output}")

    def show() -> None:
        if output is None:
            console.out(text.rstrip("\n"))

    return Reply(found, show)

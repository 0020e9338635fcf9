"""The record of a run: results.json beside its JUnit files, its counts, and the exit code of its tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import msgspec

from rocwright.errors import InvalidInput, see_who_may_read
from rocwright.gputest.report.junit import write_junit
from rocwright.model.testing import CaseResult, Ran, RunRecord, Verdict
from rocwright.system import files
from rocwright.system.locks import alone_in

RECORD_NAME = "results.json"
# The exit codes of pytest.
PASSED, FAILED, INTERRUPTED, NOTHING = 0, 1, 2, 5
_ORDER: tuple[Verdict, ...] = (
    *("failed", "error", "crashed", "hung", "memory", "xpassed"),
    *("flaky", "passed", "xfailed", "skipped"),
)


def record_text(record: RunRecord) -> str:
    """A record as indented JSON; equal records are equal text."""
    encoded = msgspec.json.Encoder(order="deterministic").encode(msgspec.to_builtins(record))
    return msgspec.json.format(encoded, indent=2).decode() + "\n"


def writing_alone(directory: Path) -> AbstractContextManager[None]:
    """Keep other runs out of the directory of a record: the later of two would replace the earlier.

    Raises `UsageError` when another run is in it.
    """
    return alone_in(directory, "writes its record here", "give this one --reports-dir, or wait for that one")


def write_record(record: RunRecord, directory: Path) -> Path:
    """Write the JUnit files and then results.json, which says that all is there; returns its path.

    What an earlier run left under these names is replaced.
    """
    files.make_directory(directory)
    path = directory / RECORD_NAME
    # Beside new JUnit files the old record would be read as theirs.
    path.unlink(missing_ok=True)
    write_junit(record, directory)
    files.write_text(path, record_text(record))
    return path


def read_record(path: Path) -> RunRecord:
    """Read a results.json; raises `InvalidInput` for a file that is missing, cut off or of another form."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunRecord)
    except OSError as error:
        raise InvalidInput(
            f"{path} cannot be read: {error.strerror}", where=path, next_step=see_who_may_read(path)
        ) from error
    except msgspec.DecodeError as error:
        raise InvalidInput(
            f"{path} is not a record of a test run: {error}",
            where=path,
            next_step="run the tests again; an interrupted copy or upload leaves such files",
        ) from error


def run_of_broken(path: Path) -> Ran | None:
    """Which run a results.json is of that `read_record` refuses; None where that is lost, too."""
    with suppress(OSError, ValueError, msgspec.ValidationError):
        _, found, rest = path.read_text(encoding="utf-8", errors="replace").partition('"ran":')
        # Quotes inside a text are escaped: this can only be the field.
        if found:
            return msgspec.convert(json.JSONDecoder().raw_decode(rest.lstrip())[0], Ran)
    return None


def counts(results: tuple[CaseResult, ...]) -> dict[str, int]:
    """How many results there are of each verdict that occurs, the bad ones first."""
    found = [result.verdict for result in results]
    return {verdict: found.count(verdict) for verdict in _ORDER if verdict in found}


def exit_status(records: Sequence[RunRecord]) -> int:
    """0 passed, 1 failed, 2 stopped before the end, 5 nothing ran; of several targets the worst counts.

    A target on which nothing ran is no pass, whatever the others showed.
    """
    found = [_status_of(record) for record in records] or [NOTHING]
    return next(status for status in (FAILED, INTERRUPTED, NOTHING, PASSED) if status in found)


def _status_of(record: RunRecord) -> int:
    if record.bad:
        return FAILED
    if not record.complete:
        return INTERRUPTED
    return PASSED if record.results else NOTHING

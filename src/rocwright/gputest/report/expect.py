"""Which runs have to report: from a plan, a matrix, counts of shards, or the reports themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from rocwright.errors import InvalidData, UsageError
from rocwright.gputest.report.values import Expected, Report
from rocwright.model.testing import Ran

# Nothing has more shards: a larger number is a date, or nonsense.
MOST_SHARDS = 9999
_COUNT = re.compile(r"(?P<config>[A-Za-z0-9][\w.-]*)=(?P<count>[0-9]{1,4})")
_ID = re.compile(r"[A-Za-z0-9][\w.:+-]*")
_FORMS = "give the JSON file of `rocwright test plan --json`, the id of a run, or CONFIG=SHARDS"


def parse_expected(texts: Sequence[str]) -> tuple[Expected, ...]:
    """Runs from the command line: JSON files of a plan or matrix, ids, or counts such as `default=6`.

    Raises `UsageError` for text of no such form, and `InvalidData` for a file that names no run.
    """
    found: list[Expected] = []
    for text in texts:
        count = _COUNT.fullmatch(text)
        if Path(text).is_file():
            found += _from_file(Path(text))
        elif count is not None:
            if int(count["count"]) < 1:
                raise UsageError(f"--expect {text} expects nothing", next_step="shards count from 1")
            found += _shards(count["config"], int(count["count"]))
        elif _ID.fullmatch(text) and not text.endswith(".json"):
            found.append(Expected(text))
        else:
            raise UsageError(f"--expect {text}: there is no such file, and it is no id", next_step=_FORMS)
    return tuple(dict.fromkeys(found))


def _shards(config: str, count: int) -> list[Expected]:
    return [
        Expected(f"{config}-{number}of{count}", config=config, shard=number, shards=count)
        for number in range(1, count + 1)
    ]


def _from_file(path: Path) -> list[Expected]:
    try:
        text = path.read_text(encoding="utf-8").strip()
        value = json.loads(text.removeprefix("matrix="))
    except (OSError, UnicodeDecodeError, json.JSONDecodeError) as error:
        raise InvalidData(f"{path} cannot be read: {error}", where=path, next_step=_FORMS) from error
    rows = value
    if isinstance(value, dict):
        rows = next((value[key] for key in ("jobs", "include", "shards") if key in value), None)
    if not isinstance(rows, list) or not rows:
        raise InvalidData(f"{path} names no run: it has no list of jobs", where=path, next_step=_FORMS)
    return list(_rows(rows, path))


def _rows(rows: list[Any], path: Path) -> Iterator[Expected]:
    for number, row in enumerate(rows):
        if isinstance(row, str) and row:
            yield Expected(row)
            continue
        try:
            yield _row(row)
        except (AttributeError, TypeError, ValueError) as error:
            raise InvalidData(
                f"{path}: job {number + 1} is no run: it has neither an id nor a configuration and shard",
                where=path,
                next_step=_FORMS,
            ) from error


def _row(row: dict[str, Any]) -> Expected:
    config = str(row.get("config") or row.get("test_config") or "")
    shard, shards = int(row.get("shard") or 0), int(row.get("shards") or row.get("num_shards") or 0)
    given = row.get("id")
    if not given and not (config and shard):
        raise ValueError
    return Expected(
        id=str(given or f"{config}-{shard}of{shards}"),
        suite=str(row.get("suite") or ""),
        config=config,
        target=str(row.get("target") or ("cpu" if "target" in row else "")),
        shard=shard,
        shards=shards,
    )


def matches(expected: Expected, report: Report) -> bool:
    """Whether the report is that of the expected run: by a name, or by all that is known of it."""
    if expected.id in report.names:
        return True
    ran = report.ran
    # Smoke tests are planned as one job and run as two suites.
    suite = expected.suite if ran.suite.startswith(f"{expected.suite}-") else ran.suite
    pairs = (
        (expected.suite, suite),
        (expected.config, ran.config),
        (expected.target, ran.target or "cpu"),
        (expected.shard, ran.shard),
        (expected.shards, ran.shards),
    )
    told = [(wanted, is_) for wanted, is_ in pairs if wanted]
    return bool(expected.config and expected.shard) and all(wanted == is_ for wanted, is_ in told)


def missing(expected: Sequence[Expected], found: Sequence[Report]) -> tuple[Expected, ...]:
    """The expected runs that no report is of."""
    return tuple(one for one in expected if not any(matches(one, report) for report in found))


def implied(found: Sequence[Report]) -> tuple[Expected, ...]:
    """Shards that are missing by what reports say of themselves: 2 of 6 is one of six."""
    kinds: dict[Ran, dict[int, Report]] = {}
    for report in found:
        kind = msgspec.structs.replace(report.ran, shard=1, attempt=1)
        kinds.setdefault(kind, {})[report.ran.shard] = report
    wanted: list[Expected] = []
    for kind, held in kinds.items():
        name = next(iter(held.values())).name
        for number in range(1, min(kind.shards, MOST_SHARDS) + 1):
            if number not in held:
                own = re.sub(r"\d+of\d+", f"{number}of{kind.shards}", name)
                wanted.append(Expected(own, kind.suite, kind.config, kind.target, number, kind.shards))
    return tuple(dict.fromkeys(wanted))

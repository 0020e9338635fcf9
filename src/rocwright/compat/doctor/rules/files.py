"""The rule about files: is everything there, and as it was installed?"""

from __future__ import annotations

from collections.abc import Iterator

from rocwright.compat.doctor import mend
from rocwright.compat.doctor.facts import Case
from rocwright.compat.doctor.values import Finding

_SHOWN = 3


def files(case: Case) -> Iterator[Finding]:
    """Distributions with files that differ from RECORD, or one finding that all are whole."""
    environment = case.environment
    assert environment is not None
    bad = 0
    for one in environment.family:
        if not one.recorded:
            detail = f"{one.name} {one.version} has no RECORD: its files cannot be compared"
            yield Finding("files", "note", detail, mend.reinstall(case, one), one.name, "environment")
        if not one.bad_files:
            continue
        bad += 1
        shown = ", ".join(f"{problem.path} is {problem.kind}" for problem in one.problems[:_SHOWN])
        more = one.bad_files - len(one.problems[:_SHOWN])
        detail = f"{one.name} {one.version}: {shown}" + (f" and {more} more" if more else "")
        gone = all(problem.kind == "missing" for problem in one.problems)
        yield Finding(
            "files",
            "missing" if gone else "wrong",
            detail,
            mend.reinstall(case, one),
            one.name,
            "environment",
        )
    if environment.family and not bad:
        detail = (
            f"no file of {', '.join(sorted({one.name for one in environment.family}))} is missing or changed"
        )
        yield Finding("files", "ok", detail, section="environment")

"""Where two emulators disagree about what was tested."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from rocwright.model.testing import RunRecord, Verdict


def disagreements(records: Sequence[RunRecord]) -> tuple[str, ...]:
    """A line for each test that one emulator lets pass and another does not, or one that there is none.

    A test that was skipped under one of them is none of that.
    """
    found: dict[tuple[str, str], dict[str, Verdict]] = {}
    for record in records:
        if record.emulation is None:
            continue
        name = f"{record.emulation.name} {record.emulation.version or record.emulation.digest[:12]}"
        for case in record.results:
            found.setdefault((record.ran.suite, case.id), {})[name] = case.verdict
    lines = tuple(_differing(found.items()))
    both = sum(len(verdicts) > 1 for verdicts in found.values())
    return lines or (f"the emulators agree about {both} tests that both were asked",)


def _differing(found: Iterable[tuple[tuple[str, str], dict[str, Verdict]]]) -> Iterator[str]:
    for (_, test), verdicts in found:
        judged = {name: one for name, one in verdicts.items() if one not in ("skipped", "xfailed")}
        if len({one in ("passed", "flaky") for one in judged.values()}) > 1:
            told = ", ".join(f"{one} under {name}" for name, one in judged.items())
            yield f"the emulators disagree about {test}: {told}"

"""Where two emulators disagree about what was tested."""

from __future__ import annotations

from collections.abc import Sequence

from rocwright.emulator.report import disagreements
from rocwright.model.testing import RunRecord

# Neither speaks for nor against what was tested.
_ASIDE = ("skipped", "xfailed")


def told_apart(records: Sequence[RunRecord]) -> tuple[str, ...]:
    """A line for each test that one emulator lets pass and another does not, or one that there is none.

    `records` are those of several emulators, told apart by their configuration. A test that was skipped under
    one of them, or not asked, is none of that.
    """
    named: dict[str, dict[str, str]] = {}
    for record in records:
        if record.emulation is not None:
            states = named.setdefault(f"{record.emulation.name} ({record.ran.config})", {})
            states |= {one.id: one.verdict for one in record.results if one.verdict not in _ASIDE}
    both = set.intersection(*map(set, named.values())) if named else set()
    shared = {label: {test: states[test] for test in sorted(both)} for label, states in named.items()}
    lines = []
    for test, states in disagreements(shared):
        told = ", ".join(f"{state} under {label}" for label, state in states.items())
        lines.append(f"the emulators disagree about {test}: {told}")
    return tuple(lines) or (f"the emulators agree about {len(both)} tests",)

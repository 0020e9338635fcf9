"""Keeps what tests showed: attempts become one result, secrets are left out, the order is the files'."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from rocwright.gputest.isolate.plan import Isolation
from rocwright.gputest.isolate.schedule import Schedule
from rocwright.gputest.report.merge import of_attempts, worse_of
from rocwright.model.testing import CaseResult, Verdict
from rocwright.system.files import atomic_write


class Outcomes:
    """The results of a run, one for each test and for each file that gave none.

    `bad` counts those that are settled and speak against the wheels; `reason` is why tests were not run.
    """

    def __init__(
        self,
        plan: Isolation,
        files: Sequence[str],
        tell: Callable[[CaseResult], None] | None,
        secrets: Sequence[str],
    ) -> None:
        self._reruns = plan.reruns
        # A test that is known to vary has at least one more attempt.
        self._flaky = {entry.id for entry in plan.entries if entry.kind == "flaky"}
        self._files = {name: number for number, name in enumerate(files)}
        self._tell = tell
        self._secrets = secrets
        self._attempts: dict[tuple[str, int], list[CaseResult]] = {}
        self._results: dict[str, CaseResult] = {}
        self.bad = 0
        self.reason = ""

    def attempt(self, file: str, index: int, case: CaseResult) -> bool:
        """Note an attempt; whether the test is to be run again."""
        earlier = self._attempts.setdefault((file, index), [])
        earlier.append(case)
        entry = next((one.entry for one in earlier if one.entry), "")
        allowed = max(self._reruns, 1 if entry in self._flaky else 0)
        if case.bad and len(earlier) <= allowed:
            return True
        self.add(of_attempts(earlier))
        del self._attempts[file, index]
        return False

    def settle(self) -> None:
        """What was to run again and was not, counts as it is."""
        for attempts in self._attempts.values():
            self.add(of_attempts(attempts))
        self._attempts.clear()

    def of_file(self, file: str, verdict: Verdict, message: str, detail: str, seconds: float) -> None:
        """A file that could not be collected, or not whole."""
        self.add(CaseResult(file, verdict, round(seconds, 3), message, detail))

    def late(self, file: str, index: int, ids: Sequence[str], message: str, detail: str) -> None:
        """What belongs to the session failed to end: an error of the last test."""
        del file
        self.add(CaseResult(ids[index], "error", message=f"teardown: {message}", detail=detail))

    def add(self, case: CaseResult) -> None:
        """Note a result; of several for one id the worst counts."""
        case = msgspec.structs.replace(
            case, message=self._clean(case.message), detail=self._clean(case.detail)
        )
        before = self._results.get(case.id)
        if before is not None:
            case = worse_of(before, case)
        self.bad += case.bad - (before is not None and before.bad)
        self._results[case.id] = case
        if self._tell is not None:
            self._tell(case)

    def _clean(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def sorted(self, schedule: Schedule) -> tuple[CaseResult, ...]:
        """In the order of the files, a file's own result first, then its tests as they were collected."""
        order: dict[str, tuple[int, int]] = {}
        for file, number in self._files.items():
            order[file] = (number, -1)
            order |= {name: (number, index) for index, name in enumerate(schedule.ids(file))}
        behind = len(order)
        return tuple(
            sorted(
                self._results.values(),
                key=lambda case: (order.get(case.id, (self._files.get(case.file, behind), behind)), case.id),
            )
        )

    def hide_secrets(self, logs: Path) -> None:
        """Leave secrets out of the workers' logs, which nobody else reads."""
        if not self._secrets:
            return
        for log in sorted(logs.glob("worker-*.log")):
            with contextlib.suppress(OSError):
                before = data = log.read_bytes()
                for secret in self._secrets:
                    data = data.replace(secret.encode(), b"***")
                if data != before:
                    with atomic_write(log) as stream:
                        stream.write(data)

"""Progress of a test run as pytest shows it: a letter for each test, a line for each that is bad."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rocwright.model.testing import CaseResult, Verdict

_LETTERS: dict[Verdict, str] = {
    "passed": ".",
    "failed": "F",
    "error": "E",
    "crashed": "C",
    "hung": "H",
    "memory": "M",
    "xpassed": "X",
    "flaky": "f",
    "xfailed": "x",
    "skipped": "s",
}
_WIDTH = 72
_ORDER: tuple[Verdict, ...] = (
    *("failed", "error", "crashed", "hung", "memory", "xpassed"),
    *("flaky", "passed", "xfailed", "skipped"),
)


# What of pytest's own options asks for a line for each test, and for what tests print or log.
_EACH = re.compile(r"-[qvsxl]*v[qvsxl]*|--verbose|--verbosity=[1-9]\d*")
_LIVE = re.compile(r"-[qvsxl]*s[qvsxl]*|--capture=no|--log-cli-level(=.*)?|(-o|--override-ini=)log_cli=.*")
_PRINTED = "\n\nPrinted:\n"


@dataclass
class Teller:
    """Collects results, by file, and says a line when it is full; bad results are said at once.

    With `each` there is a line for every test, with `live` what each printed or logged, below its line.
    """

    say: Callable[[str], None]
    each: bool = False
    live: bool = False
    count: int = 0
    _letters: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, say: Callable[[str], None], pytest_args: Sequence[str]) -> Teller:
        """One that says as much as these options for pytest ask for."""
        words = " ".join(pytest_args).replace("-o log_cli", "-olog_cli").split()
        return cls(say, any(map(_EACH.fullmatch, words)), any(map(_LIVE.fullmatch, words)))

    def take(self, result: CaseResult) -> None:
        """One result."""
        self.count += 1
        printed = result.detail.partition(_PRINTED)[2] if self.live else ""
        if result.bad or result.verdict == "flaky" or self.each or printed:
            message = f": {result.message}" if result.message and result.verdict != "passed" else ""
            self.say(f"{result.verdict.upper()} {result.id}{message}")
        for line in filter(str.strip, printed.splitlines()):
            self.say(f"  {line}")
        if self.each:
            return
        letters = self._letters.get(result.file, "") + _LETTERS[result.verdict]
        self._letters[result.file] = letters
        if len(letters) >= _WIDTH:
            self._flush(result.file)

    def close(self) -> None:
        """Say what is left."""
        for file in tuple(self._letters):
            self._flush(file)

    def _flush(self, file: str) -> None:
        letters = self._letters.pop(file, "")
        if letters:
            self.say(f"{file} {letters} [{self.count}]")


def counts(results: tuple[CaseResult, ...]) -> dict[str, int]:
    """How many results there are of each verdict that occurs, the bad ones first."""
    order = (
        "failed",
        "error",
        "crashed",
        "hung",
        "memory",
        "xpassed",
        "flaky",
        "passed",
        "xfailed",
        "skipped",
    )
    found = [result.verdict for result in results]
    return {verdict: found.count(verdict) for verdict in order if verdict in found}

"""For all tests: signals as a terminal gives them, and a report that fits on a screen.

What a shell starts in the background, or under nohup, ignores Ctrl-C or the end of the terminal, and so do
its children: commands that a test interrupts would go on for ever.

Errors are told whole, as in CI: what a test looks for may stand behind the lines that people see without -v.

Where all takes too long, `--share 1/2` takes every second file, and `--share 2/2` the others.

With -q a run says a line for each tenth of its tests and for each that failed, instead of a letter for each
test, and sums up at the end what it skipped for want of what.
"""

from __future__ import annotations

import gc
import re
import signal
import threading
import time
from collections.abc import Generator, Iterator
from functools import partial
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import command_line
from needs import wanting

# By default an example of a property that takes 200 ms, or data that is slow to make, fails the test.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")

if threading.current_thread() is threading.main_thread():
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for _name in ("SIGHUP", "SIGQUIT"):
        if hasattr(signal, _name):
            signal.signal(getattr(signal, _name), signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is made while tests are collected stays: no garbage is looked for in it, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session", autouse=True)
def errors_are_told_whole() -> Iterator[None]:
    """Set only when all is collected: imported in CI, Hypothesis chooses its examples otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CI", "true")
        yield


@pytest.fixture(scope="session", autouse=True)
def stores_may_be_lost() -> Iterator[None]:
    """Stores of tests are thrown away: only those that are about power cuts wait for the disk."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ROCWRIGHT_STORE_SYNC", "0")
        yield


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--share", metavar="K/N", help="of the files with tests, the Kth and each Nth after it")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What markers leave, in its order: files that take longest are first, and shared out evenly."""
    if (asked := config.getoption("--share")) is None:
        return
    if (parts := re.fullmatch(r"(\d+)/(\d+)", asked)) is None or not 0 < int(parts[1]) <= int(parts[2]):
        raise pytest.UsageError(f"--share takes K/N with K from 1 to N, as in 1/2, and not {asked!r}")
    first, step = int(parts[1]) - 1, int(parts[2])
    mine = set(list(dict.fromkeys(item.path for item in items))[first::step])
    config.hook.pytest_deselected(items=[item for item in items if item.path not in mine])
    items[:] = [item for item in items if item.path in mine]


class Tenths:
    """Says how far the run is."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self.reporter, self.begun, self.done, self.said = reporter, time.monotonic(), 0, 0

    def pytest_report_teststatus(self, report: pytest.TestReport) -> tuple[str, str, str] | None:
        if report.passed and report.when != "call":
            return None
        if report.failed:
            return ("failed", "", "FAILED") if report.when == "call" else ("error", "", "ERROR")
        return report.outcome, "", ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._say(f"failed  {report.nodeid}")

    def pytest_runtest_logfinish(self) -> None:
        self.done += 1
        session = self.reporter._session
        tenths = self.done * 10 // max(session.testscollected if session else 0, self.done, 1)
        if tenths > self.said:
            self.said = tenths
            seconds = time.monotonic() - self.begun
            self._say(f"{tenths * 10:>4} %  {self.done:>6} tests  {seconds:>4.0f} s")

    def _say(self, line: str) -> None:
        self.reporter.ensure_newline()
        self.reporter.write_line(line)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    reporter = config.pluginmanager.get_plugin("terminalreporter")
    if reporter is not None and config.option.verbose < 0:
        config.pluginmanager.register(Tenths(reporter))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = [report.longrepr[2].removeprefix("Skipped: ") for report in skipped]
    for line in wanting(reasons):
        terminalreporter.write_line(line)
    # What .ci/run runs again where nothing is missing.
    if (cache := getattr(terminalreporter.config, "cache", None)) is not None:
        names = sorted({report.nodeid for report in skipped})
        (cache.mkdir("skipped") / "tests.txt").write_text("".join(f"{name}\n" for name in names))


@pytest.fixture
def rocwright(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> command_line.Run:
    """Types a command in an empty directory, in this process, which keeps its own signals."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ROCWRIGHT_STORE", raising=False)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    return partial(command_line.run, capsys)

"""The pytest session of a worker: collects files and runs tests as it is told, and says what each showed."""

from __future__ import annotations

import contextlib
import faulthandler
import os
import re
import sys
import time
from collections import deque
from typing import TYPE_CHECKING, Any

import pytest
import rocwright_outcome

if TYPE_CHECKING:
    from rocwright_worker import Connection

# What may stand in PYTEST_ADDOPTS or in settings and is for somebody at a terminal, or for a whole session.
_WHOLE: dict[str, Any] = {
    "dist": "no",
    "tx": [],
    "numprocesses": None,
    "xmlpath": None,
    "usepdb": False,
    "trace": False,
    "setuponly": False,
    "setupplan": False,
}


class WorkerPlugin:
    """The plugin: commands in, results out. Files are collected one at a time, when they are asked for."""

    def __init__(self, line: Connection, log: int, directories: int) -> None:
        self._line = line
        self._log = log
        self._log_at_first = os.fstat(log)
        self._directories = directories
        self._items: dict[str, list[Any]] = {}
        self._queue: deque[tuple[str, int]] = deque()
        self._last = self._ending = self._on_gpu = False
        self._reports: list[Any] = []
        self._problems: list[Any] = []
        self._deselected = 0
        self._maxfail = 0
        self._extra: list[str] = []
        self._output = sys.stdout
        self._plain_output = False
        self._directory: dict[Any, Any] = {}
        self._live = False
        self._since = 0
        self._printed: list[tuple[int, int]] = []

    @pytest.hookimpl(tryfirst=True)
    def pytest_configure(self, config: Any) -> None:
        """Take away the settings that act on a whole session: this is a part of it."""
        option = config.option
        self._live = _live(config)
        self._maxfail = getattr(option, "maxfail", 0)
        option.maxfail = 0
        for name, value in _WHOLE.items():
            if hasattr(option, name):
                setattr(option, name, value)

    def pytest_sessionstart(self, session: Any) -> None:
        """Let pytest collect nothing of its own accord."""
        config = session.config
        self._extra = list(config.args[: len(config.args) - self._directories])
        # pytest collects what is named here before it asks for the loop.
        config.args = []
        for name in ("lfplugin", "nfplugin", "stepwiseplugin"):
            if (plugin := config.pluginmanager.get_plugin(name)) is not None:
                config.pluginmanager.unregister(plugin)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True, optionalhook=True)
    def pytest_collect_directory(self, path: Any) -> Any:
        """Give every collection the same directories: pytest 9.1 ties fixtures to them."""
        outcome = yield
        if (made := outcome.get_result()) is not None:
            outcome.force_result(self._directory.setdefault(path, made))

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_collection_finish(self, session: Any) -> Any:
        """Keep what pytest 9.1 forgets at the end: a conftest.py that a later file is below."""
        pending = getattr(session._fixturemanager, "_pending_conftests", {})
        kept = dict(pending)
        yield
        pending.update(kept)

    def pytest_collectreport(self, report: Any) -> None:
        """Keep what could not be collected."""
        if report.outcome != "passed":
            self._problems.append(report)

    def pytest_deselected(self, items: Any) -> None:
        """Count what pytest's own options leave out."""
        self._deselected += len(items)

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_logstart(self) -> Any:
        """What stands behind the test's name in the log is the test's."""
        yield
        self._since = self._log_end()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_logreport(self, report: Any) -> Any:
        """Keep the parts of the present test, and where in the log it printed."""
        self._reports.append(report)
        self._printed.append((self._since, self._log_end()))
        yield
        self._since = self._log_end()

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: Any) -> Any:
        """Undo what the test itself does to the current directory."""
        # Not what its fixtures did: they may change it for many tests.
        before = _here()
        yield
        if before is not None and _here() != before:
            os.chdir(before)
        self._mend()

    def pytest_runtestloop(self, session: Any) -> bool:
        """Obey until told to end."""
        self._plain_output = sys.stdout is self._output
        if self._plain_output:
            # pytest keeps the stream that it was started with: tests get another, which they may close.
            sys.stdout = sys.__stdout__
        self._line.say(
            "hello", {"maxfail": self._maxfail, "extra": self._extra, "pytest": pytest.__version__}
        )
        self._line.flush()
        while not self._ending:
            self._obey(session)
            if len(self._queue) > 1 or (self._queue and self._last):
                self._run(session, *self._queue.popleft())
        self._tear_down(session)
        return True

    def _obey(self, session: Any) -> None:
        """Take commands until there is something to run, and those that wait already."""
        while not self._ending:
            ready = len(self._queue) > 1 or bool(self._queue and self._last)
            if not ready:
                self._line.flush()
            command = self._line.hear(wait=not ready)
            if command is None:
                return
            what, *rest = command
            if what == "collect":
                self._collect(session, *rest)
            elif what == "run":
                name, indices, self._last = rest
                self._queue.extend((name, index) for index in indices)
            elif what == "last":
                self._last = True
            elif what == "probe":
                self._probe(load=True)
            else:
                self._queue.clear()
                self._ending = True

    def _collect(
        self, session: Any, name: str, specs: list[str], only: list[str] | None, leave: list[str]
    ) -> None:
        self._problems, self._deselected = [], 0
        root = session.config.invocation_params.dir
        failure: tuple[str, str] | None = None
        os.chdir(root)
        try:
            found = session.perform_collect([str(root / spec) for spec in specs], genitems=True)
        except pytest.UsageError as error:
            found, failure = [], rocwright_outcome.of_error(error, plain=True)
        except BaseException as error:
            found, failure = [], rocwright_outcome.of_error(error)
        wanted, unwanted = None if only is None else set(only), set(leave)
        met: set[str] = set()
        items: list[Any] = []
        ids: list[str] = []
        seen: set[str] = set()
        for item in found:
            node = rocwright_outcome.node_id(item, str(root))
            around = rocwright_outcome.around(node)
            if node in seen or (wanted is not None and wanted.isdisjoint(around)):
                continue
            met.update(around)
            if not unwanted.isdisjoint(around):
                continue
            seen.add(node)
            items.append(item)
            ids.append(node)
        self._items[name] = items
        problems = [rocwright_outcome.of_collect(report) for report in self._problems]
        if failure is not None:
            problems.append(("error", *failure))
        left_out = self._deselected + len(found) - len(items)
        absent = sorted((wanted or set()) - met)
        self._line.say("collected", name, ids, left_out, problems, absent)
        self._line.flush()

    def _run(self, session: Any, name: str, index: int) -> None:
        item = self._items[name][index]
        # What comes next decides what is torn down; nobody knows yet: all but what the session owns.
        after = self._items[self._queue[0][0]][self._queue[0][1]] if self._queue else _rest(session)
        if not faulthandler.is_enabled():
            faulthandler.enable(file=self._log, all_threads=True)
        at = self._log_end()
        self._reports, self._printed = [], []
        self._line.say("start", name, index, at)
        self._line.flush()
        began = time.perf_counter()
        problem: BaseException | None = None
        try:
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
        except BaseException as error:
            problem = error
            self._abandon(session)
        seconds = round(time.perf_counter() - began, 6)
        verdict, message, detail, entry, attempts = rocwright_outcome.of_test(self._reports, problem)
        self._mend()
        if self._live or verdict in ("failed", "error"):
            spans = self._printed if problem is None else [(at, self._log_end())]
            detail = rocwright_outcome.with_output(detail, self._log, spans)
        self._say_gpu()
        self._line.say("done", name, index, verdict, seconds, message, detail, entry, attempts)
        if verdict in ("failed", "error") and self._on_gpu:
            self._line.flush()
            self._probe(load=False)

    def _log_end(self) -> int:
        return os.lseek(self._log, 0, os.SEEK_END)

    def _abandon(self, session: Any) -> None:
        """Take down what an exception left set up that went past pytest."""
        with contextlib.suppress(BaseException):
            session._setupstate.teardown_exact(None)

    def _tear_down(self, session: Any) -> None:
        """What belongs to the session; its failure counts as the last test's, as in plain pytest."""
        try:
            session._setupstate.teardown_exact(None)
        except BaseException as error:
            self._line.say("late", *rocwright_outcome.of_error(error))
            self._line.flush()

    def _mend(self) -> None:
        """Give the next test a standard output that works; where the log is gone, none can."""
        if not self._has_log():
            self._line.give_up()
        if not self._plain_output:
            return
        for number in (1, 2):
            if not _same(number, self._log):
                os.dup2(self._log, number)
        for name, number in (("stdout", 1), ("stderr", 2)):
            if getattr(sys, name) is None or getattr(sys, name).closed:
                stream = open(number, "w", encoding="utf-8", buffering=1, closefd=False)  # noqa: SIM115
                setattr(sys, name, stream)

    def _has_log(self) -> bool:
        try:
            return os.path.samestat(os.fstat(self._log), self._log_at_first)
        except OSError:
            return False

    def _say_gpu(self) -> None:
        if not self._on_gpu and "torch" in sys.modules and _initialized(sys.modules["torch"]):
            self._on_gpu = True
            self._line.say("gpu")

    def _probe(self, *, load: bool) -> None:
        """Whether the GPU still answers; after a fault it never does again in this process."""
        self._line.say("probing")
        self._line.flush()
        try:
            if load:
                import torch

                if torch.cuda.is_available():
                    (torch.ones(8, device="cuda") + 1).sum().item()
            sys.modules["torch"].cuda.synchronize()
        except Exception as error:
            # Without torch there is nothing to ask; the tests will say so.
            missing = isinstance(error, ImportError)
            self._line.say(*(["well"] if missing else ["sick", rocwright_outcome.one_line(f"{error}")]))
        else:
            self._line.say("well")
        self._line.flush()


def _live(config: Any) -> bool:
    """Whether what tests log or print is wanted of those that pass, too."""
    # The coordinator gives --capture=no itself, once.
    given = config.invocation_params.args
    if any(re.fullmatch("-[qvsxl]*s[qvsxl]*", one) for one in given) or given.count("--capture=no") > 1:
        return True
    return config.getoption("log_cli_level", None) is not None or bool(config.getini("log_cli"))


def _initialized(torch: Any) -> bool:
    try:
        return bool(torch.cuda.is_initialized())
    except Exception:
        return False


def _rest(session: Any) -> Any:
    """A test below the session itself: with it next, files, classes and packages are torn down."""

    class Rest(pytest.Item):
        def runtest(self) -> None:
            raise AssertionError

    return Rest.from_parent(session, name="rest")


def _here() -> str | None:
    try:
        return os.getcwd()  # noqa: PTH109 - twice for each test
    except OSError:
        return None


def _same(one: int, other: int) -> bool:
    try:
        return os.path.sameopenfile(one, other)
    except OSError:
        return False

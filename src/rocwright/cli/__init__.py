"""The command line as the user sees it: commands by group; each parses, calls, and replies with a value.

This file is the whole list of them, and the door that every call comes through. It imports no parser: help
and version are said without one.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType

from rocwright import __version__
from rocwright.errors import Interrupted, InvalidInput, NoSpace, RocwrightError, UsageError
from rocwright.system import console


@dataclass(frozen=True)
class CommandGroup:
    """Commands under a word: by heading of its help and by name, the function in a module of this room."""

    help: str
    commands: Mapping[str, Mapping[str, str | CommandGroup]]

    def named(self) -> Iterator[tuple[str, str | CommandGroup]]:
        """Every command and group in it, whatever heading it stands below."""
        for commands in self.commands.values():
            yield from commands.items()


# Below these stands what jobs and scripts call, not people.
_CI, _SCRIPTS = "For CI jobs", "For documented scripts"
_WHEEL = CommandGroup(
    "Inspect, split and change finished wheels.",
    {
        "Commands": {
            "show": "wheel.show:show",
            "split": "wheel.split:split",
            "merge-parts": "wheel.split:parts",
            "fat": "wheel.fat:fat",
            "reversion": "wheel.reversion:reversion",
        },
        _CI: {
            "sanity-check": "wheel.family:sanity_check",
            "torch-versions": "wheel.family:torch_versions",
            "cp-version": "wheel.family:cp_version",
        },
    },
)
_KPACK = CommandGroup(
    "Split device code out of libraries and wheels, list, extract, merge and verify it.",
    {
        "Commands": {
            "split": "kpack:split",
            "merge": "kpack:merge",
            "verify": "kpack:verify",
            "list": "kpack:list_",
            "show": "kpack:show",
            "extract": "kpack:extract",
        }
    },
)
_SOURCES = CommandGroup(
    "Lock the commits of the PyTorch family, compare locks, save patches.",
    {
        "Commands": {
            "lock": "sources:lock",
            "show": "sources:show",
            "diff": "sources:diff",
            "save-patches": "sources:save",
        },
        _SCRIPTS: {
            "manifest": "manifest:sources_manifest",
            "checkout-manifest": "manifest:sources_checkout_manifest",
        },
    },
)
_SDK = CommandGroup(
    "Make Python packages of ROCm.",
    {
        "Commands": {
            "import": "sdk:import_",
            "build": "sdk:build",
            "fetch": "sdk:fetch_",
            "unpack": "sdk:unpack_",
        },
        _CI: {"compute-version": "sdk:compute_version"},
    },
)
_SKIPS = CommandGroup(
    "Skip entries: show, check, rerun, port, import, export.",
    {
        "Commands": {
            "show": "gputest.skips:gputest_skips_show",
            "lint": "gputest.skips:gputest_skips_lint",
            "audit": "gputest.rerun:gputest_skips_audit",
            "port": "gputest.rerun:gputest_skips_port",
            "import": "gputest.skips:gputest_skips_import",
            "export": "gputest.skips:gputest_skips_export",
        }
    },
)
_TEST = CommandGroup(
    "Test wheels on GPUs: smoke tests, PyTorch's tests, skip entries, reports.",
    {
        "Commands": {
            "smoke": "gputest.smoke:gputest_smoke",
            "units": "gputest.pytorch:gputest_units",
            "full": "gputest.pytorch:gputest_full",
            "calibrate": "gputest.emulated:gputest_calibrate",
            "kernels": "gputest.emulated:gputest_kernels",
            "plan": "gputest.shards:gputest_plan",
            "report": "gputest.report:gputest_report",
            "skips": _SKIPS,
        },
        _CI: {
            "setup-venv": "gputest.setup_venv:gputest_setup_venv",
            "matrix": "gputest.shards:gputest_matrix",
            "durations": "gputest.shards:gputest_durations",
            "summarize": "gputest.report:gputest_summarize",
        },
    },
)
_COMPAT = CommandGroup(
    "Look up what PyTorch on ROCm supports, and try what an installed torch can do.",
    {
        "Commands": {
            "show": "compat.claims:compat_show",
            "query": "compat.claims:compat_query",
            "probe": "compat.probe:compat_probe",
        }
    },
)
_SET = CommandGroup(
    "Record, compare, verify, promote, withdraw and search sets of wheels.",
    {
        "Sets": {
            "create": "set.create:set_create",
            "list": "set.look:set_list",
            "show": "set.look:set_show",
            "diff": "set.look:set_diff",
            "lock": "set.look:set_lock",
            "verify": "set.statements:set_verify",
            "state": "set.statements:set_state",
            "sign": "set.statements:set_sign",
            "attest": "set.attest:set_attest",
            "reversion": "set.create:set_reversion",
        },
        "Channels": {
            "promote": "set.channel:set_promote",
            "rollback": "set.channel:set_rollback",
            "log": "set.look:set_log",
            "bisect": "set.bisect:set_bisect",
            "repair": "set.channel:set_repair",
            "project": "set.attest:set_project",
        },
        "What is kept": {"pin": "set.channel:set_pin", "gc": "set.channel:set_gc"},
    },
)
_STORE = CommandGroup(
    "Probe and serve a store, upload and fetch the packages of runs.",
    {
        "Stores and their pages": {
            "probe": "store.pages:store_probe",
            "verify": "store.pages:store_verify",
            "serve": "store.pages:store_serve",
            "landing": "store.pages:store_landing",
            "index": "store.pages:store_index",
        },
        "Keys": {
            "trust": CommandGroup(
                "Show, change and use the keys that channels trust.",
                {
                    "Commands": {
                        "show": "store.trust:trust_show",
                        "rotate": "store.trust:trust_rotate",
                        "sign": "store.trust:trust_sign",
                    }
                },
            ),
        },
        "Runs": {"fetch": "store.fetch:store_fetch", "upload": "store.upload:store_upload"},
        _CI: {"policy": "store.upload:store_policy"},
        _SCRIPTS: {
            "artifacts": CommandGroup(
                "Fetch, push and copy the artifacts of runs as artifact_manager.py does.",
                {
                    "Commands": {
                        "fetch": "store.fetch:artifacts_fetch",
                        "push": "store.artifacts:artifacts_push",
                        "copy": "store.artifacts:artifacts_copy",
                    }
                },
            )
        },
    },
)
_PIPELINE = CommandGroup(
    "Plan, run and render the pipeline from ROCm to released wheels.",
    {
        "Commands": {
            "plan": "pipeline.plan:pipeline_plan",
            "run": "pipeline.run:pipeline_run",
            "show": "pipeline.plan:pipeline_show",
            "render": "pipeline.render:pipeline_render",
            "families": "pipeline.matrix:pipeline_families",
            "doctor": "pipeline.doctor:pipeline_doctor",
        },
        _CI: {
            "setup": "pipeline.setup:pipeline_setup",
            "step": "pipeline.run:pipeline_step",
            "matrix": "pipeline.matrix:pipeline_matrix",
            "tests": "pipeline.matrix:pipeline_tests",
            "capture-summary": "pipeline.summary:pipeline_capture_summary",
            "test-summary": "pipeline.summary:pipeline_test_summary",
            "workflow-summary": "pipeline.summary:pipeline_workflow_summary",
        },
    },
)
_DATA = CommandGroup(
    "List the tables of facts, and explain where a fact comes from.",
    {"Commands": {"list": "data:data_list", "explain": "data:data_explain", "refresh": "data:data_refresh"}},
)
# By name of a function, so that a command imports what it needs and nothing of the others.
COMMANDS = CommandGroup(
    "Build, check, split, index, test and promote PyTorch and ROCm wheels for AMD GPUs.",
    {
        "Finished wheels": {"check": "check:check", "wheel": _WHEEL, "kpack": _KPACK},
        "From sources to wheels": {
            "checkout": "checkout:checkout",
            "hipify": "checkout:hipify",
            "sources": _SOURCES,
            "sdk": _SDK,
            "install-rocm": "documented.build_script:install_rocm",
            "build": "build:build",
        },
        "Test and release": {"test": _TEST, "compat": _COMPAT, "set": _SET, "store": _STORE},
        "All of it": {"pipeline": _PIPELINE, "demo": "demo:demo"},
        "This machine and this tool": {
            "detect": "detect:detect",
            "doctor": "doctor:doctor",
            "data": _DATA,
            "completion": "help:completion",
        },
    },
)
# What a file system says of a path that somebody named, or of itself. That a file is not there is told where
# it is read; here it would be a defect.
_REFUSALS = (
    errno.ENOTDIR,
    errno.EISDIR,
    errno.EROFS,
    errno.ENAMETOOLONG,
    errno.ELOOP,
    errno.EIO,
    errno.EEXIST,
)
_QUIET, _VERBOSE = ("-q", "--quiet"), ("-v", "--verbose")


def called(words: Sequence[str]) -> tuple[tuple[str, ...], str | CommandGroup]:
    """The command or group that words begin with: the words that name it, and what it is."""
    found: str | CommandGroup = COMMANDS
    for number, word in enumerate(words):
        below = dict(found.named()).get(word) if isinstance(found, CommandGroup) else None
        if below is None:
            return tuple(words[:number]), found
        found = below
    return tuple(words), found


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: run a command; a user's mistake ends in a message and its exit code, never a traceback."""

    def act() -> None:
        words = without_talk(sys.argv[1:] if arguments is None else arguments)
        if words == ["--version"]:
            console.out(__version__)
            sys.exit(0)
        if words[:1] == ["help"]:
            words = [*words[1:], "--help"]
        if (command := _asked(words)) is not None:
            from rocwright.cli.help import show_help

            show_help(command)
            sys.exit(0)
        # The parser and all it needs take longer than most help is read.
        from rocwright.cli.parse import app, parsed, tell_older

        tell_older(words)
        parsed(app, words)

    guarded(act)


def _own(words: Sequence[str]) -> Sequence[str]:
    """Words for rocwright; those behind `--` are for a program that it runs."""
    return words[: words.index("--")] if "--" in words else words


def without_talk(words: Sequence[str]) -> list[str]:
    """The words without -q and -v, which every command takes anywhere, and which are obeyed here."""
    own = _own(words)
    if called([word for word in own if word not in (*_QUIET, *_VERBOSE)])[0] == ("set", "bisect"):
        # Behind its name stand words of another program, with or without `--`.
        own = own[: own.index("bisect")]
    quiet, verbose = ([word for word in own if word in names] for names in (_QUIET, _VERBOSE))
    if quiet and verbose:
        raise UsageError(f"{quiet[0]} and {verbose[0]} contradict each other", next_step="give one of them")
    console.talk(1 if verbose else -1 if quiet else 0)
    return [word for word in own if word not in (*quiet, *verbose)] + list(words[len(own) :])


def _asked(words: Sequence[str]) -> tuple[str, ...] | None:
    """The command or group whose help the words ask for; None where one is to be run, or is none."""
    own = _own(words)
    plain = [word for word in own if word not in ("-h", "--help")]
    command, found = called(plain)
    rest = plain[len(command) :]
    if rest == ["help"] and not os.path.lexists("help"):
        return command
    asks = len(plain) < len(own)
    if isinstance(found, CommandGroup):
        # A word that is no command is a mistake, whatever else is asked.
        return command if not rest or (asks and rest[0].startswith("-")) else None
    return command if asks else None


def guarded(act: Callable[[], None]) -> None:
    """Run what a door does; its errors end the process with their message and exit code."""
    for name in ("SIGTERM", "SIGHUP"):
        # Not where it is ignored: under nohup the end of the terminal is none of the run.
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _as_interrupt)
    try:
        act()
    except Interrupted as problem:
        console.error(problem)
        # Threads of the run may still be at work; what they leave is marked partial and redone.
        sys.stdout.flush()
        os._exit(problem.exit_code)
    except RocwrightError as problem:
        console.error(problem)
        sys.exit(problem.exit_code)
    except KeyboardInterrupt:
        console.error(Interrupted("interrupted"))
        sys.exit(Interrupted.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (| head); that is no error of ours.
        _drop_output()
        sys.exit(0)
    except (OSError, RuntimeError) as refused:
        told = _of_the_disk(refused)
        if told is None:
            raise
        console.error(told)
        try:
            sys.stdout.flush()
        except OSError:
            _drop_output()
        sys.exit(told.exit_code)


def _drop_output() -> None:
    """Let Python write nowhere, when it ends, what could not be written to stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _of_the_disk(refused: OSError | RuntimeError) -> RocwrightError | None:
    """The user's error for what a file system refused; None for what is a defect of this tool."""
    if isinstance(refused, RuntimeError):
        # What Python before 3.13 makes of ELOOP where a path is resolved.
        if "Symlink loop" not in str(refused):
            return None
        return InvalidInput(str(refused), next_step="remove the link, or name another path")
    if refused.errno in (errno.ENOSPC, errno.EDQUOT):
        where = refused.filename or "the disk that was written to"
        return NoSpace(
            f"no space left on {where}",
            next_step="free some space (`df -h . /tmp` shows it), then run again",
        )
    if refused.filename is None:
        return None
    if isinstance(refused, PermissionError):
        # Even looking whether a file is there needs the right to enter its directory: any path can end so.
        return InvalidInput(
            f"no permission to use {refused.filename}",
            next_step="change its permissions (check the directories above it, too), or name another path",
        )
    if refused.errno not in _REFUSALS:
        return None
    return InvalidInput(
        f"{refused.filename} cannot be used: {refused.strerror}",
        next_step="check it and the directories above it, or name another path",
    )


def _as_interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt

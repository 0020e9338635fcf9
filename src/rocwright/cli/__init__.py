"""The command line: one small file per command group; parses, calls, prints."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from cyclopts import App

from rocwright import __version__
from rocwright.cli.build import build
from rocwright.cli.check import check
from rocwright.cli.checkout import checkout
from rocwright.cli.demo import demo
from rocwright.cli.doctor import doctor
from rocwright.cli.kpack import app as kpack_app
from rocwright.cli.sdk import app as sdk_app
from rocwright.cli.wheel import app as wheel_app
from rocwright.errors import Interrupted, RocwrightError
from rocwright.system import console

app = App(
    name="rocwright",
    version=__version__,
    help="Build, check, split, index, test and promote PyTorch and ROCm wheels for AMD GPUs.",
)
app.command(demo)
app.command(build)
app.command(check)
app.command(checkout)
app.command(doctor)
app.command(kpack_app)
app.command(sdk_app)
app.command(wheel_app)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point: run a command; a user's mistake ends in a message and its exit code, never a traceback."""
    signal.signal(signal.SIGTERM, _as_interrupt)
    try:
        app(arguments)
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)


def _as_interrupt(signum: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt

"""`rocwright test`: test wheels on the GPUs of this machine, and say what was seen."""

from __future__ import annotations

from cyclopts import App

app = App(name="test", help="Test wheels on GPUs: smoke tests, PyTorch's tests, skip entries, reports.")
# By name, so that a command imports what it needs and nothing of the others.
_COMMANDS: tuple[str, ...] = (
    "durations",
    "full",
    "matrix",
    "plan",
    "report",
    "setup-venv",
    "skips",
    "smoke",
    "summarize",
    "units",
)
for _name in _COMMANDS:
    _function = f"gputest_{_name.replace('-', '_')}"
    app.command(f"rocwright.cli.{_function}:{_function}", name=_name)

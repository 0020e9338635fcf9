"""`rocwright pipeline`: the definition of builds, tests and releases; planned, run, rendered."""

from __future__ import annotations

from cyclopts import App

app = App(name="pipeline", help="Plan, run and render the pipeline from ROCm to released wheels.")
# By name, so that a command imports what it needs and nothing of the others.
_COMMANDS: tuple[str, ...] = (
    "capture-summary",
    "families",
    "matrix",
    "plan",
    "render",
    "run",
    "setup",
    "show",
    "step",
    "test-summary",
    "tests",
    "workflow-summary",
)
for _name in _COMMANDS:
    _function = f"pipeline_{_name.replace('-', '_')}"
    app.command(f"rocwright.cli.{_function}:{_function}", name=_name)

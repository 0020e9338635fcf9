"""`rocwright pipeline`: the definition of builds, tests and releases; planned, run, rendered."""

from __future__ import annotations

from cyclopts import App

app = App(name="pipeline", help="Plan, run and render the pipeline from ROCm to released wheels.")
# By name and module, so that a command imports what it needs and nothing of the others.
_COMMANDS = {
    "capture-summary": "summary",
    "families": "matrix",
    "matrix": "matrix",
    "plan": "plan",
    "render": "render",
    "run": "run",
    "setup": "setup",
    "show": "plan",
    "step": "run",
    "test-summary": "summary",
    "tests": "matrix",
    "workflow-summary": "summary",
}
for _name, _module in _COMMANDS.items():
    app.command(f"rocwright.cli.pipeline.{_module}:pipeline_{_name.replace('-', '_')}", name=_name)

"""`rocwright compat`: what PyTorch on ROCm supports, claimed and measured."""

from __future__ import annotations

from cyclopts import App

app = App(
    name="compat",
    help="Show and ask what PyTorch on ROCm supports, and measure what an installed torch can do.",
)
# By name and module, so that a command imports what it needs and nothing of the others.
_COMMANDS = {
    "probe": "probe",
    "query": "claims",
    "show": "claims",
}
for _name, _module in _COMMANDS.items():
    app.command(f"rocwright.cli.compat.{_module}:compat_{_name}", name=_name)

"""`rocwright compat`: what PyTorch on ROCm supports, claimed and measured."""

from __future__ import annotations

from cyclopts import App

app = App(
    name="compat",
    help="Show and ask what PyTorch on ROCm supports, and measure what an installed torch can do.",
)
# By name, so that a command imports what it needs and nothing of the others.
for _name in ("probe", "query", "show"):
    app.command(f"rocwright.cli.compat_{_name}:compat_{_name}", name=_name)

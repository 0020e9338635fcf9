"""`rocwright compat`: what PyTorch on ROCm supports, as pages, tables and answers."""

from __future__ import annotations

from cyclopts import App

app = App(name="compat", help="Show and ask what PyTorch on ROCm supports.")
# By name, so that a command imports what it needs and nothing of the others.
for _name in ("query", "show"):
    app.command(f"rocwright.cli.compat_{_name}:compat_{_name}", name=_name)

"""`rocwright data`: the facts that rocwright decides by, and where each comes from."""

from __future__ import annotations

from cyclopts import App

app = App(name="data", help="List the tables of facts, and explain where a fact comes from.")
# By name, so that a command imports what it needs and nothing of the others.
for _name in ("explain", "list"):
    app.command(f"rocwright.cli.data_{_name}:data_{_name}", name=_name)

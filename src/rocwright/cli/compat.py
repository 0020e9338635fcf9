"""`rocwright compat`: what works with what, claimed and measured."""

from __future__ import annotations

from cyclopts import App

app = App(name="compat", help="Say what works with what, and measure what an installed torch can do.")
# By name, so that a command imports what it needs and nothing of the others.
_COMMANDS = ("probe",)
for _name in _COMMANDS:
    _function = f"compat_{_name}"
    app.command(f"rocwright.cli.{_function}:{_function}", name=_name)

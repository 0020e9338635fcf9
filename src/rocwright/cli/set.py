"""`rocwright set`: record sets of wheels, say what is known about them, list them in channels."""

from __future__ import annotations

from cyclopts import App

app = App(name="set", help="Record, compare, verify, promote, withdraw and search sets of wheels.")
# By name, so that a command imports what it needs and nothing of the others.
_COMMANDS = (
    "bisect",
    "create",
    "diff",
    "gc",
    "list",
    "lock",
    "log",
    "pin",
    "promote",
    "repair",
    "reversion",
    "rollback",
    "show",
    "sign",
    "state",
    "verify",
)
for _name in _COMMANDS:
    _function = f"set_{_name.replace('-', '_')}"
    app.command(f"rocwright.cli.{_function}:{_function}", name=_name)

"""`rocwright set`: record sets of wheels, say what is known about them, list them in channels."""

from __future__ import annotations

from cyclopts import App

app = App(name="set", help="Record, compare, verify, promote, withdraw and search sets of wheels.")
# By name and module, so that a command imports what it needs and nothing of the others.
_COMMANDS = {
    "bisect": "bisect",
    "create": "create",
    "diff": "look",
    "gc": "channel",
    "list": "look",
    "lock": "look",
    "log": "look",
    "pin": "channel",
    "promote": "channel",
    "repair": "channel",
    "reversion": "create",
    "rollback": "channel",
    "show": "look",
    "sign": "statements",
    "state": "statements",
    "verify": "statements",
}
for _name, _module in _COMMANDS.items():
    app.command(f"rocwright.cli.set.{_module}:set_{_name}", name=_name)

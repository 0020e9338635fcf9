"""`rocwright store`: what a store can do, what is in it, runs that were uploaded, pages."""

from __future__ import annotations

from cyclopts import App

app = App(name="store", help="Probe and serve a store, upload and fetch the packages of runs.")
# By name, so that a command imports what it needs and nothing of the others.
_COMMANDS: tuple[str, ...] = (
    "artifacts",
    "fetch",
    "index",
    "landing",
    "policy",
    "probe",
    "serve",
    "upload",
    "verify",
)
for _name in _COMMANDS:
    _function = f"store_{_name.replace('-', '_')}"
    app.command(f"rocwright.cli.{_function}:{_function}", name=_name)

"""`rocwright store`: what a store can do, what is in it, runs that were uploaded, pages."""

from __future__ import annotations

from cyclopts import App

app = App(name="store", help="Probe and serve a store, upload and fetch the packages of runs.")
# By name and module, so that a command imports what it needs and nothing of the others.
_COMMANDS = {
    "artifacts": "fetch",
    "fetch": "fetch",
    "index": "pages",
    "landing": "pages",
    "policy": "upload",
    "probe": "pages",
    "serve": "pages",
    "upload": "upload",
    "verify": "pages",
}
for _name, _module in _COMMANDS.items():
    app.command(f"rocwright.cli.store.{_module}:store_{_name}", name=_name)

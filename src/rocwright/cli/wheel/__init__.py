"""`rocwright wheel`: look into finished wheels, and take them apart."""

from __future__ import annotations

from cyclopts import App

app = App(name="wheel", help="Look into finished wheels, and take them apart.")
# By name and module, so that a command imports what it needs and nothing of the others.
_COMMANDS = {
    "sanity-check": "family:sanity_check",
    "torch-versions": "family:torch_versions",
    "cp-version": "family:cp_version",
    "fat": "fat:fat",
    "merge-parts": "split:parts",
    "reversion": "reversion:reversion",
    "show": "show:show",
    "split": "split:split",
}
for _name, _where in _COMMANDS.items():
    app.command(f"rocwright.cli.wheel.{_where}", name=_name)

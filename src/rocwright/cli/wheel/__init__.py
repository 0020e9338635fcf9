"""`rocwright wheel`: look into finished wheels, and take them apart."""

from __future__ import annotations

from cyclopts import App

app = App(name="wheel", help="Look into finished wheels, and take them apart.")
# By name and module, so that a command imports what it needs and nothing of the others.
_COMMANDS = {
    "cp-version": "family:cp_version",
    "fat": "fat:fat",
    "merge-parts": "split:parts",
    "reversion": "reversion:reversion",
    "sanity-check": "family:sanity_check",
    "show": "show:show",
    "split": "split:split",
    "torch-versions": "family:torch_versions",
}
for _name, _where in _COMMANDS.items():
    app.command(f"rocwright.cli.wheel.{_where}", name=_name)

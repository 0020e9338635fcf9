"""`rocwright test skips`: look after the entries that say which tests are not expected to pass."""

from __future__ import annotations

from cyclopts import App

gputest_skips = App(name="skips", help="Skip entries: show, judge, rerun, carry over, import, export.")
# By name, so that a command imports what it needs and nothing of the others.
_COMMANDS = ("audit", "export", "import", "lint", "port", "show")
for _name in _COMMANDS:
    gputest_skips.command(f"rocwright.cli.gputest_skips_{_name}:gputest_skips_{_name}", name=_name)

"""`rocwright test`: test wheels on the GPUs of this machine, say what was seen, look after skip entries."""

from __future__ import annotations

from cyclopts import App

app = App(name="test", help="Test wheels on GPUs: smoke tests, PyTorch's tests, skip entries, reports.")
gputest_skips = App(name="skips", help="Skip entries: show, judge, rerun, carry over, import, export.")
# By name and module, so that a command imports what it needs and nothing of the others.
_COMMANDS = {
    "durations": "shards",
    "full": "pytorch",
    "matrix": "shards",
    "plan": "shards",
    "report": "report",
    "setup-venv": "setup_venv",
    "smoke": "smoke",
    "summarize": "report",
    "units": "pytorch",
}
_OF_SKIPS = {
    "audit": "rerun",
    "export": "skips",
    "import": "skips",
    "lint": "skips",
    "port": "rerun",
    "show": "skips",
}
for _name, _module in _COMMANDS.items():
    app.command(f"rocwright.cli.gputest.{_module}:gputest_{_name.replace('-', '_')}", name=_name)
for _name, _module in _OF_SKIPS.items():
    gputest_skips.command(f"rocwright.cli.gputest.{_module}:gputest_skips_{_name}", name=_name)
app.command(gputest_skips)

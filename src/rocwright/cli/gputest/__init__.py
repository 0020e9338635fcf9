"""`rocwright test`: test wheels on the GPUs of this machine, say what was seen, look after skip entries."""

from __future__ import annotations

from cyclopts import App

app = App(name="test", help="Test wheels on GPUs: smoke tests, PyTorch's tests, skip entries, reports.")
gputest_skips = App(name="skips", help="Skip entries: show, judge, rerun, carry over, import, export.")
# By module and name, so that a command imports what it needs and nothing of the others.
_COMMANDS = {
    "durations": "shards:gputest_durations",
    "full": "pytorch:gputest_full",
    "matrix": "shards:gputest_matrix",
    "plan": "shards:gputest_plan",
    "report": "report:gputest_report",
    "setup-venv": "setup_venv:gputest_setup_venv",
    "skips": "",
    "smoke": "smoke:gputest_smoke",
    "summarize": "report:gputest_summarize",
    "units": "pytorch:gputest_units",
}
_OF_SKIPS = {
    "audit": "rerun:gputest_skips_audit",
    "export": "skips:gputest_skips_export",
    "import": "skips:gputest_skips_import",
    "lint": "skips:gputest_skips_lint",
    "port": "rerun:gputest_skips_port",
    "show": "skips:gputest_skips_show",
}
for _name, _where in _OF_SKIPS.items():
    gputest_skips.command(f"rocwright.cli.gputest.{_where}", name=_name)
for _name, _where in _COMMANDS.items():
    if _name == "skips":
        app.command(gputest_skips)
    else:
        app.command(f"rocwright.cli.gputest.{_where}", name=_name)

"""How the doctor's findings look."""

from __future__ import annotations

from rocwright.compat.doctor.mend import INDEX
from rocwright.compat.doctor.values import Diagnosis
from rocwright.system import console

_HEAD = ("what", "verdict", "detail", "next")


def show_diagnosis(found: Diagnosis) -> None:
    """A table of the machine, and one of the environment where there was one."""
    for section, title in (("machine", "This machine"), ("environment", "The environment")):
        rows = [
            (item.id, item.verdict, item.detail, item.next_step)
            for item in found.findings
            if item.section == section
        ]
        if rows:
            if section == "environment" and found.environment is not None:
                title = f"{title} {found.environment.python}"
            console.table(title, _HEAD, rows)
    if any(f" {INDEX} " in item.next_step for item in found.findings):
        console.say(
            f"{INDEX} stands for the index that has packages for your GPUs: name it with --index-url."
        )

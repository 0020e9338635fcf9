"""How a probe of a torch is printed: claims against what was found."""

from __future__ import annotations

from rocwright.compat.probe.values import Probe
from rocwright.system import console


def show_probe(report: Probe) -> None:
    """Four tables on stdout: data types, libraries, functions, flags."""
    where = report.environment
    on = ", ".join(f"{one.name} ({one.target})" for one in where.devices) or where.device
    console.out(f"torch {where.torch} ({where.kind}), Python {where.python}, on {on}")
    if where.device_problem:
        console.out(f"no GPU: {where.device_problem}")
    console.out("")
    head = ("data type", "claimed", "found", "", "detail")
    rows = [
        (row.name, row.claim, row.found, row.outcome, row.detail or beyond(row.beyond))
        for row in report.dtypes
    ]
    console.table(f"Data types ({len(rows)})", head, rows)
    console.out("")
    libraries = [(row.name, row.claim, row.found, row.outcome, row.detail) for row in report.libraries]
    head = ("library", "claimed", "found", "", "detail")
    console.table(f"ROCm libraries ({len(libraries)})", head, libraries)
    console.out("")
    calls = [(row.name, row.found, f"{row.seconds:.1f} s", row.detail) for row in report.calls]
    console.table("Functions", ("functions", "found", "took", "detail"), calls, right=(2,))
    console.out("")
    flags = [
        (
            row.name.removeprefix("torch.backends."),
            row.value,
            row.found,
            row.detail or off(row.off),
            row.issue,
        )
        for row in report.flags
    ]
    console.table("Flags of known issues", ("flag", "value", "found", "", "known issue"), flags)
    if report.restarts:
        console.say(f"{report.restarts} processes were lost and replaced")


def off(values: dict[str, str]) -> str:
    """How far the results of a flag's values are from double precision."""
    return "off by " + ", ".join(f"{one} ({value})" for value, one in values.items()) if values else ""


def beyond(steps: tuple[str, ...]) -> str:
    """What was tried besides and failed, by the names of the steps."""
    return f"not {', '.join(one.partition(':')[0] for one in steps)}" if steps else ""

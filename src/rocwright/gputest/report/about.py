"""What was tested, for the head of a report: from the command line, else from the records."""

from __future__ import annotations

import shlex
from collections.abc import Iterable

import msgspec

from rocwright.gputest.report.names import cut_id
from rocwright.gputest.report.values import Judged
from rocwright.model.gpu import in_order

SOURCE = "https://github.com/pytorch/pytorch"
# So many tests stand in the lines that run them again.
_TESTS = 5


class About(msgspec.Struct, frozen=True):
    """Versions and places; empty where unknown. `family` may be a list of targets, `ref` a branch, tag or
    commit of PyTorch."""

    torch: str = ""
    rocm: str = ""
    python: str = ""
    family: str = ""
    index: str = ""
    ref: str = ""
    set_id: str = ""

    @property
    def source(self) -> str:
        """Where the sources of the tests can be read."""
        return f"{SOURCE}/tree/{self.ref}" if self.ref else ""

    def rows(self) -> tuple[tuple[str, str], ...]:
        """Name and value of what is known."""
        all_rows = (
            ("torch", self.torch),
            ("ROCm", self.rocm),
            ("Python", self.python),
            ("GPU", self.family),
            ("Index", self.index),
            ("Source", self.source),
            ("Set", self.set_id),
        )
        return tuple((name, value) for name, value in all_rows if value)


def completed(about: About, judged: Judged) -> About:
    """With what the records say, where the command line says nothing."""
    ran = [one.ran for one in judged.shards if one.ran is not None]

    def said(field: str) -> str:
        return ", ".join(sorted({str(getattr(one, field)) for one in ran} - {""}))

    return msgspec.structs.replace(
        about,
        torch=about.torch or said("torch"),
        rocm=about.rocm or said("rocm"),
        python=about.python or said("python"),
        family=about.family or ", ".join(in_order({one.target for one in ran} - {""})),
    )


def reproduce(judged: Judged, about: About) -> tuple[str, ...]:
    """Shell lines that run the first failed tests again; none where nothing failed."""
    failed = [case.test for group in judged.groups for case in group.cases if case.finding != "FLAKY"]
    if not failed:
        return ()
    lines = []
    if about.index and about.torch and "," not in about.torch:
        lines.append(
            f"python -m pip install --index-url {shlex.quote(about.index)} torch=={shlex.quote(about.torch)}"
        )
    branch = f" --branch {shlex.quote(about.ref)}" if about.ref else ""
    lines.append(f"git clone --depth 1{branch} {SOURCE} pytorch")
    return (*lines, *_runs(dict.fromkeys(failed)))


def _runs(tests: Iterable[str]) -> list[str]:
    by_file: dict[str, list[str]] = {}
    for test in list(tests)[:_TESTS]:
        file, _, name = cut_id(test)
        # What -k is given is an expression: of parameters only the test's name can stand in it.
        name = name.partition("[")[0]
        by_file.setdefault(file, []).extend([name] if name.isidentifier() else [])
    lines = []
    for file, names in by_file.items():
        chosen = f" -k {shlex.quote(' or '.join(dict.fromkeys(names)))}" if names else ""
        lines.append(f"rocwright test units --pytorch-dir pytorch --suite-files {shlex.quote(file)}{chosen}")
    return lines

"""Labels of a pull request: what they ask of its run. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from rocwright.errors import UsageError
from rocwright.model.plan import TEST_LEVELS, TestLevel
from rocwright.model.profile import PYTHON
from rocwright.model.runners import Runners
from rocwright.pipeline.setup.families import family_names
from rocwright.pipeline.setup.wish import Wish

TORCH_ONLY = ("torch",)
_PLAIN = (
    "ci:skip",
    "ci:run-all-archs",
    "ci:pytorch",
    "ci:no-pytorch",
    "pytorch:all-components",
    "pytorch:torch-only",
)
# Those of ROCm's own build and its older pipeline: known, and without effect on packages and wheels.
_ELSEWHERE = ("ci:asan", "ci:host-asan")
_PREFIXES = ("test:", "test_filter:", "test_runner:", "pytorch_ref:", "python:")
# All of them; those that end with a colon go on.
LABELS = (*_PLAIN, *_ELSEWHERE, *_PREFIXES)
_NAMESPACES = ("ci:", "pytorch:", *_PREFIXES)
_CONTRARY = (("ci:pytorch", "ci:no-pytorch"), ("pytorch:all-components", "pytorch:torch-only"))
_GPU = re.compile(r"gfx[0-9].*", re.IGNORECASE)


def read_labels(labels: Sequence[str], runners: Runners, families: Mapping[str, Sequence[str]]) -> Wish:
    """What labels ask for; those of other subjects are passed over, misspelt ones noted.

    Raises `UsageError` for labels that contradict each other, `InvalidTarget` for an unknown family.
    """
    held = tuple(dict.fromkeys(label.strip() for label in labels))
    for one, other in _CONTRARY:
        if one in held and other in held:
            raise UsageError(f"the labels {one} and {other} contradict each other", next_step="take one off")
    build = True if "ci:pytorch" in held else False if "ci:no-pytorch" in held else None
    refs, pythons = _after("pytorch_ref:", held), _after("python:", held)
    if build is False and (refs or pythons or any(label.startswith("pytorch:") for label in held)):
        others = [label for label in held if label.startswith(("pytorch_ref:", "python:", "pytorch:"))]
        raise UsageError(
            f"the labels ci:no-pytorch and {others[0]} contradict each other", next_step="take one off"
        )
    for python in pythons:
        if PYTHON.fullmatch(python) is None:
            raise UsageError(
                f"the label python:{python} names no version of Python", next_step="write it like python:3.12"
            )
    gpus = [label for label in held if _GPU.fullmatch(label)]
    return Wish(
        skip="ci:skip" in held,
        all_families="ci:run-all-archs" in held,
        more=tuple(
            dict.fromkeys(
                name
                for label in gpus
                for name in family_names(
                    # What stands behind it is for people: a platform, a kind of GPU.
                    [label.partition("-")[0]],
                    runners,
                    families,
                    where=f"the label {label}",
                )
            )
        ),
        pythons=pythons,
        refs=refs,
        projects=TORCH_ONLY if "pytorch:torch-only" in held else (),
        all_projects="pytorch:all-components" in held,
        build_pytorch=build,
        test_level=_level(_after("test_filter:", held)),
        tests=_after("test:", held),
        notes=tuple(_notes(held)),
    )


def _after(prefix: str, labels: Sequence[str]) -> tuple[str, ...]:
    """What stands behind a prefix; an empty one is noted."""
    found = (label.removeprefix(prefix).strip() for label in labels if label.startswith(prefix))
    return tuple(dict.fromkeys(value for value in found if value))


def _level(filters: Sequence[str]) -> TestLevel | None:
    if len(filters) > 1:
        raise UsageError(
            f"the labels test_filter:{filters[0]} and test_filter:{filters[1]} contradict each other",
            next_step="take one off",
        )
    for level in TEST_LEVELS:
        if filters and level == filters[0]:
            return level
    if filters:
        raise UsageError(
            f"the label test_filter:{filters[0]} names no level of tests",
            next_step=f"levels: {' '.join(TEST_LEVELS)}",
        )
    return None


def _notes(labels: Sequence[str]) -> list[str]:
    notes = []
    for label in labels:
        if label in _ELSEWHERE or (label.startswith("test_runner:") and label != "test_runner:"):
            notes.append(f"the label {label} is about ROCm's own build: nothing of this run follows it")
        elif label in _PLAIN or any(label.startswith(one) and label != one for one in _PREFIXES):
            continue
        elif _misspelt(label):
            near = get_close_matches(label.lower(), LABELS, n=1, cutoff=0.7)
            hint = f": perhaps {near[0]}" if near else ""
            notes.append(f"the label {label!r} is not known, so nothing follows it{hint}")
    return notes


def _misspelt(label: str) -> bool:
    """Whether a label of no known name was meant for the pipeline: in a namespace of its, or close to one."""
    if label.lower().startswith(_NAMESPACES):
        return True
    return bool(":" in label and get_close_matches(label.lower(), _PLAIN, n=1, cutoff=0.85))

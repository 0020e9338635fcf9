"""What people ask of a run: by labels of a pull request and inputs of a dispatch, in the same words. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from difflib import get_close_matches

import msgspec

from rocwright.errors import UsageError
from rocwright.model.plan import PYTHON, TEST_LEVELS, Sources, TestLevel
from rocwright.model.platforms import PLATFORMS
from rocwright.model.runners import Runners
from rocwright.pipeline.define.inputs import extensions_asked
from rocwright.pipeline.setup.families import asked_for, family_names, words


class Wish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is asked for; empty and None: no wish.

    `families` by platform take the place of the tier's, `more` are added to them; `all_families` are those of
    all tiers. `tests` are named tests. `prebuilt` says by platform whether an earlier run's ROCm is taken,
    `artifact_run_id` of which run; `rocm` is where it comes from, as --rocm takes it. `notes` are for people:
    what is not known, or does nothing here.
    """

    skip: bool = False
    all_families: bool = False
    families: dict[str, tuple[str, ...]] = {}
    more: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    all_projects: bool = False
    extensions: tuple[str, ...] | None = None
    build_pytorch: bool | None = None
    test_level: TestLevel | None = None
    tests: tuple[str, ...] = ()
    prebuilt: dict[str, bool] = {}
    artifact_run_id: str = ""
    repository: str = ""
    rocm: str = ""
    sources: Sources | None = None
    split: bool | None = None
    device_groups: int | None = None
    publish: bool | None = None
    notes: tuple[str, ...] = ()


# Where "no" is an answer, too.
_ANSWERS = ("build_pytorch", "extensions", "split", "publish")


def above(first: Wish, second: Wish) -> Wish:
    """The first wish, and what only the second says; notes of both."""
    found = {}
    for name in Wish.__struct_fields__:
        one, other = getattr(first, name), getattr(second, name)
        found[name] = other if (one is None if name in _ANSWERS else not one) else one
    if first.projects or first.all_projects:
        # Which components: one answer, not half of each.
        found |= {"projects": first.projects, "all_projects": first.all_projects}
    found["notes"] = tuple(dict.fromkeys((*first.notes, *second.notes)))
    return Wish(**found)


# -- labels of a pull request


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
    """What labels ask for; those of other subjects are passed over, misspelt labels noted.

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
    """What stands behind a prefix; an empty value is noted."""
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
            notes.append(f"the label {label} is about ROCm's own build: this run ignores it")
        elif label in _PLAIN or any(label.startswith(one) and label != one for one in _PREFIXES):
            continue
        elif _misspelt(label):
            near = get_close_matches(label.lower(), LABELS, n=1, cutoff=0.7)
            hint = f": perhaps {near[0]}" if near else ""
            notes.append(f"the label {label!r} is not known, so it is ignored{hint}")
    return notes


def _misspelt(label: str) -> bool:
    """Whether a label of no known name was meant for the pipeline: in a namespace of its, or close to it."""
    if label.lower().startswith(_NAMESPACES):
        return True
    return bool(":" in label and get_close_matches(label.lower(), _PLAIN, n=1, cutoff=0.85))


# -- inputs of a dispatch


_LABELS = ("additional_label_options", "linux_test_labels", "windows_test_labels")
_FAMILIES = {f"{platform}_amdgpu_families": (platform,) for platform in PLATFORMS} | {
    "amdgpu_families": PLATFORMS
}
_PREBUILT = {f"{platform}_use_prebuilt_artifacts": platform for platform in PLATFORMS}
# The same thing under two names, as workflows have them.
_SAME = {
    "pytorch_git_refs": "pytorch_git_ref",
    "python_versions": "python_version",
    "components": "pytorch_projects",
}
# What the workflow itself makes of it: the profile.
_WORKFLOW = ("release_type", "profile")
INPUTS = (
    *_FAMILIES,
    *_LABELS,
    *_PREBUILT,
    "artifact_run_id",
    "artifact_repository",
    "build_pytorch",
    "device_groups",
    "extensions",
    "publish",
    "python_version",
    "pytorch_git_ref",
    "pytorch_projects",
    "rocm",
    "sources",
    "split",
)


def read_inputs(
    inputs: Mapping[str, str],
    platforms: Sequence[str],
    runners: Runners,
    families: Mapping[str, Sequence[str]],
) -> Wish:
    """What inputs ask for on these platforms; unknown inputs are noted.

    Raises `UsageError` for values that mean nothing or contradict each other, `InvalidTarget` for an unknown
    family; each names the input.
    """
    given, notes = _named(inputs)
    asked: dict[str, tuple[str, ...]] = {}
    for name, where in _FAMILIES.items():
        if name in given:
            wanted = _wanted(name, where, given, platforms)
            asked |= asked_for(given[name], wanted, runners, families, where=f"the input {name}")
    for python in words(given.get("python_version", "")):
        if PYTHON.fullmatch(python) is None:
            raise _bad("python_version", python, "write it like 3.12 or 3.14t")
    projects = words(given.get("pytorch_projects", ""))
    named = {} if projects in (("all",), ("torch-only",)) else {"projects": projects}
    if projects == ("torch-only",):
        named = {"projects": TORCH_ONLY}
    wish = Wish(
        families=asked,
        pythons=words(given.get("python_version", "")),
        refs=words(given.get("pytorch_git_ref", "")),
        projects=named.get("projects", ()),
        all_projects=projects == ("all",),
        extensions=extensions_asked([given.get("extensions", "")]),
        build_pytorch=_flag(given, "build_pytorch"),
        prebuilt={
            platform: bool(_flag(given, name)) for name, platform in _PREBUILT.items() if name in given
        },
        artifact_run_id=given.get("artifact_run_id", ""),
        repository=given.get("artifact_repository", ""),
        rocm=given.get("rocm", ""),
        sources=_sources(given),
        split=_flag(given, "split"),
        device_groups=_number(given, "device_groups"),
        publish=_flag(given, "publish"),
        notes=tuple(notes),
    )
    _check(wish)
    labels = [label for name in _LABELS for label in _label_words(given.get(name, ""))]
    return above(wish, read_labels(labels, runners, families))


def _named(inputs: Mapping[str, str]) -> tuple[dict[str, str], list[str]]:
    """Values by the one name of each input, and notes on unknown inputs."""
    given: dict[str, str] = {}
    notes = []
    for raw, value in inputs.items():
        name = _SAME.get(raw, raw)
        if not value.strip():
            continue
        if name in given and given[name] != value.strip():
            raise UsageError(
                f"the inputs {name} and {raw} say different things", next_step="leave one of them empty"
            )
        given[name] = value.strip()
        if name not in INPUTS and name not in _WORKFLOW:
            near = get_close_matches(name, INPUTS, n=1)
            hint = f": perhaps {near[0]}" if near else ""
            notes.append(f"the input {raw!r} is not known, so it is ignored{hint}")
    return given, notes


def _wanted(name: str, where: Sequence[str], given: Mapping[str, str], platforms: Sequence[str]) -> list[str]:
    """The platforms that an input of families is for; an input of its own comes before the common input."""
    if len(where) == 1:
        return [one for one in where if one in platforms]
    return [one for one in platforms if f"{one}_{name}" not in given]


def _label_words(text: str) -> tuple[str, ...]:
    """Labels separated by commas or semicolons: they may hold spaces around them."""
    return tuple(label.strip() for label in text.replace(";", ",").split(",") if label.strip())


def _flag(given: Mapping[str, str], name: str) -> bool | None:
    value = given.get(name)
    if value is None:
        return None
    if value.lower() not in ("true", "false"):
        raise _bad(name, value, "write true or false")
    return value.lower() == "true"


def _number(given: Mapping[str, str], name: str) -> int | None:
    value = given.get(name)
    if value is None:
        return None
    if not value.isdecimal() or int(value) < 1:
        raise _bad(name, value, "write 1 or more")
    return int(value)


def _sources(given: Mapping[str, str]) -> Sources | None:
    value = given.get("sources")
    if value == "miniature":
        return "miniature"
    if value == "upstream":
        return "upstream"
    if value is not None:
        raise _bad("sources", value, "write miniature or upstream")
    return None


def _bad(name: str, value: str, next_step: str) -> UsageError:
    return UsageError(f"the input {name} is {value!r}", next_step=next_step)


def _check(wish: Wish) -> None:
    if wish.build_pytorch is False:
        for name, value in (
            ("pytorch_git_ref", wish.refs),
            ("pytorch_projects", wish.projects or wish.all_projects),
            ("extensions", wish.extensions),
            ("split", wish.split),
            ("device_groups", wish.device_groups),
        ):
            if value:
                raise UsageError(
                    f"the input build_pytorch is false, but {name} says how to build it",
                    next_step="leave one of them empty",
                )
    if len(set(wish.prebuilt.values())) > 1:
        raise UsageError(
            "the inputs linux_use_prebuilt_artifacts and windows_use_prebuilt_artifacts differ",
            next_step="start a run for each platform: a run takes its ROCm from one place",
        )
    if wish.artifact_run_id and False in wish.prebuilt.values():
        raise UsageError(
            f"the inputs name the run {wish.artifact_run_id}, but say that nothing prebuilt is used",
            next_step="leave one of them empty",
        )
    if wish.artifact_run_id and wish.rocm:
        raise UsageError(
            "the inputs rocm and artifact_run_id both say where ROCm comes from",
            next_step="leave one of them empty",
        )

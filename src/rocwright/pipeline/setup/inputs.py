"""Inputs of a dispatch: what they ask of a run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches

from rocwright.errors import UsageError
from rocwright.model.platforms import PLATFORMS
from rocwright.model.profile import PYTHON, Sources
from rocwright.model.runners import Runners
from rocwright.pipeline.setup.families import asked_for, words
from rocwright.pipeline.setup.labels import TORCH_ONLY, read_labels
from rocwright.pipeline.setup.wish import Wish, above

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
    "publish",
    "python_version",
    "pytorch_git_ref",
    "pytorch_projects",
    "sources",
    "split",
)


def read_inputs(
    inputs: Mapping[str, str],
    platforms: Sequence[str],
    runners: Runners,
    families: Mapping[str, Sequence[str]],
) -> Wish:
    """What inputs ask for on these platforms; unknown ones are noted.

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
        build_pytorch=_flag(given, "build_pytorch"),
        prebuilt={
            platform: bool(_flag(given, name)) for name, platform in _PREBUILT.items() if name in given
        },
        artifact_run_id=given.get("artifact_run_id", ""),
        repository=given.get("artifact_repository", ""),
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
    """Values by the one name of each input, and notes on unknown ones."""
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
            notes.append(f"the input {raw!r} is not known, so nothing follows it{hint}")
    return given, notes


def _wanted(name: str, where: Sequence[str], given: Mapping[str, str], platforms: Sequence[str]) -> list[str]:
    """The platforms that an input of families is for; one of its own comes before the common one."""
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
            ("split", wish.split),
            ("device_groups", wish.device_groups),
        ):
            if value:
                raise UsageError(
                    f"the input build_pytorch is false, and {name} says how to build it",
                    next_step="leave one of them empty",
                )
    if len(set(wish.prebuilt.values())) > 1:
        raise UsageError(
            "the inputs linux_use_prebuilt_artifacts and windows_use_prebuilt_artifacts differ",
            next_step="start a run for each platform: a run takes its ROCm from one place",
        )
    if wish.artifact_run_id and False in wish.prebuilt.values():
        raise UsageError(
            f"the inputs name the run {wish.artifact_run_id}, and say that nothing prebuilt is taken",
            next_step="leave one of them empty",
        )

"""What an event starts: inputs before labels before what the change calls for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocwright.data import load_table
from rocwright.errors import RocwrightError, UsageError
from rocwright.model.gpu import Families
from rocwright.model.plan import Choice, Profile, Rocm
from rocwright.model.runners import Runners
from rocwright.pipeline.setup.choose import Chosen, Tables, choose
from rocwright.pipeline.setup.event import TRIGGERS, Event, Triggers

FAMILIES = load_table("families", Families)
RUNNERS = Runners(FAMILIES.family)
TABLES = Tables(
    load_table("triggers", Triggers),
    FAMILIES.families,
    RUNNERS,
    ("apex", "torch", "torchaudio", "torchvision", "triton"),
    "debian12",
)
CI = Profile(
    name="ci",
    release_type="ci",
    platforms=("linux", "windows"),
    pythons=("3.12",),
    refs=("release/2.12",),
    tier="presubmit",
    stage="staging",
    publish="embedded",
)
BASE = Choice("ci", "100")
PYTORCH_ONLY = ("external-builds/pytorch/build_prod_wheels.py",)
ROCM = ("src/rocwright/sdk/build.py",)
DOCS = ("docs/index.md",)


def run_99(groups: Mapping[str, Sequence[str]]) -> str:
    """A store whose run 99 has everything."""
    return "99"


def no_run(groups: Mapping[str, Sequence[str]]) -> str:
    """An empty store."""
    return ""


def decide(event: Event, *, there: bool = True, base: Choice = BASE, profile: Profile = CI) -> Chosen:
    """The decision where an earlier run can be had, or not."""
    return choose(event, profile, base, TABLES, run_99 if there else no_run)


def pull(*labels: str, changed: Sequence[str] | None = ROCM) -> Event:
    return Event("pull_request", "main", labels, changed=None if changed is None else tuple(changed))


def dispatch(**inputs: str) -> Event:
    return Event("workflow_dispatch", "main", inputs=inputs)


@pytest.mark.parametrize(
    ("event", "tier"),
    [
        (pull(), "presubmit"),
        (Event("push", "main", changed=ROCM), "postsubmit"),
        (Event("push", "release/therock-7.10", changed=ROCM), "postsubmit"),
        (Event("push", "users/me/try", changed=ROCM), "presubmit"),
        (Event("schedule", "main"), "nightly"),
        (dispatch(), None),
        (pull("ci:run-all-archs"), "nightly"),
        (dispatch(linux_amdgpu_families="all"), "nightly"),
    ],
)
def test_the_families_of_an_event(event: Event, tier: str | None) -> None:
    chosen = decide(event)
    assert chosen.run
    assert chosen.choice.tier == tier


def test_a_change_of_documents_alone_starts_nothing() -> None:
    chosen = decide(pull(changed=("docs/a.md", "README.md")))
    assert not chosen.run
    assert any("README.md (documentation)" in reason for reason in chosen.reasons)
    assert decide(pull(changed=("docs/a.md", *ROCM))).run


def test_a_change_of_pytorch_alone_takes_an_earlier_runs_rocm() -> None:
    asked: list[Mapping[str, Sequence[str]]] = []

    def reusable(groups: Mapping[str, Sequence[str]]) -> str:
        asked.append(groups)
        return "99"

    chosen = choose(pull(changed=PYTORCH_ONLY), CI, BASE, TABLES, reusable)
    assert chosen.choice.rocm == Rocm("packages", "99")
    assert not chosen.choice.bump
    assert asked == [
        {
            "linux": RUNNERS.tier_families("linux", "presubmit"),
            "windows": RUNNERS.tier_families("windows", "presubmit"),
        }
    ]
    assert any("run 99" in reason for reason in chosen.reasons)


def test_without_an_earlier_run_rocm_is_built_and_that_is_said() -> None:
    chosen = decide(pull(changed=PYTORCH_ONLY), there=False)
    assert chosen.run and chosen.choice.rocm == Rocm()
    assert any("no earlier run" in reason for reason in chosen.reasons)


@pytest.mark.parametrize("changed", [ROCM, None, ("pyproject.toml",), ("unheard-of",)])
def test_a_change_of_rocm_or_of_unknown_files_builds_it(changed: tuple[str, ...] | None) -> None:
    chosen = decide(pull(changed=changed))
    assert chosen.choice.rocm == Rocm() and chosen.choice.bump


def test_the_same_group_is_looked_for_as_is_built() -> None:
    asked: list[Mapping[str, Sequence[str]]] = []
    base = msgspec.structs.replace(BASE, sources="miniature")
    choose(pull(changed=PYTORCH_ONLY), CI, base, TABLES, lambda groups: asked.append(groups) or "")
    assert asked == [{"linux": ("debian12",)}]


def test_packages_for_all_families_are_looked_for_where_they_are_built_together() -> None:
    asked: list[Mapping[str, Sequence[str]]] = []
    base = msgspec.structs.replace(BASE, grouping="multi-arch")
    choose(pull(changed=PYTORCH_ONLY), CI, base, TABLES, lambda groups: asked.append(groups) or "")
    assert asked == [{"linux": ("multi-arch",), "windows": ("multi-arch",)}]


# ---- labels


def test_labels_ask_for_families_pythons_and_branches() -> None:
    chosen = decide(
        pull("gfx950", "python:3.13", "python:3.14t", "pytorch_ref:nightly", "bug", "good first issue")
    )
    choice = chosen.choice
    assert choice.families_on == {"linux": (*RUNNERS.tier_families("linux", "presubmit"), "gfx950-dcgpu")}
    assert (choice.pythons, choice.refs) == (("3.13", "3.14t"), ("nightly",))
    # gfx950 is not built on Windows, and that is said; other subjects are passed over.
    assert chosen.notes == ("gfx950-dcgpu, asked for by label, is not built on windows",)


@pytest.mark.parametrize(
    ("label", "family"),
    [
        ("gfx950", "gfx950-dcgpu"),
        ("GFX950", "gfx950-dcgpu"),
        ("gfx950-linux", "gfx950-dcgpu"),
        ("gfx90X-dcgpu", None),
        ("gfx1150", "gfx1150"),
        ("gfx103X-all", "gfx103X-all"),
        ("gfx103X", "gfx103X-all"),
    ],
)
def test_how_a_label_names_a_family(label: str, family: str | None) -> None:
    if family is None:
        with pytest.raises(RocwrightError, match=f"the label {label} names") as raised:
            decide(pull(label))
        assert "gfx94X-dcgpu" in str(raised.value)
        return
    assert family in decide(pull(label)).choice.families_on["linux"]


def test_a_label_for_a_family_of_the_tier_changes_nothing() -> None:
    assert decide(pull("gfx1151")).choice.families_on == {}


def test_ci_skip_runs_nothing() -> None:
    chosen = decide(pull("ci:skip", "gfx950"))
    assert not chosen.run and "the label ci:skip is set" in chosen.reasons
    assert decide(Event("push", "main", ("ci:skip",), changed=ROCM)).run


def test_pytorch_is_built_unless_a_label_says_otherwise() -> None:
    assert decide(pull()).choice.build_pytorch
    assert decide(pull("ci:pytorch")).choice.build_pytorch
    chosen = decide(pull("ci:no-pytorch"))
    assert chosen.run and not chosen.choice.build_pytorch


def test_no_pytorch_and_no_rocm_leave_nothing() -> None:
    chosen = decide(pull("ci:no-pytorch", changed=PYTORCH_ONLY))
    assert not chosen.run and "nothing is left" in chosen.reasons[-1]


def test_components_by_label() -> None:
    assert decide(pull("pytorch:torch-only")).choice.projects == ("torch",)
    assert decide(pull("pytorch:all-components")).choice.projects == TABLES.projects
    assert decide(pull()).choice.projects == ()


@pytest.mark.parametrize(
    ("labels", "named"),
    [
        (("ci:pytorch", "ci:no-pytorch"), "ci:pytorch and ci:no-pytorch"),
        (("pytorch:all-components", "pytorch:torch-only"), "contradict"),
        (("test_filter:quick", "test_filter:full"), "test_filter:quick and test_filter:full"),
        (("ci:no-pytorch", "pytorch_ref:nightly"), "ci:no-pytorch and pytorch_ref:nightly"),
        (("test_filter:all",), "test_filter:all names no level"),
        (("python:2.7",), "python:2.7"),
        (("python:3.12.1",), "python:3.12.1"),
    ],
)
def test_labels_that_contradict_or_mean_nothing_are_named(labels: tuple[str, ...], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        decide(pull(*labels))


@pytest.mark.parametrize(
    ("label", "hint"),
    [
        ("ci:skp", "perhaps ci:skip"),
        ("ci:no-pytroch", "perhaps ci:no-pytorch"),
        ("CI:skip", "perhaps ci:skip"),
        ("pytorch:all-component", "perhaps pytorch:all-components"),
        ("c1:skip", "perhaps ci:skip"),
        ("python:", "not known"),
        ("ci:asan", "ROCm's own build"),
        ("test_runner:oem", "ROCm's own build"),
    ],
)
def test_a_label_that_does_nothing_is_named(label: str, hint: str) -> None:
    chosen = decide(pull(label))
    assert chosen.run
    assert len(chosen.notes) == 1 and label in chosen.notes[0] and hint in chosen.notes[0]


@pytest.mark.parametrize(
    ("event", "profile", "level"),
    [
        (pull(), "ci", "standard"),
        (pull(changed=("pyproject.toml",)), "ci", "quick"),
        (pull("test:test_nn"), "ci", "full"),
        (pull("test:test_nn", "test_filter:quick"), "ci", "quick"),
        (Event("schedule"), "ci", "comprehensive"),
        (Event("schedule"), "nightly", "comprehensive"),
        (Event("schedule"), "prerelease", "full"),
        (dispatch(), "prerelease", "full"),
        (dispatch(), "ci", "quick"),
        (dispatch(linux_test_labels="test:test_nn, test:test_ops"), "ci", "full"),
        (dispatch(additional_label_options="test_filter:standard"), "prerelease", "standard"),
    ],
)
def test_the_order_of_what_decides_the_level_of_tests(event: Event, profile: str, level: str) -> None:
    decided = decide(event, profile=msgspec.structs.replace(CI, release_type=profile))
    # What is told is what the plan is made of.
    assert (decided.test_level, decided.choice.test_level) == (level, level)
    assert decided.choice.tests == decided.tests


# ---- inputs


def test_inputs_come_before_labels_and_labels_before_the_profile() -> None:
    inputs = {"python_version": "3.11", "additional_label_options": "python:3.13, pytorch_ref:nightly"}
    choice = decide(dispatch(**inputs)).choice
    assert (choice.pythons, choice.refs) == (("3.11",), ("nightly",))


def test_families_differ_by_platform() -> None:
    choice = decide(
        dispatch(linux_amdgpu_families="gfx94X; gfx1151", windows_amdgpu_families="gfx110X-all")
    ).choice
    assert choice.platforms == ("linux", "windows")
    assert choice.families_on == {"linux": ("gfx94X-dcgpu", "gfx1151"), "windows": ("gfx110X-all",)}
    # Whoever names one wants it tested, not only at night.
    assert RUNNERS.runner_of("gfx1151", "linux", choice.tier or CI.tier)[0]


def test_none_and_nothing_leave_a_platform_out() -> None:
    chosen = decide(dispatch(linux_amdgpu_families="gfx1151", windows_amdgpu_families="none"))
    assert chosen.choice.platforms == ("linux",)
    assert decide(dispatch(linux_amdgpu_families="gfx1151")).choice.platforms == ("linux",)
    assert not decide(dispatch(linux_amdgpu_families="none", windows_amdgpu_families="none")).run
    assert decide(dispatch()).choice.platforms == ("linux", "windows")


def test_one_input_for_the_platforms_of_a_workflow() -> None:
    base = msgspec.structs.replace(BASE, platforms=("windows",))
    chosen = decide(dispatch(amdgpu_families="gfx1151"), base=base)
    assert chosen.choice.families_on == {"windows": ("gfx1151",)}
    both = decide(dispatch(amdgpu_families="gfx94X-dcgpu gfx1151")).choice.families_on
    assert both == {"linux": ("gfx94X-dcgpu", "gfx1151"), "windows": ("gfx1151",)}


@pytest.mark.parametrize(
    ("inputs", "named"),
    [
        ({"windows_amdgpu_families": "gfx94X-dcgpu"}, "not built on windows"),
        ({"linux_amdgpu_families": "gfx94Y"}, "the input linux_amdgpu_families names 'gfx94Y'"),
        ({"linux_amdgpu_families": "all, gfx1151"}, "together with other names"),
        ({"build_pytorch": "maybe"}, "build_pytorch is 'maybe'"),
        ({"build_pytorch": "false", "pytorch_git_ref": "nightly"}, "pytorch_git_ref"),
        ({"build_pytorch": "false", "pytorch_projects": "all"}, "pytorch_projects"),
        ({"build_pytorch": "false", "extensions": "a==1"}, "extensions"),
        ({"build_pytorch": "false", "artifact_run_id": "7"}, "nothing is left"),
        ({"python_version": "312"}, "python_version is '312'"),
        ({"device_groups": "0"}, "device_groups"),
        ({"sources": "upstraem"}, "sources"),
        ({"linux_use_prebuilt_artifacts": "true", "windows_use_prebuilt_artifacts": "false"}, "differ"),
        ({"linux_use_prebuilt_artifacts": "false", "artifact_run_id": "7"}, "the run 7"),
        ({"python_version": "3.12", "python_versions": "3.13"}, "different things"),
        ({"additional_label_options": "ci:pytorch,ci:no-pytorch"}, "contradict"),
    ],
)
def test_inputs_that_contradict_or_mean_nothing_are_named(inputs: dict[str, str], named: str) -> None:
    with pytest.raises(RocwrightError, match=named):
        decide(dispatch(**inputs))


def test_an_unknown_input_is_named() -> None:
    chosen = decide(dispatch(pyton_version="3.13"))
    assert chosen.run
    assert chosen.notes == (
        "the input 'pyton_version' is not known, so it is ignored: perhaps python_version",
    )


def test_the_run_that_an_input_names_is_taken_whatever_changed() -> None:
    choice = decide(dispatch(artifact_run_id="42", artifact_repository="ROCm/TheRock"), there=False).choice
    assert choice.rocm == Rocm("packages", "42", "ROCm/TheRock")
    assert decide(dispatch(linux_use_prebuilt_artifacts="true")).choice.rocm == Rocm("packages", "99")


def test_components_and_the_rest_by_input() -> None:
    inputs = {
        "pytorch_projects": "torch, torchvision",
        "extensions": "torch-scatter==2.1.2, torch-sparse==0.6.18",
        "split": "true",
        "device_groups": "2",
        "publish": "true",
    }
    choice = decide(dispatch(**inputs)).choice
    assert choice.projects == ("torch", "torchvision")
    assert choice.extensions == ("torch-scatter==2.1.2", "torch-sparse==0.6.18")
    assert decide(dispatch()).choice.extensions is None, "those of the profile"
    assert decide(dispatch(extensions="none")).choice.extensions == ()
    assert (choice.split, choice.device_groups, choice.publish) == (True, 2, True)
    for sources in ("upstream", "miniature"):
        assert decide(dispatch(sources=sources), profile=CI).choice.sources == sources
    assert decide(dispatch(pytorch_projects="all")).choice.projects == TABLES.projects
    assert decide(dispatch(pytorch_projects="torch-only")).choice.projects == ("torch",)
    assert decide(
        dispatch(pytorch_projects="torch", additional_label_options="pytorch:all-components")
    ).choice.projects == ("torch",)


def test_what_the_workflow_itself_asks_for_stays() -> None:
    base = msgspec.structs.replace(BASE, pythons=("3.10",), rocm=Rocm("prefix", "/opt/rocm"), split=True)
    choice = decide(pull(changed=PYTORCH_ONLY), base=base).choice
    assert (choice.pythons, choice.rocm, choice.split) == (("3.10",), Rocm("prefix", "/opt/rocm"), True)


# ---- properties

LABELS = [
    "ci:run-all-archs",
    "gfx950",
    "python:3.13",
    "pytorch_ref:nightly",
    "test:x",
    "bug",
    "ci:skp",
    "ci:pytorch",
]
PATHS = [*DOCS, *PYTORCH_ONLY, *ROCM, "README.md", "pyproject.toml", "src/rocwright/gputest/record.py", "odd"]
EVENTS = st.builds(
    Event,
    trigger=st.sampled_from(TRIGGERS),
    branch=st.sampled_from(["main", "release/2.12", "me", ""]),
    labels=st.lists(st.sampled_from(LABELS), unique=True, max_size=4).map(tuple),
    changed=st.none() | st.lists(st.sampled_from(PATHS), unique=True, max_size=4).map(tuple),
)


@given(EVENTS, st.booleans())
def test_no_step_of_rocm_where_only_pytorch_changed_and_a_run_is_there(event: Event, there: bool) -> None:
    chosen = decide(event, there=there)
    asked = event.trigger in ("schedule", "workflow_dispatch")
    harmless = {*DOCS, "README.md", *PYTORCH_ONLY, "src/rocwright/gputest/record.py"}
    only = not asked and event.changed is not None and set(event.changed) <= harmless
    if chosen.run:
        assert (chosen.choice.rocm.kind == "packages") == (only and there)
    documents = not asked and event.changed is not None and set(event.changed) <= {*DOCS, "README.md"}
    assert chosen.run is not documents
    assert chosen.reasons


@given(EVENTS, st.sampled_from(["3.9", "3.10", "3.14t"]))
def test_a_dispatch_wins_over_labels_over_defaults(any_event: Event, python: str) -> None:
    event = msgspec.structs.replace(any_event, trigger="workflow_dispatch")
    labelled = decide(event).choice.pythons
    assert labelled == (("3.13",) if "python:3.13" in event.labels else ())
    given = msgspec.structs.replace(event, inputs={"python_version": python})
    assert decide(given).choice.pythons == (python,)


@given(EVENTS)
def test_every_family_that_is_chosen_is_known_and_built_there(event: Event) -> None:
    targets = {target for members in FAMILIES.families.values() for target in members}
    for platform, names in decide(event).choice.families_on.items():
        for name in names:
            assert name in FAMILIES.families or name in targets
            assert RUNNERS.on(name, platform) is not None


@given(
    st.lists(st.text(max_size=12), max_size=3),
    st.dictionaries(st.text(max_size=8), st.text(max_size=8), max_size=3),
)
def test_any_text_is_understood_or_refused_by_name(labels: list[str], inputs: dict[str, str]) -> None:
    for event in (pull(*labels), dispatch(**inputs)):
        try:
            chosen = decide(event)
        except RocwrightError as error:
            assert error.next_step
        else:
            assert chosen.reasons

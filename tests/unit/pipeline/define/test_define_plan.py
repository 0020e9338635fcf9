"""Plans: which cells a choice makes, what is refused, and that nothing is left out without a word."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from define_samples import KNOWN, PROFILE, ids, plan_of

from rocwright.errors import InvalidData, InvalidInput, RocwrightError, UsageError
from rocwright.model.gpu import InvalidTarget
from rocwright.model.plan import Choice, Plan, Rocm, Sources, parse_plan
from rocwright.pipeline.define.inputs import choose_rocm, families_to_test, sources_of, words
from rocwright.pipeline.define.plan import chosen, read_plan_file


def test_ids_are_readable() -> None:
    plan = plan_of()
    assert ids(plan, "build-torch") == ["build-torch/linux/cp312/release-2.9/one-all"]
    assert ids(plan, "lock-sources") == ["lock-sources/linux/release-2.9"]
    assert ids(plan, "rocm-packages") == ["rocm-packages/linux/one-all"]
    # The group's name is the family's: said once.
    assert ids(plan, "test-pytorch") == ["test-pytorch/linux/cp312/release-2.9/one-all"]
    assert plan.cell("test-pytorch/linux/cp312/release-2.9/one-all").runner == "one-linux"


def test_families_in_one_group_are_built_once_and_tested_each() -> None:
    choice = Choice("mine", "7", families=("one-all", "two-all"), group="multi-arch-release")
    plan = plan_of(choice)
    assert ids(plan, "build-torch") == ["build-torch/linux/cp312/release-2.9/multi-arch-release"]
    assert ids(plan, "test-pytorch") == [
        "test-pytorch/linux/cp312/release-2.9/multi-arch-release/one-all",
        "test-pytorch/linux/cp312/release-2.9/multi-arch-release/two-all",
    ]
    assert plan.group("multi-arch-release").targets == ("gfx906", "gfx90a", "gfx942")
    untested = plan.cell("test-pytorch/linux/cp312/release-2.9/multi-arch-release/two-all")
    assert untested.skip == "there is no runner for two-all on linux"
    # The gate hears of each family, the one that nobody can test as well.
    gate = plan.cell("gate/linux/cp312/release-2.9/multi-arch-release")
    assert {need for need in gate.needs if need.startswith("test-pytorch")} == set(ids(plan, "test-pytorch"))


ALL = msgspec.structs.replace(PROFILE, tier="nightly", grouping="multi-arch", refs=("release/2.9", "main"))
# Which are tested is said, so all are built together, also what no runner tests.
EVERY = Choice("mine", "7", tested=("one-all", "two-all", "old-all"))


def test_a_profile_builds_all_families_of_a_platform_together() -> None:
    plan = plan_of(EVERY, ALL)
    assert [(group.name, group.platform) for group in plan.groups] == [("multi-arch", "linux")]
    assert ids(plan, "build-torch") == [
        "build-torch/linux/cp312/release-2.9/multi-arch",
        "build-torch/linux/cp312/main/multi-arch",
    ]
    # ROCm once for all of it, and tests for each family.
    (rocm,) = (cell for cell in plan.cells if cell.kind == "rocm-packages")
    assert rocm.settings["targets"] == "gfx900 gfx906 gfx90a gfx942"
    assert [cell.family for cell in plan.cells if cell.kind == "test-rocm"] == [
        "one-all",
        "two-all",
        "old-all",
    ]
    each = msgspec.structs.replace(ALL, grouping="family")
    assert plan_of(profile=each) == plan_of(Choice("mine", "7", grouping="family"), ALL)
    assert [group.name for group in plan_of(profile=each).groups] == ["one-all", "two-all", "old-all"]
    one = plan_of(Choice("mine", "7", families=("two-all",)), ALL)
    assert [group.name for group in one.groups] == ["two-all"]


def test_a_branch_leaves_out_only_the_families_that_it_does_not_support() -> None:
    """Not the whole build of all the others."""
    plan = plan_of(EVERY, ALL)
    there = {cell.ref: cell.settings["targets"] for cell in plan.cells if cell.kind == "build-torch"}
    assert there == {"release/2.9": "gfx906 gfx90a gfx942", "main": "gfx900 gfx906 gfx90a gfx942"}
    tests = [cell for cell in plan.cells if cell.kind == "test-pytorch"]
    assert [cell.family for cell in tests if cell.ref == "release/2.9"] == ["one-all", "two-all"]
    assert [cell.family for cell in tests if cell.ref == "main"] == ["one-all", "two-all", "old-all"]
    gate = plan.cell("gate/linux/cp312/release-2.9/multi-arch")
    assert not [need for need in gate.needs if "old-all" in need]
    assert "old-all on linux is left out of release/2.9: PyTorch does not support it there" in plan.notes
    # A family that is not tested is built all the same.
    untested = plan_of(Choice("mine", "7", tested=("one-all",)), ALL)
    assert {
        cell.ref: cell.settings["targets"] for cell in untested.cells if cell.kind == "build-torch"
    } == there
    assert {cell.family for cell in untested.cells if cell.kind == "test-pytorch"} == {"one-all"}


def test_what_nobody_tests_keeps_back_nothing_that_is_tested() -> None:
    plan = plan_of(profile=ALL)
    assert {group.name: group.families for group in plan.groups} == {
        "multi-arch": ("one-all", "two-all"),
        "old-all": ("old-all",),
    }
    gate = plan.cell("gate/linux/cp312/main/multi-arch")
    assert not [need for need in gate.needs if "old-all" in need]
    assert not any("as one" in note for note in plan.notes)
    # Nothing is promoted, nothing waits.
    unpublished = msgspec.structs.replace(ALL, promote="")
    assert [group.name for group in plan_of(profile=unpublished).groups] == ["multi-arch"]
    nobody = plan_of(Choice("mine", "7", families=("old-all", "gfx900")), ALL)
    assert [group.name for group in nobody.groups] == ["multi-arch"]


def test_what_keeps_a_group_of_all_from_its_channel_is_told() -> None:
    (note,) = (note for note in plan_of(EVERY, ALL).notes if "goes to release as one" in note)
    # one-all has a runner, two-all a bypass.
    assert "no runner tests old-all: the gate stays closed" in note
    assert not any("as one" in note for note in plan_of(Choice("mine", "7", grouping="family"), ALL).notes)


@pytest.mark.parametrize(
    ("given", "next_step"),
    [
        ({}, "--grouping family, or grouping"),
        ({"group": "g", "families": ["one-all", "two-all"]}, "leave out --group"),
    ],
)
def test_several_families_and_an_index_with_a_folder_for_each_are_refused(
    given: dict[str, object], next_step: str
) -> None:
    rocm = Rocm("index", "https://each.example/", by_family=True)
    choice = msgspec.convert({"profile": "mine", "run_id": "7", **given}, Choice)
    with pytest.raises(UsageError, match=r"https://each\.example/ has .* a folder for each family") as caught:
        plan_of(msgspec.structs.replace(choice, rocm=rocm), ALL)
    assert next_step in (caught.value.next_step or "")
    plan_of(Choice("mine", "7", grouping="family", rocm=rocm), ALL)


def test_only_named_families_are_tested() -> None:
    both = Choice("mine", "7", families=("one-all", "two-all"), group="all", tested=("two-all",))
    plan = plan_of(both)
    assert ids(plan, "test-pytorch") == ["test-pytorch/linux/cp312/release-2.9/all/two-all"]
    assert plan.group("all").targets == ("gfx906", "gfx90a", "gfx942")
    assert "not tested, because --test-families leaves them out: one-all" in plan.notes
    assert ids(plan_of(msgspec.structs.replace(both, tested=())), "test-pytorch") == []


def test_a_group_differs_by_platform() -> None:
    choice = Choice("mine", "7", families=("one-all", "two-all"), group="g", platforms=("linux", "windows"))
    plan = plan_of(choice)
    assert plan.group("g", "linux").targets == ("gfx906", "gfx90a", "gfx942")
    assert plan.group("g", "windows").targets == ("gfx90a", "gfx942")
    assert plan.cell("rocm-packages/windows/g").settings["targets"] == "gfx90a gfx942"
    assert "one-all is left out on windows: it is not built there" in plan.notes


def test_a_platform_without_any_of_the_families_is_told() -> None:
    plan = plan_of(Choice("mine", "7", families=("one-all",), platforms=("linux", "windows")))
    assert {cell.platform for cell in plan.cells} == {"linux", ""}
    assert "windows is left out: none of the families is built there" in plan.notes
    with pytest.raises(UsageError, match="none of the families is built on any of the platforms"):
        plan_of(Choice("mine", "7", families=("one-all",), platforms=("windows",)))


def test_a_tier_has_the_families_of_those_before_it() -> None:
    def groups(tier: str) -> list[str]:
        choice = msgspec.convert({"profile": "mine", "run_id": "7", "tier": tier, "refs": ["main"]}, Choice)
        return [group.name for group in plan_of(choice).groups]

    assert groups("presubmit") == ["one-all"]
    assert groups("postsubmit") == ["one-all", "two-all"]
    assert groups("nightly") == ["one-all", "two-all", "old-all"]


def test_tests_of_nightly_runs_are_left_out_of_others_with_a_reason() -> None:
    choice = Choice("mine", "7", families=("two-all",), platforms=("windows",))
    cell = plan_of(choice).cell("test-rocm/windows/two-all")
    assert (cell.runner, cell.skip) == ("", "two-all is tested on windows in nightly runs only")
    nightly = plan_of(msgspec.structs.replace(choice, tier="nightly")).cell("test-rocm/windows/two-all")
    assert (nightly.runner, nightly.skip) == ("two-windows", "")


def test_branches_that_do_not_support_a_family_are_told() -> None:
    choice = Choice("mine", "7", families=("one-all", "old-all"), refs=("release/2.9", "main"))
    plan = plan_of(choice)
    assert [id_ for id_ in ids(plan, "build-torch") if "old" in id_] == [
        "build-torch/linux/cp312/main/old-all"
    ]
    note = "old-all on linux is left out of release/2.9: PyTorch does not support it there"
    assert note in plan.notes
    with pytest.raises(UsageError, match=r"nothing is left to build: old-all on linux"):
        plan_of(Choice("mine", "7", families=("old-all",)))
    # ROCm itself is none of PyTorch's.
    alone = plan_of(Choice("mine", "7", families=("old-all",), build_pytorch=False))
    assert ids(alone, "rocm-packages") == ["rocm-packages/linux/old-all"]
    assert not alone.notes or "PyTorch does not" not in " ".join(alone.notes)


def test_opt_in_projects_are_built_when_named() -> None:
    choice = Choice("mine", "7", platforms=("windows",), families=("two-all",))
    assert not ids(plan_of(choice), "build-triton")
    named = plan_of(msgspec.structs.replace(choice, projects=("torch", "triton")))
    assert ids(named, "build-triton") == ["build-triton/windows/cp312/release-2.9/two-all"]
    assert not ids(named, "build-torchvision")


def test_the_miniature_family_stands_for_the_whole_matrix() -> None:
    plan = plan_of(Choice("mine", "7", sources="miniature"))
    assert ids(plan, "build-torch") == ["build-torch/linux/cp311/release-1.0/house"]
    assert "miniature" in " ".join(plan.notes)
    with pytest.raises(UsageError, match="linux only, not on windows"):
        plan_of(Choice("mine", "7", sources="miniature", platforms=("windows",)))
    # ROCm from elsewhere is none of the distribution's.
    prefix = Choice("mine", "7", sources="miniature", rocm=Rocm("prefix", "/opt/rocm"))
    assert plan_of(prefix).groups[0].name == "miniature"


@pytest.mark.parametrize("sources", ["miniature", "upstream"])
def test_the_sources_that_are_asked_for_stand_in_the_plan_and_its_lock(sources: Sources) -> None:
    of_profile = msgspec.structs.replace(PROFILE, sources=sources)
    for plan in (plan_of(Choice("mine", "7", sources=sources)), plan_of(profile=of_profile)):
        assert plan.sources == sources
        (lock,) = (cell for cell in plan.cells if cell.kind == "lock-sources")
        assert lock.settings["sources"] == sources


def test_targets_are_cut_into_parts_that_are_merged() -> None:
    plan = plan_of(Choice("mine", "7", families=("every-all",), device_groups=2, split=True))
    parts = [cell.part for cell in plan.cells if cell.kind == "build-torch"]
    assert parts == ["gfx900+gfx906", "gfx90a+gfx942+gfx1030"]
    merge = plan.cell("merge-torch/linux/cp312/release-2.9/every-all")
    assert set(ids(plan, "build-torch")) < set(merge.needs)
    # Host code is that of the whole build, whichever targets a part compiles.
    settings = {cell.settings["targets"] for cell in plan.cells if cell.kind == "build-torch"}
    assert settings == {"gfx900 gfx906 gfx90a gfx942 gfx1030"}
    with pytest.raises(UsageError, match="every-all has 5 targets, which cannot be built in 6 parts"):
        plan_of(Choice("mine", "7", families=("every-all",), device_groups=6))


def test_packages_of_an_earlier_run_leave_no_step_of_rocm() -> None:
    plan = plan_of(Choice("mine", "7", rocm=Rocm("packages", "123")))
    done = {cell.kind for cell in plan.cells}
    assert not done & {"rocm-artifacts", "check-rocm", "test-rocm"}
    assert plan.cell("rocm-packages/linux/one-all").settings["rocm"] == "packages 123"
    # What is looked up is not uploaded again.
    assert plan.cell("upload-rocm/linux/one-all").changes == "nothing"


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"families": ["one-al"]}, "'one-al' is not a known family or target"),
        ({"families": ["one-all"], "tested": ["nope"]}, "'nope' is not a known family"),
        ({"run_id": "../x"}, "is not a valid run id"),
        ({"run_id": ""}, "is not a valid run id"),
        ({"families": ["one-all"], "tested": ["two-all"]}, "two-all, which is not built"),
        ({"families": ["one-all", "one-all"]}, "--families gives one-all twice"),
        ({"platforms": ["macos"]}, "there is no platform 'macos'"),
        ({"pythons": ["3"]}, "'3' is not a version of Python"),
        ({"pythons": ["3.12", "3.12"]}, "--python-versions gives 3.12 twice"),
        ({"refs": ["-x"]}, "'-x' is not a branch"),
        ({"refs": ["a/../b"]}, "is not a branch"),
        ({"refs": ["a b"]}, "is not a branch"),
        ({"refs": ["a/b", "a-b"]}, "two steps of this run are called lock-sources/linux/a-b"),
        ({"projects": ["torchvison"]}, "there is no project 'torchvison'"),
        ({"projects": ["torchvision"]}, "--projects leaves out torch"),
        ({"device_groups": 0}, "--device-groups is 0"),
        ({"group": "g"}, "--group g names a group without families"),
        ({"group": "a/b", "families": ["one-all"]}, "'a/b' is not a valid group name"),
        ({"build_pytorch": False, "refs": ["main"]}, "--no-pytorch .* but --pytorch-git-refs"),
        ({"build_pytorch": False, "projects": ["torch"]}, "--no-pytorch .* but --projects"),
        ({"build_pytorch": False, "split": True}, "--no-pytorch .* but --split"),
        ({"build_pytorch": False, "device_groups": 2}, "--no-pytorch .* but --device-groups"),
        ({"build_pytorch": False, "rocm": {"kind": "packages", "at": "1"}}, "leaves nothing to build"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(given: dict[str, object], said: str) -> None:
    choice = msgspec.convert({"profile": "mine", "run_id": "7", **given}, Choice)
    with pytest.raises(RocwrightError, match=said) as told:
        plan_of(choice)
    assert isinstance(told.value, (UsageError, InvalidTarget, InvalidInput))
    assert told.value.next_step


@pytest.mark.parametrize(
    ("given", "both"),
    [
        ({"prefix": "/opt/rocm", "run_id": "1"}, ("--rocm-prefix", "--artifact-run-id")),
        ({"reuse": "artifacts"}, ("--reuse", "--artifact-run-id")),
        ({"repository": "a/b"}, ("--repository", "--artifact-run-id")),
        ({"version": "7.0"}, ("--rocm-version", "--rocm-prefix")),
        ({"source": "index:stable", "prefix": "/opt/rocm"}, ("--rocm", "--rocm-prefix")),
        ({"source": "index:stable", "run_id": "1"}, ("--rocm", "--artifact-run-id")),
    ],
)
def test_rocm_comes_from_one_place(given: dict[str, str], both: tuple[str, str]) -> None:
    with pytest.raises(UsageError) as told:
        choose_rocm(KNOWN, **given)
    assert all(option in str(told.value) for option in both)


@pytest.mark.parametrize(
    ("text", "rocm"),
    [
        ("distribution", Rocm()),
        ("index:stable", Rocm("index", "https://packages.example/")),
        ("index:each", Rocm("index", "https://each.example/", by_family=True)),
        ("index:https://other.example/whl", Rocm("index", "https://other.example/whl")),
        ("page:https://other.example/all.html", Rocm("page", "https://other.example/all.html")),
        ("therock:17123", Rocm("artifacts", "17123", store="s3://therock")),
        ("packages:17", Rocm("packages", "17")),
        ("artifacts:17", Rocm("artifacts", "17")),
        ("prefix:/opt/rocm", Rocm("prefix", "/opt/rocm")),
        ("tarball:/data/therock-dist.tar.gz", Rocm("tarball", "/data/therock-dist.tar.gz")),
        ("tarball:https://other.example/rocm.tar.gz", Rocm("tarball", "https://other.example/rocm.tar.gz")),
        ("command:make -C rocm install", Rocm("command", "make -C rocm install")),
    ],
)
def test_where_rocm_comes_from_is_written_in_one_way(text: str, rocm: Rocm) -> None:
    assert choose_rocm(KNOWN, source=text) == rocm
    # The environment says the same, and any option comes before it.
    assert choose_rocm(KNOWN, usual=text) == rocm
    assert choose_rocm(KNOWN, usual=text, prefix="/opt/x") == Rocm("prefix", "/opt/x")
    assert choose_rocm(KNOWN, usual=text, run_id="9") == Rocm("packages", "9")
    plan = plan_of(Choice("mine", "7", rocm=rocm))
    assert plan.rocm == rocm
    settings = {cell.settings["rocm"] for cell in plan.cells if cell.kind == "rocm-packages"}
    assert settings == {rocm.words}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nightly", r"'nightly' does not say where ROCm comes from"),
        ("indx:stable", r"perhaps index:stable"),
        ("index:", r"'index:' lacks the name or the address of a package index"),
        ("index:nope", r"there is no index named 'nope'"),
        ("page:folder", r"'folder' is not the address of a page"),
        ("therock:../x", r"is not a valid run id"),
        ("distribution:debian", r"nothing follows distribution"),
        ("command: ", r"lacks a command line"),
    ],
)
def test_what_names_no_rocm_is_refused(text: str, said: str) -> None:
    with pytest.raises(RocwrightError, match=said):
        choose_rocm(KNOWN, source=text)


def test_a_profile_says_where_rocm_comes_from_for_pytorch_itself() -> None:
    assert plan_of().rocm == Rocm("index", "https://packages.example/")
    own = msgspec.structs.replace(PROFILE, rocm="index:each")
    assert plan_of(profile=own).rocm == Rocm("index", "https://each.example/", by_family=True)
    assert plan_of(Choice("mine", "7", sources="miniature"), own).rocm == Rocm()


def test_no_distribution_has_rocm_for_windows() -> None:
    both = msgspec.structs.replace(PROFILE, platforms=("linux", "windows"), tier="postsubmit")
    plan = plan_of(Choice("mine", "7", rocm=Rocm()), both)
    assert {cell.platform for cell in plan.cells} == {"linux", ""}
    assert "windows is left out: no distribution has ROCm for it" in " ".join(plan.notes)
    with pytest.raises(UsageError, match="no distribution has ROCm for windows"):
        plan_of(Choice("mine", "7", rocm=Rocm(), platforms=("windows",)), both)


def test_texts_of_options() -> None:
    assert words(["a;b c", " d,,e\n"]) == ("a", "b", "c", "d", "e")
    assert [families_to_test(text) for text in ("auto", "", "none", "a b")] == [None, None, (), ("a", "b")]
    assert choose_rocm(KNOWN, run_id="9") == Rocm("packages", "9")
    assert choose_rocm(KNOWN, run_id="9", reuse="artifacts", repository="o/r") == Rocm(
        "artifacts", "9", "o/r"
    )
    assert sources_of({}) is None and sources_of({"ROCWRIGHT_SOURCES": ""}) is None
    assert sources_of({"ROCWRIGHT_SOURCES": "upstream"}) == "upstream"
    with pytest.raises(UsageError, match="ROCWRIGHT_SOURCES is 'pytorch'"):
        sources_of({"ROCWRIGHT_SOURCES": "pytorch"})


def test_a_part_of_a_plan_says_what_it_takes_from_records() -> None:
    plan = plan_of()
    part = chosen(plan, ["build-torch*"])
    assert [cell.id for cell in part.cells] == [
        "build-torch/linux/cp312/release-2.9/one-all",
        "build-torchvision/linux/cp312/release-2.9/one-all",
    ]
    assert [job.name for job in part.jobs] == ["build_pytorch_wheels"]
    assert part.notes[-1].startswith(
        "taken from the records of the run, not done: rocm-packages/linux/one-all"
    )
    # A job's id takes all of it.
    job = chosen(plan, ["build_python_packages/linux/one-all"])
    assert [cell.kind for cell in job.cells] == ["rocm-packages", "check-rocm", "upload-rocm"]
    with pytest.raises(InvalidInput, match="build-tosh") as told:
        chosen(plan, ["build-torch/*", "build-tosh/linux/cp312/release-2.9/one-all"])
    assert "build-torch/linux/cp312/release-2.9/one-all" in str(told.value.next_step)


def test_ids_of_cells_and_jobs_find_them() -> None:
    plan = plan_of()
    assert [cell.kind for cell in plan.cells_of("build_python_packages/linux/one-all")] == [
        "rocm-packages",
        "check-rocm",
        "upload-rocm",
    ]
    gate = "gate/linux/cp312/release-2.9/one-all"
    assert [cell.id for cell in plan.cells_of(gate)] == [gate]
    with pytest.raises(InvalidInput, match=r"no step 'gat/linux/cp312/release-2.9/one-all'") as told:
        plan.cells_of("gat/linux/cp312/release-2.9/one-all")
    assert gate in str(told.value.next_step)


def test_a_plan_survives_its_json(tmp_path: Path) -> None:
    plan = plan_of(Choice("mine", "7", families=("every-all",), device_groups=2))
    path = tmp_path / "plan.json"
    path.write_bytes(msgspec.json.encode(plan))
    assert read_plan_file(path) == plan
    assert read_plan_file(path).cell("summary") == plan.cell("summary")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "p.json is not a plan of a run"),
        (b"[]", "Expected `object`"),
        (b'{"schema": "1"}', r"\$\.schema"),
        (b"\xff", "p.json is not a plan of a run"),
    ],
)
def test_a_damaged_plan_is_refused_by_field(data: bytes, said: str) -> None:
    with pytest.raises(InvalidData, match=said):
        parse_plan(data, where="p.json")


def test_a_plan_of_another_schema_is_refused() -> None:
    other = msgspec.json.encode(msgspec.structs.replace(plan_of(), schema=99))
    with pytest.raises(InvalidData, match="a plan of schema 99"):
        parse_plan(other, where="p.json")


def test_a_plan_that_contradicts_itself_is_refused() -> None:
    plan = plan_of()
    first, second = plan.cells[0], next(cell for cell in plan.cells if plan.cells[0].id in cell.needs)
    rest = plan.cells[1:]
    twice = msgspec.structs.replace(plan, cells=(*plan.cells, first))
    cycle = msgspec.structs.replace(plan, cells=(msgspec.structs.replace(first, needs=(second.id,)), *rest))
    lost = msgspec.structs.replace(plan, cells=rest)
    for broken, said in (
        (twice, f"the step {first.id} appears twice"),
        (cycle, f"{first.id} needs {second.id}, which does not come before it"),
        (lost, f"has the step {first.id}, which the plan does not have"),
    ):
        with pytest.raises(InvalidData, match=re.escape(said)):
            parse_plan(msgspec.json.encode(broken), where="p.json")


def test_a_missing_plan_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidData, match=r"none\.json cannot be read"):
        read_plan_file(tmp_path / "none.json")


def test_the_same_things_give_the_same_plan() -> None:
    def encoded(plan: Plan) -> bytes:
        return msgspec.json.encode(plan)

    assert encoded(plan_of()) == encoded(plan_of())
    assert KNOWN.families and PROFILE.name == "mine"

"""What stands on torch in a plan: its cells, their order, what is refused before anything is begun."""

from __future__ import annotations

from pathlib import PurePosixPath

import msgspec
import pytest
from define_samples import KNOWN, PROFILE, ids, plan_of

from rocwright.builder.decide.extension import Extension, ExtensionTable
from rocwright.data import load_table
from rocwright.errors import InvalidData, InvalidInput, UsageError
from rocwright.model.plan import Choice, Plan, Profile, Wanted, parse_extensions
from rocwright.model.workflows import SlurmTable
from rocwright.pipeline.define.inputs import extensions_asked
from rocwright.pipeline.render.scripts import MAKEFILE, render_make, slurm_asks
from rocwright.pipeline.setup.run import workflow_outputs

TABLE = ExtensionTable(
    (
        Extension("torch-sparse", needs=("torch-scatter",)),
        Extension("on-sparse", needs=("torch-sparse",)),
        Extension("of-linux", platforms=("linux",)),
        Extension("with-vision", needs=("torchvision",)),
        Extension(
            "no-hope",
            state="refused",
            refused="its sources lack a submodule",
            version="1.0",
            date="2026-11-27",
            source="its sdist",
        ),
    )
)
HERE = msgspec.structs.replace(KNOWN, extensions=TABLE)
BOTH = ("torch-sparse==0.6.18", "torch-scatter==2.1.2")
SCATTER, SPARSE = "build-extension-torch-scatter", "build-extension-torch-sparse"
PLACE = "linux/cp312/release-2.9/one-all"


def asked(*extensions: str, profile: Profile = PROFILE, **more: object) -> Plan:
    choice = msgspec.convert({"profile": "mine", "run_id": "7", "extensions": extensions, **more}, Choice)
    return plan_of(choice, profile, HERE)


def needs(plan: Plan, kind: str) -> list[str]:
    (cell,) = (cell for cell in plan.cells if cell.kind == kind)
    return [plan.cell(need).kind for need in cell.needs]


def test_each_is_locked_once_for_a_platform_and_built_at_every_place() -> None:
    plan = asked(*BOTH, pythons=["3.12", "3.13"])
    assert ids(plan, "lock-extension-torch-scatter") == ["lock-extension-torch-scatter/linux"]
    assert ids(plan, SCATTER) == [f"{SCATTER}/{PLACE}", f"{SCATTER}/linux/cp313/release-2.9/one-all"]
    cell = plan.cell(f"{SCATTER}/{PLACE}")
    assert cell.settings == {"targets": "gfx906", "extension": "torch-scatter==2.1.2"}
    # On the machine that has built torch, whatever becomes of them.
    assert cell.job == plan.cell(f"build-torch/{PLACE}").job


def test_they_are_built_after_torch_and_in_the_order_of_their_needs() -> None:
    plan = asked(*BOTH)
    assert needs(plan, SCATTER) == [
        "rocm-packages",
        "upload-rocm",
        "lock-extension-torch-scatter",
        # What torch requires, so that it can be imported.
        "build-triton",
        "build-torch",
    ]
    assert needs(plan, SPARSE)[-2:] == ["build-torch", SCATTER]
    # With what that needs in turn: its wheel is imported beside both.
    assert needs(asked("on-sparse==1", *BOTH), "build-extension-on-sparse")[-2:] == [SPARSE, SCATTER]
    order = [cell.kind for cell in plan.cells]
    assert order.index("build-torch") < order.index(SCATTER) < order.index(SPARSE) < order.index("check")
    parts = asked(*BOTH, families=["two-all"], device_groups=2)
    assert needs(parts, SCATTER)[-1] == "merge-torch"
    assert "build-torchvision" in needs(asked("with-vision==1"), "build-extension-with-vision")


def test_their_wheels_go_the_way_of_the_familys() -> None:
    plain, split = asked(*BOTH), asked(*BOTH, split=True)
    built = {"build-torch", "build-torchvision", SCATTER, SPARSE}
    for kind in ("check", "upload-pytorch"):
        assert built <= set(needs(plain, kind))
    assert built <= set(needs(split, "split"))
    assert not built & set(needs(split, "check"))
    # The set says which sources they came from.
    assert {"lock-extension-torch-scatter", "lock-extension-torch-sparse"} <= set(needs(split, "stage"))


def test_they_are_asked_for_by_the_profile_or_in_its_place() -> None:
    nightly = msgspec.structs.replace(PROFILE, extensions=("torch-scatter==2.1.2",))
    assert ids(plan_of(profile=nightly, known=HERE), SCATTER)
    other = asked("torch-cluster==1.6.3", profile=nightly)
    assert ids(other, "build-extension-torch-cluster") and not ids(other, SCATTER)
    assert not [cell for cell in asked(profile=nightly).cells if "extension" in cell.kind]
    assert (extensions_asked([]), extensions_asked(["none"])) == (None, ())
    assert extensions_asked(["a==1, b==2"]) == ("a==1", "b==2")


def test_those_of_a_profile_are_not_built_on_the_miniature_torch() -> None:
    nightly = msgspec.structs.replace(PROFILE, extensions=("torch-scatter==2.1.2",))
    plan = plan_of(Choice("mine", "7", sources="miniature"), nightly, HERE)
    assert not [cell for cell in plan.cells if "extension" in cell.kind]
    assert "torch-scatter is left out: it stands on PyTorch, not on the miniature" in plan.notes
    assert [cell for cell in asked("own==1", sources="miniature").cells if "extension" in cell.kind]


def test_a_version_decides_its_own_cells_and_what_comes_after_them() -> None:
    before, after = asked(*BOTH), asked(BOTH[0], "torch-scatter==2.1.1")
    digests = {cell.id: cell.digest for cell in before.cells}
    changed = {cell.kind for cell in after.cells if digests[cell.id] != cell.digest}
    assert {"lock-extension-torch-scatter", SCATTER, SPARSE, "check", "stage"} <= changed
    assert not changed & {"rocm-packages", "build-torch", "build-torchvision", "lock-extension-torch-sparse"}
    # What no run asks for changes nothing.
    assert {cell.id: cell.digest for cell in plan_of(known=HERE).cells} == {
        cell.id: cell.digest for cell in plan_of().cells
    }


def test_where_they_may_fail_the_set_does_without_them_and_not_without_the_family() -> None:
    lenient = msgspec.structs.replace(PROFILE, extensions_may_fail=True)
    for more in ({}, {"split": True}):
        plan = asked(*BOTH, profile=lenient, **more)
        built = {f"{SCATTER}/{PLACE}", f"{SPARSE}/{PLACE}"}
        locked = {"lock-extension-torch-scatter/linux", "lock-extension-torch-sparse/linux"}
        assert plan.spare == built | locked
        taken = plan.cell(f"{'split' if more else 'check'}/{PLACE}")
        assert set(taken.spare) == built < set(taken.needs)
        # What needs another one cannot do without it.
        assert plan.cell(f"{SPARSE}/{PLACE}").spare == ()
        assert not asked(*BOTH, **more).spare
    unpublished = msgspec.structs.replace(lenient, stage="", promote="")
    assert locked < asked(*BOTH, profile=unpublished).spare, "also where no set needs to know the sources"


def test_what_a_platform_does_not_have_is_left_out_there_by_name() -> None:
    plan = asked("of-linux==1", platforms=["linux", "windows"], families=["one-all", "two-all"])
    assert [cell.platform for cell in plan.cells if cell.kind == "build-extension-of-linux"] == ["linux"] * 2
    assert "of-linux is left out on windows: it is not built there" in plan.notes


@pytest.mark.parametrize(
    ("extensions", "more", "said", "step"),
    [
        (["torch-scatter"], {}, "'torch-scatter', which names no project and its version", "torch-scatter=="),
        (["torch-scatter>=2"], {}, "names no project and its version", "write it like"),
        (["a==1", "A==2"], {}, "'A==2' besides a==1", "give each project once"),
        (["torchvision==0.21"], {}, "torchvision==0.21, which is of the PyTorch family", "--projects"),
        (["no-hope==1.0"], {}, "no-hope==1.0 is not built: its sources lack a submodule", "leave no-"),
        (["torch-sparse==0.6"], {}, "torch-sparse needs torch-scatter, which this run", "add torch-scatter"),
        (["with-vision==1"], {"projects": ["torch"]}, "with-vision needs torchvision", "or to --projects"),
        (["torch-scatter==2"], {"build_pytorch": False}, "--no-pytorch builds no PyTorch", "leave one of"),
    ],
)
def test_what_cannot_be_built_is_refused_before_anything_begins(
    extensions: list[str], more: dict[str, object], said: str, step: str
) -> None:
    with pytest.raises(UsageError) as caught:
        asked(*extensions, **more)
    assert said in caught.value.what
    assert step in (caught.value.next_step or "")


def test_a_circle_of_needs_is_named() -> None:
    circle = ExtensionTable((Extension("a", needs=("b",)), Extension("b", needs=("a",))))
    choice = Choice("mine", "7", extensions=("a==1", "b==1"))
    with pytest.raises(InvalidData, match="these extensions need one another: a, b"):
        plan_of(choice, known=msgspec.structs.replace(KNOWN, extensions=circle))


def test_a_profile_with_a_text_that_is_none_is_refused_where_it_is_read() -> None:
    row = msgspec.to_builtins(PROFILE) | {"extensions": ["torch-scatter"]}
    with pytest.raises(msgspec.ValidationError, match="profile mine has the extension 'torch-scatter'"):
        msgspec.convert(row, Profile)
    assert parse_extensions(["Torch_Scatter==2.1.2"]) == (Wanted("torch-scatter", "2.1.2"),)
    with pytest.raises(InvalidInput, match="names no project"):
        parse_extensions(["--option==1"])


def rules(plan: Plan) -> dict[str, list[str]]:
    """Lines of each rule of the Makefile, by its target."""
    text = render_make(plan)[PurePosixPath(MAKEFILE)]
    found = [rule.splitlines() for rule in text.split("\n\n") if rule.startswith("done/")]
    return {lines[0].partition(":")[0].removeprefix("done/"): lines for lines in found}


def test_a_makefile_has_them_after_torch_and_asks_again_for_those_that_may_fail() -> None:
    found = rules(asked(*BOTH))
    assert f" done/build-torch/{PLACE}" in found[f"{SCATTER}/{PLACE}"][0]
    assert f" done/{SCATTER}/{PLACE}" in found[f"{SPARSE}/{PLACE}"][0]
    assert all("touch" in lines[-1] for lines in found.values())
    lenient = rules(asked(*BOTH, profile=msgspec.structs.replace(PROFILE, extensions_may_fail=True)))
    left = {id_.partition("/")[0] for id_, lines in lenient.items() if "touch" not in lines[-1]}
    locked = {"lock-extension-torch-scatter", "lock-extension-torch-sparse"}
    assert left == {SCATTER, SPARSE} | locked


def test_workflows_need_no_job_that_they_do_not_have() -> None:
    """They are rendered for every run, and nobody knows then what it is asked for."""
    plain, more = plan_of(known=HERE), asked(*BOTH)
    assert {job.name for job in more.jobs} == {job.name for job in plain.jobs}
    locks = msgspec.json.decode(workflow_outputs(more)["lock_sources"])
    assert sorted(locks) == ["lock_sources/linux", "lock_sources/linux/release-2.9"]
    (build,) = (job for job in more.jobs if f"{SCATTER}/{PLACE}" in job.cells)
    assert build.id == f"build_pytorch_wheels/{PLACE}"
    assert set(locks) <= set(build.needs)


def test_a_job_of_a_cluster_gets_what_device_code_takes() -> None:
    asks = slurm_asks(asked(*BOTH, sources="upstream"), load_table("slurm", SlurmTable))
    assert (asks[f"{SCATTER}/{PLACE}"].cpus, asks["lock-extension-torch-scatter/linux"].cpus) == (32, 1)

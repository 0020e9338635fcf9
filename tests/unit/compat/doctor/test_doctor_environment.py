"""What the doctor finds about torch and Python: each finding where it belongs, and none where it does not.

The environments are real ones of this Python, made by hand, with distributions as installers leave them.
"""

from __future__ import annotations

import platform
import shutil
import sys
from pathlib import Path

import msgspec
import pytest

from rocwright.compat.doctor.environment import active_python, find_python, gather_environment
from rocwright.compat.doctor.facts import DoctorTable, Machine
from rocwright.compat.doctor.observations import EXAMINATIONS, Observation
from rocwright.compat.doctor.run import judge, make_case
from rocwright.data import load_table
from rocwright.errors import MissingTool, UsageError
from trees import write
from unit.compat.doctor.desk import INDEX, MI210, Room, Tree, bad, of, one, pip, visit

HERE = f"3.{sys.version_info[1]}"


def test_an_environment_in_order(room: Room, tree: Tree) -> None:
    room.rocm(devices=["gfx90a"], offered=["gfx90a", "gfx942"])
    room.torch(requires=["rocm[libraries]==7.10.0"])
    found = visit(room, tree.gpu(MI210))
    assert bad(found) == {}
    assert found.environment is not None
    assert found.environment.torch == "rocm"
    assert [(item.name, item.version, item.whose) for item in found.environment.installed] == [
        ("rocm", "7.10.0", None),
        ("rocm-sdk-core", "7.10.0", None),
        ("rocm-sdk-device-gfx90a", "7.10.0", None),
        ("rocm-sdk-libraries", "7.10.0", None),
        ("torch", "2.9.0+rocm7.10.0", None),
    ]
    assert one(found, "device-code").detail == "rocm: device code for gfx90a"
    assert {item.id for item in found.observations} <= {row.id for row in EXAMINATIONS}


# --- torch


def test_no_torch(room: Room) -> None:
    item = one(visit(room), "torch")
    assert (item.verdict, item.detail) == ("missing", f"no torch in {room.root}")
    assert item.next_step == f"{pip(room)} {INDEX} torch"


@pytest.mark.parametrize(
    ("version", "cuda", "built", "kind"),
    [("2.9.0+cu128", "12.8", "CUDA 12.8", "cuda"), ("2.9.0+cpu", None, "the CPU only", "cpu")],
)
def test_pypis_torch_is_not_one_for_rocm(
    room: Room, version: str, cuda: str | None, built: str, kind: str
) -> None:
    room.torch(version, hip=None, cuda=cuda)
    found = visit(room)
    item = one(found, "torch")
    assert item.verdict == "wrong" and f"torch {version} is built for {built}" in item.detail
    assert item.next_step == f"{pip(room)} {INDEX} --reinstall torch"
    assert found.environment is not None and found.environment.torch == kind


def test_a_torch_whose_files_are_gone(room: Room) -> None:
    room.torch()
    shutil.rmtree(room.site / "torch")
    item = one(visit(room), "torch")
    assert "its package torch/ is gone" in item.detail
    assert item.next_step == f'{pip(room)} {INDEX} --reinstall --no-deps "torch==2.9.0+rocm7.10.0"'.replace(
        '"', ""
    )


def test_a_torch_that_is_imported_from_its_sources(room: Room) -> None:
    room.torch(more={"direct_url.json": '{"url": "file:///src/pytorch", "dir_info": {"editable": true}}'})
    shutil.rmtree(room.site / "torch")
    item = one(visit(room), "torch")
    assert item.verdict == "note" and "from its sources (file:///src/pytorch)" in item.detail


def test_version_py_is_read_and_not_run(room: Room, tmp_path: Path) -> None:
    room.torch()
    for name in ("__init__.py", "version.py"):
        path = room.site / "torch" / name
        path.write_text(path.read_text() + f"\nopen({str(tmp_path / 'ran')!r}, 'w')\n")
    visit(room)
    assert not (tmp_path / "ran").exists()


def test_a_torch_on_pythonpath_is_in_front(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.torch()
    write(tmp_path / "other/torch/__init__.py")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "other"))
    item = one(visit(room), "shadowed")
    assert item.verdict == "wrong" and str(tmp_path / "other") in item.detail
    assert item.next_step == "unset PYTHONPATH"


def test_a_pythonpath_without_torch_shadows_nothing(
    room: Room, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room.torch()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert of(visit(room), "shadowed") == []


# --- Python and tags


def test_a_python_that_wheels_are_made_for(room: Room) -> None:
    assert one(visit(room), "python").verdict == "ok"


def test_a_wheel_for_another_python(room: Room) -> None:
    room.torch(tag="cp39-cp39-linux_x86_64")
    item = one(visit(room), "tags")
    assert item.verdict == "wrong"
    assert f"is a wheel for cp39-cp39-linux_x86_64, this is Python {HERE}" in item.detail
    assert item.next_step == "uv venv --python 3.9 NEW, and install there"


def test_a_wheel_for_another_machine(room: Room) -> None:
    room.torch(tag="py3-none-manylinux_2_28_s390x")
    assert "is a wheel for manylinux_2_28_s390x, this machine is" in one(visit(room), "tags").detail


def test_a_wheel_for_a_newer_glibc(room: Room) -> None:
    room.torch(tag=f"py3-none-manylinux_2_99_{platform.machine()}")
    assert "needs glibc 2.99, this system has" in one(visit(room), "tags").detail


def test_wheels_that_fit_here_are_not_told_of(room: Room) -> None:
    room.torch(tag=f"cp3{sys.version_info[1]}-cp3{sys.version_info[1]}-manylinux_2_17_{platform.machine()}")
    room.install("triton", "3.5.0", tag=f"py3-none-linux_{platform.machine()}")
    assert of(visit(room), "tags") == []


def changed(room: Room, **facts: object) -> list[Observation]:
    """What the rules about Python say of this environment, were it another one."""
    table = load_table("doctor", DoctorTable)
    machine = Machine(system="linux", nodes="/x", driver_listed=False)
    environment = msgspec.structs.replace(gather_environment(room.python, table), **facts)
    return [item for item in judge(make_case(machine, table, environment)) if item.id in ("python", "tags")]


@pytest.mark.parametrize(
    ("facts", "part"),
    [
        (
            {"version": "3.9", "full": "3.9.2"},
            "Python 3.9.2: wheels are made for 3.10, 3.11, 3.12, 3.13, 3.14",
        ),
        ({"version": "3.13t", "full": "3.13.1"}, "Python 3.13.1 (free-threaded): wheels are made for"),
        ({"implementation": "pypy"}, "is pypy; wheels are made for CPython"),
    ],
)
def test_pythons_that_no_wheels_are_made_for(room: Room, facts: dict[str, object], part: str) -> None:
    (item,) = changed(room, **facts)
    assert item.verdict == "wrong" and part in item.detail
    assert item.next_step == "uv venv --python 3.13 NEW, and install there"


@pytest.mark.parametrize(
    ("tag", "facts", "part"),
    [
        (
            "manylinux_2_28_x86_64",
            {"libc": "musl"},
            "is a wheel for glibc (manylinux_2_28_x86_64), this system has musl",
        ),
        ("manylinux_2_28_x86_64", {"libc_version": "2.17"}, "needs glibc 2.28, this system has 2.17"),
        ("manylinux2014_x86_64.manylinux_2_28_x86_64", {"libc_version": "2.12"}, "needs glibc 2.17"),
        ("manylinux_2_28_x86_64", {"libc_version": "2.28"}, ""),
        ("manylinux2014_x86_64.manylinux_2_28_x86_64", {"libc_version": "2.17"}, ""),
        ("musllinux_1_2_x86_64", {"libc": "musl"}, ""),
        ("linux_x86_64", {"libc_version": "2.5"}, ""),
        ("manylinux_2_28_x86_64", {"machine": "aarch64"}, "this machine is aarch64"),
        ("win_amd64", {}, "this is Python 3."),
    ],
)
def test_wheels_and_systems(room: Room, tag: str, facts: dict[str, object], part: str) -> None:
    text = "".join(f"Tag: py3-none-{platform}\n" for platform in tag.split("."))
    (room.torch() / "WHEEL").write_text(text)
    found = [item for item in changed(room, **{"machine": "x86_64", **facts}) if item.id == "tags"]
    assert [part in item.detail for item in found] == ([True] if part else [])


# --- which environment


def test_an_environment_is_named_by_its_directory_or_its_program(room: Room) -> None:
    assert find_python(str(room.root)) == find_python(str(room.python)) == room.python


@pytest.mark.parametrize("text", ["nowhere", "empty", ""])
def test_what_is_no_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(UsageError, match="--python"):
        find_python(text)


def test_a_program_that_is_no_python(room: Room) -> None:
    room.python.unlink()
    room.python.symlink_to("/bin/true")
    with pytest.raises(MissingTool, match="does not answer as a Python interpreter"):
        visit(room)


def test_the_active_environment_is_looked_at_where_it_has_something(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert active_python({"VIRTUAL_ENV": str(room.root)}) == room.python
    assert active_python({"CONDA_PREFIX": str(room.root)}) == room.python
    monkeypatch.chdir(room.root)
    assert active_python({"VIRTUAL_ENV": "/nowhere"}) is None
    (room.root / ".venv").symlink_to(room.root)
    assert active_python({}) == room.root / ".venv/bin/python"
    assert visit(room, asked=False).environment is None
    room.torch()
    assert visit(room, asked=False).environment is not None

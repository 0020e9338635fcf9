"""What `elf-symbols` says of libraries in published wheels is what the loader says, both ways."""

from __future__ import annotations

import platform
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from real import corpus, false_alarms, image_edit
from real.loader_witness import compared
from real.wheel_edit import WheelEdit, open_wheel

LINUX = {one.item.name: one.item for one in false_alarms.load() if "manylinux" in one.item.file}
pytestmark = pytest.mark.skipif(
    platform.machine() != "x86_64" or not (shutil.which("ldd") and shutil.which("patchelf")),
    reason="the wheels are for x86_64, and ldd and patchelf are asked",
)


def rename(wheel: WheelEdit, member: str) -> None:
    """Another name for what a module wants of a library in its wheel."""
    data = wheel.read(member)
    own = (b"\0H5", b"\0GEOS", b"\0zmq_")
    wanted = next(name for name in image_edit.undefined(data) if name.startswith(own))
    # An editor of RPATHs leaves the old table of names behind.
    wheel.put(member, data.replace(wanted, wanted[:-2] + b"Q\0"))


def forget(wheel: WheelEdit, member: str) -> None:
    """No library of the wheel is named any more by a module that uses it."""
    for name in image_edit.needed(wheel.read(member)):
        if name.startswith(("libhdf5", "libgeos_c", "libzmq")):
            wheel.run(member, "patchelf", "--remove-needed", name)


@pytest.mark.parametrize("name", ["pillow", "lxml", "pyzmq", "h5py", "shapely"])
def test_loader_and_rule_agree_on_a_published_wheel(name: str) -> None:
    said = compared(corpus.obtain(LINUX[name]))
    assert len(said.members) >= 3
    assert [one for one in said.differences if not one.why] == []
    assert said.missed == set()


@pytest.mark.parametrize(
    ("name", "ending"),
    [("h5py", "h5py/defs."), ("shapely", "shapely/lib."), ("pyzmq", "zmq/backend/cython/_zmq.")],
)
@pytest.mark.parametrize("fault", [rename, forget])
def test_loader_and_rule_miss_the_same_symbols(
    tmp_path: Path, name: str, ending: str, fault: Callable[[WheelEdit, str], None]
) -> None:
    wheel = open_wheel(corpus.obtain(LINUX[name]))
    (member,) = (one for one in wheel.names() if one.startswith(ending) and one.endswith(".so"))
    fault(wheel, member)
    said = compared(wheel.save(tmp_path))
    assert [one for one in said.differences if not one.why] == []
    assert {one for one, _ in said.missed} == {member}

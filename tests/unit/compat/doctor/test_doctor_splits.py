"""What hosts and device packages of an environment say of the split that they are of."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

import pytest

from rocwright.device_code.origin import SplitOrigin, pack_origin
from unit.compat.doctor.desk import MI210, Room, Tree, bad, of, one, pip, visit

ONE, OTHER = "a" * 32, "b" * 32
VERSION = "2.9.0+rocm7.10.0"
DEVICE = "amd-torch-device-"


def said(build: str, part: str = "", targets: Sequence[str] = ()) -> dict[str, str]:
    """The file that a split leaves beside archives."""
    origin = SplitOrigin("torch", build, part, tuple(targets))
    return {f"torch/.kpack/{origin.name}": pack_origin(origin).decode()}


def host(room: Room, build: str = ONE, *, offered: Sequence[str] = ("gfx90a", "gfx942")) -> None:
    room.torch(
        files=said(build, targets=["gfx90a:xnack-", "gfx942"]),
        extras=[f"device-{word}" for word in offered],
        requires=[f"{DEVICE}{word}=={VERSION} ; extra == 'device-{word}'" for word in offered],
    )


def device(room: Room, word: str, build: str = ONE, *targets: str, archives: Sequence[str] = ()) -> None:
    files = said(build, word, targets)
    files |= {f"torch/.kpack/torch_{target}.kpack": "code" for target in archives or targets}
    room.install(f"{DEVICE}{word}", VERSION, files, requires=[f"torch=={VERSION}"])


def test_a_host_and_its_device_packages(room: Room, tree: Tree) -> None:
    host(room)
    device(room, "gfx90a", ONE, "gfx90a:xnack-")
    found = visit(room, tree.gpu(MI210))
    item = one(found, "device-build")
    assert (item.verdict, item.detail) == (
        "ok",
        "amd-torch-device-gfx90a, torch: device code is of its host's build",
    )
    assert bad(found) == {}


def test_a_device_package_of_another_build_of_one_version(room: Room) -> None:
    host(room)
    device(room, "gfx942", OTHER, "gfx942")
    item = one(visit(room), "device-build")
    assert item.verdict == "wrong"
    assert item.detail.startswith(
        f"amd-torch-device-gfx942 {VERSION} has device code of build bbbbbbbbbbbb, torch {VERSION} "
        "is of build aaaaaaaaaaaa: "
    )
    assert item.next_step.startswith(pip(room))
    assert item.next_step.endswith(f"--no-deps torch=={VERSION} amd-torch-device-gfx942=={VERSION}")


def test_an_archive_that_its_package_never_had(room: Room) -> None:
    host(room)
    device(room, "gfx942", ONE, "gfx942", "gfx942:xnack-", archives=["gfx942"])
    item = one(visit(room), "device-build")
    assert item.verdict == "missing"
    assert f"amd-torch-device-gfx942 {VERSION} was split with torch_gfx942:xnack-.kpack, " in item.detail


def test_an_archive_that_was_removed_is_one_fault(room: Room) -> None:
    host(room)
    device(room, "gfx942", ONE, "gfx942")
    (room.site / "torch/.kpack/torch_gfx942.kpack").unlink()
    assert list(bad(visit(room))) == ["files"]


def test_an_archive_that_is_not_the_one_that_its_package_names(room: Room) -> None:
    """RECORD was written for it: the wheel was packed again. What changes later, RECORD tells."""
    host(room)
    named = {"gfx942": sha256(b"code").hexdigest()}
    origin = SplitOrigin("torch", ONE).of_part("gfx942", named)
    files = {
        f"torch/.kpack/{origin.name}": pack_origin(origin).decode(),
        "torch/.kpack/torch_gfx942.kpack": "code",
    }
    archive = room.site / "torch/.kpack/torch_gfx942.kpack"
    room.install(f"{DEVICE}gfx942", VERSION, files, requires=[f"torch=={VERSION}"])
    assert one(visit(room), "device-build").verdict == "ok"
    archive.write_text("codd")
    assert list(bad(visit(room))) == []
    assert list(bad(visit(room, deep=True))) == ["files"]
    files["torch/.kpack/torch_gfx942.kpack"] = "codd"
    room.install(f"{DEVICE}gfx942", VERSION, files, requires=[f"torch=={VERSION}"])
    item = one(visit(room), "device-build")
    assert item.verdict == "wrong"
    assert item.detail == (
        f"amd-torch-device-gfx942 {VERSION} came with another torch_gfx942.kpack than it was split with: "
        "code of another build, or damaged"
    )
    assert item.next_step.endswith(f"--no-deps amd-torch-device-gfx942=={VERSION}")


def test_a_gpu_whose_code_no_extra_brings(room: Room, tree: Tree) -> None:
    host(room, offered=())
    item = one(visit(room, tree.gpu(MI210)), "device-build")
    assert (item.verdict, item.about) == ("missing", "torch gfx90a")
    assert item.detail == (
        f"torch {VERSION} was split into code for GPU 0 (gfx90a), and no archive for it is installed"
    )
    device(room, "gfx90a", ONE, "gfx90a:xnack-")
    assert one(visit(room, tree), "device-build").verdict == "ok"


def test_a_device_package_that_is_not_installed_is_told_once(room: Room, tree: Tree) -> None:
    host(room)
    assert list(bad(visit(room, tree.gpu(MI210)))) == ["device-code"]


@pytest.mark.parametrize("text", ["", "[]", '{"schema": "another/1"}', "\udc80"])
def test_files_beside_archives_that_say_nothing(room: Room, text: str) -> None:
    room.torch(files={"torch/.kpack/torch.json": text.encode("utf-8", "replace").decode()})
    assert of(visit(room), "device-build") == []


def test_packages_that_were_not_split(room: Room, tree: Tree) -> None:
    room.torch()
    assert of(visit(room, tree.gpu(MI210)), "device-build") == []

"""What the doctor finds about distributions among each other, and compared with a set."""

from __future__ import annotations

import hashlib
import shutil
import sys

import pytest

from rocwright.model.sets import FileEntry, SetManifest, new_set
from trees import write
from unit.compat.doctor.desk import INDEX, Room, bad, of, one, pip, visit

# --- distributions among each other


def test_torch_pins_a_rocm_that_is_not_installed(room: Room) -> None:
    room.torch(requires=["rocm[libraries]==7.10.0", "filelock"])
    first, second = of(visit(room), "requirements")
    assert first.detail == "torch 2.9.0+rocm7.10.0 requires rocm[libraries]==7.10.0; rocm is not installed"
    assert first.next_step == f'{pip(room)} {INDEX} "rocm[libraries]==7.10.0"'
    assert (second.verdict, second.about) == ("missing", "torch filelock")


def test_torch_pins_another_rocm(room: Room) -> None:
    room.rocm("7.9.0")
    room.torch(requires=["rocm[libraries]==7.10.0"])
    found = visit(room)
    item = one(found, "requirements")
    assert (item.verdict, item.detail.partition("; ")[2]) == ("wrong", "rocm is 7.9.0")
    assert "torch 2.9.0+rocm7.10.0 is built for ROCm 7.10.0" in one(found, "mixed").detail


def test_an_extra_that_torch_asks_for_is_followed(room: Room) -> None:
    room.rocm()
    room.torch(requires=["rocm[libraries]==7.10.0"])
    for path in room.site.glob("*rocm_sdk_libraries*"):
        shutil.rmtree(path)
    item = one(visit(room), "requirements")
    assert item.detail.endswith("requires rocm-sdk-libraries==7.10.0; rocm-sdk-libraries is not installed")


def test_extras_that_nobody_asks_for_and_markers_of_other_systems_are_not_missed(room: Room) -> None:
    room.torch(requires=["rocm ; extra == 'device-x'", "pywin32 ; sys_platform == 'win32'", "?? broken"])
    assert one(visit(room), "requirements").verdict == "ok"


def test_a_leaf_without_its_parent(room: Room) -> None:
    """torch's device package for one target needs the one of its group."""
    room.torch(extras=["device-gfx1100"], requires=["amd-torch-device-gfx1100 ; extra == 'device-gfx1100'"])
    room.install("amd-torch-device-gfx1100", "2.9.0+rocm7.10.0", requires=["amd-torch-device-gfx11"])
    item = one(visit(room), "requirements")
    assert item.about == "amd-torch-device-gfx1100 amd-torch-device-gfx11"


def test_rocms_packages_of_two_versions(room: Room) -> None:
    room.rocm("7.10.0")
    shutil.rmtree(room.site / "rocm_sdk_libraries-7.10.0.dist-info")
    room.install("rocm-sdk-libraries", "7.11.0", {"_rocm_sdk_libraries/lib/librocblas.so.5": "blas"})
    item = one(visit(room), "mixed")
    assert item.detail == "rocm-sdk-libraries 7.11.0: the others are ROCm 7.10.0"
    assert item.next_step == f"{pip(room)} {INDEX} rocm-sdk-libraries==7.10.0"


@pytest.mark.parametrize(
    ("version", "part"),
    [
        ("0.24.0+rocm7.9.0", "is built for ROCm 7.9.0, the rest here for 7.10.0"),
        ("0.24.0", "names no ROCm version: it is PyPI's"),
        ("0.24.0+cu128", "names no ROCm version: it is PyPI's"),
    ],
)
def test_a_torchvision_of_another_build(room: Room, version: str, part: str) -> None:
    room.torch()
    room.install("torchvision", version)
    item = one(visit(room), "mixed")
    assert part in item.detail
    assert item.next_step == (
        f"{pip(room, 'uninstall')} torchvision && {pip(room)} {INDEX} torchvision torch==2.9.0+rocm7.10.0"
    )


@pytest.mark.parametrize(
    ("torch", "rocm", "vision"),
    [
        ("2.9.0+rocm7.10.0", "7.10.0", "0.24.0+rocm7.10.0"),
        ("2.9.0+devrocm7.10.0.dev0-efed3c", "7.10.0.dev0+efed3c", "0.24.0+devrocm7.10.0.dev0.efed3c"),
        ("2.9.0+rocm7.10.0.git8fc9aa", "7.10.0", "0.24.0+rocm7.10.0.git12ab34"),
        ("2.9.0+git12345678.rocm7.10.0a20251124", "7.10.0a20251124", "0.24.0a0+ab12cd3"),
    ],
)
def test_a_family_of_one_build(room: Room, torch: str, rocm: str, vision: str) -> None:
    room.rocm(rocm)
    room.torch(torch)
    room.install("torchvision", vision)
    assert of(visit(room), "mixed") == []


def test_one_project_twice(room: Room) -> None:
    """What `pip install --ignore-installed` leaves: two dist-infos, and files of the later one."""
    room.torch()
    room.torch("2.10.0+cu128", hip=None, cuda="12.8")
    found = visit(room)
    item = one(found, "duplicate")
    assert item.verdict == "wrong" and "2.10.0+cu128, 2.9.0+rocm7.10.0" in item.detail
    again = pip(room, "uninstall") + " torch"
    assert item.next_step == f"{again} && {again} && {pip(room)} {INDEX} torch==2.9.0+rocm7.10.0"
    assert one(found, "torch").detail.startswith("torch 2.10.0+cu128 is built for CUDA 12.8")
    # Both own the same files: that is told once.
    assert of(found, "overlap") == []


def test_two_projects_with_one_file(room: Room) -> None:
    room.install("triton", "3.5.0", {"triton/__init__.py": ""})
    room.install("pytorch-triton-rocm", "3.4.0", {"triton/__init__.py": ""})
    item = one(visit(room), "overlap")
    assert "pytorch-triton-rocm and triton both claim" in item.detail and "triton/__init__.py" in item.detail


def test_metadata_that_cannot_be_read(room: Room) -> None:
    write(room.site / "broken-1.0.dist-info/METADATA", "Metadata-Version: 2.1\n")
    item = one(visit(room), "unreadable")
    assert item.verdict == "wrong" and "broken-1.0.dist-info" in item.detail
    assert item.next_step.startswith(f"rm -r {room.site}/broken-1.0.dist-info")


def test_what_a_broken_off_installation_left(room: Room) -> None:
    """pip renames what it removes, `torch` to `~orch`, and may be stopped there."""
    room.torch()
    shutil.copytree(room.site / "torch-2.9.0+rocm7.10.0.dist-info", room.site / "~orch-2.9.0.dist-info")
    found = visit(room)
    assert of(found, "duplicate") == []
    item = one(found, "unreadable")
    assert "~orch-2.9.0.dist-info: left by an interrupted installation" in item.detail
    assert item.next_step.startswith(f"rm -r '{room.site}/~orch-2.9.0.dist-info'")


def test_markers_of_device_packages_may_be_damaged(room: Room) -> None:
    room.rocm(devices=["gfx90a"], offered=["gfx90a"])
    folder = room.site / "_rocm_sdk_libraries"
    write(folder / "_device_gfx1.json", '{"serves": ["no target", 7]}')
    write(folder / "_device_gfx2.json", '{"serves": 7}')
    write(folder / "_device_gfx3.json", "{")
    assert bad(visit(room, index="")) == {"torch": f"no torch in {room.root}"}


# --- a set


def manifest(*entries: FileEntry) -> SetManifest:
    return new_set(family="gfx90X", targets=["gfx90a"], platform="linux", files=entries, sources={})


def entry(
    project: str,
    version: str,
    *,
    tag: str = "py3-none-any",
    sha256: str = "0" * 64,
    metadata: str | None = "1" * 64,
) -> FileEntry:
    name = f"{project.replace('-', '_')}-{version}-{tag}.whl"
    return FileEntry(name, sha256, 1, project, version, metadata_sha256=metadata)


def test_every_distribution_is_compared_with_the_set(room: Room) -> None:
    info = room.torch("2.9.0+ROCm7.10.0")
    own = hashlib.sha256((info / "METADATA").read_bytes()).hexdigest()
    room.install("torchvision", "0.24.0")
    room.install("triton", "3.5.0")
    room.install("apex", "1.0")
    given = manifest(
        # METADATA may spell a version in another way than indexes do.
        entry("torch", "2.9.0+rocm7.10.0", metadata=own),
        entry("torchvision", "0.24.0+rocm7.10.0"),
        entry("triton", "3.5.0"),
    )
    found = visit(room, manifest=given)
    assert {item.about: (item.verdict, item.detail.rpartition(": ")[2]) for item in of(found, "set")} == {
        "torch": ("ok", "its METADATA is the set's"),
        "torchvision": ("wrong", "the set has 0.24.0+rocm7.10.0"),
        "triton": ("wrong", "another build"),
        "apex": ("note", "the set has no such project"),
    }
    assert found.environment is not None
    whose = {item.name: item.whose for item in found.environment.installed}
    assert whose == {"torch": "set", "torchvision": "other", "triton": "other", "apex": "unknown"}
    step = next(item.next_step for item in of(found, "set") if item.about == "torchvision")
    assert step == f"{pip(room)} {INDEX} --reinstall --no-deps torchvision==0.24.0+rocm7.10.0"


@pytest.mark.parametrize(("digest", "verdict"), [("a" * 64, "ok"), ("b" * 64, "wrong")])
def test_the_digest_of_the_file_that_was_installed_decides(room: Room, digest: str, verdict: str) -> None:
    url = f'{{"url": "https://x.example/t.whl", "archive_info": {{"hash": "sha256={digest}"}}}}'
    room.torch(more={"direct_url.json": url})
    found = visit(room, manifest=manifest(entry("torch", "2.9.0+rocm7.10.0", sha256="a" * 64)))
    assert one(found, "set").verdict == verdict


def test_of_an_sdist_the_version_is_all_there_is(room: Room) -> None:
    room.install("rocm", "7.10.0")
    found = visit(room, manifest=manifest(entry("rocm", "7.10.0", metadata=None)))
    assert one(found, "set").verdict == "ok" and "an sdist" in one(found, "set").detail


def test_a_set_without_torch_for_this_python(room: Room) -> None:
    found = visit(room, manifest=manifest(entry("torch", "2.9.0", tag="cp39-cp39-linux_x86_64")))
    item = one(found, "python")
    assert item.verdict == "wrong" and "the set has no torch for it, but 3.9" in item.detail


def test_a_variant_of_torch_is_for_the_python_in_its_tags(room: Room) -> None:
    python = f"cp3{sys.version_info.minor}"
    other = entry("torch", "2.9.0", tag="cp39-cp39-linux_x86_64-gfx942")
    own = entry("torch", "2.9.0", tag=f"{python}-{python}-linux_x86_64-gfx942")
    assert one(visit(room, manifest=manifest(other)), "python").verdict == "wrong"
    assert one(visit(room, manifest=manifest(own, other)), "python").verdict == "ok"


def test_without_a_set_nothing_is_compared(room: Room) -> None:
    room.torch()
    assert of(visit(room), "set") == []

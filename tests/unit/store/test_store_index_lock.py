from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from pathlib import Path

import msgspec
import pytest
from packaging.version import Version

from rocwright.errors import InvalidInput
from rocwright.model.sets import FileEntry, SetManifest, new_set, set_id
from rocwright.store.index.listed import ListedSet, listed_files
from rocwright.store.index.lock import lock_set, oldest_python, quoted, third_party
from rocwright.store.index.set_pages import lock_recorded, only_target, set_pages
from rocwright.store.layout import metadata_key, set_prefix
from rocwright.store.objects.local import LocalStore
from rocwright.store.pool import describe_file
from rocwright.store.sets.records import read_listed
from rocwright.store.sets.stage import record_set

if sys.version_info >= (3, 11):
    from tomllib import loads
else:
    from tomli import loads

BASE = "https://host/pkgs/"


def entry(name: str, digit: str, **more: object) -> FileEntry:
    project, version = name.split("-")[:2]
    fields = {"project": project.replace("_", "-"), "version": version, **more}
    return FileEntry(name, digit * 64, 7, **fields)


TORCH = [
    entry(
        f"torch-2.9.0+rocm7.1-cp31{minor}-cp31{minor}-linux_x86_64.whl", str(minor), requires_python=">=3.10"
    )
    for minor in (1, 2)
]
ROCM = entry("rocm-7.1.tar.gz", "a", version="7.1")
DEVICES = [
    entry(f"rocm_sdk_device_{one}-7.1-py3-none-any.whl", d) for one, d in (("gfx90a", "b"), ("gfx942", "c"))
]
SPIRV = entry("amd_torch_device_amdgcnspirv-2.9-py3-none-any.whl", "d")


def a_set(*files: FileEntry, targets: tuple[str, ...] = ("gfx90a", "gfx942:xnack+")) -> SetManifest:
    return new_set(family="fam", targets=targets, platform="linux", files=files, sources={})


def pages_of(manifest: SetManifest, **more: Mapping[str, str]) -> dict[str, str]:
    prefix = set_prefix(set_id(manifest))
    pages = set_pages(ListedSet(manifest, **more), BASE)
    return {key.removeprefix(prefix): page.decode() for key, page in pages.items()}


def test_there_is_one_lock_for_targets_that_share_a_package() -> None:
    shared = entry("rocm_sdk_device_gfx1250-7.1-py3-none-any.whl", "e")
    pages = pages_of(a_set(*TORCH, ROCM, shared, targets=("gfx1250", "gfx1250-strict")))
    assert [name for name in pages if name.startswith("pylock")] == ["pylock.gfx1250.toml"]
    names = [one["name"] for one in loads(pages["pylock.gfx1250.toml"])["packages"]]
    assert names == ["rocm", "rocm-sdk-device-gfx1250", "torch"]


def test_a_lock_holds_the_files_of_one_target() -> None:
    manifest = a_set(*TORCH, ROCM, *DEVICES, SPIRV)
    pages = pages_of(manifest, uploaded="2026-11-22T08:00:00Z")
    assert [name for name in pages if name.startswith("pylock")] == [
        "pylock.gfx90a.toml",
        "pylock.gfx942.toml",
    ]
    lock = loads(pages["pylock.gfx942.toml"])
    assert lock["lock-version"] == "1.0"
    by_name = {one["name"]: one for one in lock["packages"]}
    assert list(by_name) == ["rocm", "rocm-sdk-device-gfx942", "torch"]
    assert by_name["rocm"]["sdist"] == {
        "name": "rocm-7.1.tar.gz",
        "upload-time": loads("at = 2026-11-22T08:00:00Z")["at"],
        "url": f"{BASE}files/{'a' * 64}/rocm-7.1.tar.gz",
        "size": 7,
        "hashes": {"sha256": "a" * 64},
    }
    torch = by_name["torch"]
    assert (torch["version"], torch["requires-python"]) == ("2.9.0+rocm7.1", ">=3.10")
    assert torch["index"] == f"{BASE}sets/{set_id(manifest)}/"
    assert [one["url"] for one in torch["wheels"]] == [
        f"{BASE}files/{'1' * 64}/torch-2.9.0%2Brocm7.1-cp311-cp311-linux_x86_64.whl",
        f"{BASE}files/{'2' * 64}/torch-2.9.0%2Brocm7.1-cp312-cp312-linux_x86_64.whl",
    ]


def test_a_lock_is_one_that_the_standard_knows() -> None:
    """Read by the reference reader, where this packaging has it."""
    pylock = pytest.importorskip("packaging.pylock", reason="packaging before 25.1 reads no locks")
    pages = pages_of(a_set(*TORCH, ROCM, *DEVICES), uploaded="2026-11-22T08:00:00Z")
    for name in ("pylock.gfx90a.toml", "pylock.gfx942.toml"):
        assert pylock.is_valid_pylock_path(Path(name))
        read = pylock.Pylock.from_dict(loads(pages[name]))
        assert [one.version for one in read.packages if one.name == "torch"] == [Version("2.9.0+rocm7.1")]


def test_pins_and_snippet_name_every_project() -> None:
    manifest = a_set(*TORCH, ROCM)
    pages = pages_of(manifest)
    digest = set_id(manifest)
    assert pages["constraints.txt"] == f"# set {digest}\nrocm==7.1\ntorch==2.9.0+rocm7.1\n"
    index = f"rocm-{digest[:12]}"
    assert loads(pages["uv.toml"])["tool"]["uv"] == {
        "constraint-dependencies": ["rocm==7.1", "torch==2.9.0+rocm7.1"],
        "index": [{"name": index, "url": f"{BASE}sets/{digest}/", "explicit": True}],
        "sources": {"rocm": {"index": index}, "torch": {"index": index}},
    }


def test_a_set_with_two_versions_of_a_project_has_no_lock() -> None:
    """Adopted ones are like that; what is not pinned still comes from this index alone.

    uv binds an index to what others require only where a version stands with the name.
    """
    older = entry("torch-2.8.0a0+rocm7.1-py3-none-any.whl", "e")
    pages = pages_of(a_set(*TORCH, older, ROCM))
    assert not [name for name in pages if "pylock" in name or "constraints" in name]
    snippet = loads(pages["uv.toml"])["tool"]["uv"]
    assert snippet["constraint-dependencies"] == ["rocm==7.1", "torch>=2.8.0a0"]


def test_a_set_without_targets_has_one_lock(tmp_path: Path) -> None:
    manifest = a_set(*TORCH, ROCM, targets=())
    assert only_target(manifest) == "none"
    with pytest.raises(InvalidInput, match="'gfx90a' is not a target of this set; it has none"):
        lock_recorded(
            LocalStore(tmp_path), ListedSet(manifest), "gfx90a", index_url=None, work=tmp_path / "work"
        )


def test_pages_of_a_set_say_nothing_of_what_channels_do() -> None:
    manifest = a_set(*TORCH)
    assert pages_of(manifest, yanked="withdrawn") == pages_of(manifest)


@pytest.mark.parametrize("requires", ["not a specifier", ">=3.10,<", '>="3.10"'])
def test_a_requirement_that_nobody_can_read_does_not_spoil_the_lock(requires: str) -> None:
    manifest = a_set(msgspec.structs.replace(TORCH[0], requires_python=requires))
    [package] = loads(lock_set(ListedSet(manifest), "gfx90a", base_url=BASE))["packages"]
    assert "requires-python" not in package


def test_files_elsewhere_have_their_own_addresses() -> None:
    away = f"https://other/whl/{TORCH[0].name.replace('+', '%2B')}"
    with_metadata = [msgspec.structs.replace(one, metadata_sha256="f" * 64) for one in (*TORCH, ROCM)]
    manifest = a_set(*with_metadata)
    one = ListedSet(
        manifest,
        elsewhere={TORCH[0].name: away, TORCH[1].name: f"{away}2"},
        sidecars=frozenset({TORCH[1].name}),
    )
    lock = loads(lock_set(one, "gfx90a", base_url=None))
    by_name = {package["name"]: package for package in lock["packages"]}
    assert [wheel["url"] for wheel in by_name["torch"]["wheels"]] == [away, f"{away}2"]
    assert by_name["rocm"]["sdist"]["path"] == f"../../files/{'a' * 64}/rocm-7.1.tar.gz"
    promised = {file.entry.name for file in listed_files([one]) if file.entry.metadata_sha256}
    # Of the two elsewhere, one only has its METADATA beside it.
    assert promised == {TORCH[1].name, ROCM.name}


@pytest.mark.parametrize("text", ['a"b', "a\\b", "a\nb\tc\x7f\x00", "ü\u2028", "'''"])
def test_any_text_in_a_lock(text: str) -> None:
    assert loads(f"key = {quoted(text)}") == {"key": text}


def test_the_same_set_gives_the_same_pages() -> None:
    manifest = a_set(*TORCH, ROCM, *DEVICES)
    again = a_set(*reversed([*TORCH, ROCM, *DEVICES]))
    assert list(pages_of(manifest).items()) == list(pages_of(again).items())


def third_party_of(make_wheel: Callable[..., Path], tmp_path: Path) -> tuple[LocalStore, ListedSet]:
    store = LocalStore(tmp_path / "store")
    wheels = [
        make_wheel(
            "torch",
            "2.9+r",
            requires=[
                "rocm[libraries]==7.1",
                "filelock>=3",
                'sympy; python_version < "3.13"',
                "numpy; extra == 'opt'",
            ],
        ),
        make_wheel(
            "rocm", "7.1", requires=["Torch", "lib_files; extra == 'libraries'", "x; extra == 'devel'"]
        ),
        make_wheel("rocm_sdk_device_gfx942", "7.1", requires=["only-for-gfx942"]),
    ]
    manifest = a_set(*(describe_file(wheel) for wheel in wheels))
    record_set(store, manifest, {wheel.name: wheel for wheel in wheels}, [], datetime.now(timezone.utc))
    return store, read_listed(store, set_id(manifest))


def test_what_a_set_requires_from_elsewhere(make_wheel: Callable[..., Path], tmp_path: Path) -> None:
    store, one = third_party_of(make_wheel, tmp_path)
    common = ("filelock>=3", "lib_files", 'sympy; python_version < "3.13"')
    assert third_party(store, one, "gfx90a") == common
    assert third_party(store, one, "gfx942") == tuple(sorted([*common, "only-for-gfx942"]))
    store.delete(metadata_key(one.manifest.files[-1].sha256, one.manifest.files[-1].name))
    with pytest.raises(InvalidInput, match=r"no METADATA of torch-2\.9"):
        third_party(store, one, "gfx90a")


def test_the_oldest_python_of_a_set() -> None:
    assert oldest_python(a_set(*TORCH)) == "3.11"
    assert oldest_python(a_set(*DEVICES)) == f"3.{sys.version_info.minor}"


def test_no_lock_for_another_target_or_several_versions(tmp_path: Path) -> None:
    store = LocalStore(tmp_path)
    with pytest.raises(InvalidInput, match="it has gfx90a, gfx942"):
        lock_recorded(store, ListedSet(a_set(*TORCH)), "gfx1100", index_url=None, work=tmp_path)
    two = ListedSet(a_set(*TORCH, entry("torch-2.8-py3-none-any.whl", "e")))
    with pytest.raises(InvalidInput, match="several versions of torch"):
        lock_recorded(store, two, "gfx90a", index_url=None, work=tmp_path)

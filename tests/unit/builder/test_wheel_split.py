"""Wheels split into host and device wheels, read back by zipfile and by the second archive reader."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path

import pytest
from fat_wheels import ALPHA, BETA, FILENAME, GAMMA, INFO, METADATA, TAG, VERSION, content, fat_bytes, usual
from fat_wheels import write as write_fat

from oracle.fat_library import DEVICE, Wrapper, build_library, bundle, code_object
from oracle.kpack_reader import parse_marker
from rocwright.device_code.verify.verify import verify
from rocwright.device_code.wheel import scan as wheel_scan
from rocwright.device_code.wheel.wheel import Left, WheelSplit, split_wheel
from rocwright.errors import InvalidBundle, InvalidInput, InvalidWheel, UsageError

DEVICES = {
    target: f"amd_mini_torch_device_{target}-{VERSION}-{TAG}.whl"
    for target in ("gfx90a", "gfx942", "gfx1100", "gfx11")
}


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return fat_bytes(tmp_path_factory.mktemp("fat"))


@pytest.fixture(scope="module")
def fat(libraries: dict[str, bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_fat(tmp_path_factory.mktemp("wheel"), usual(libraries))


@pytest.fixture(scope="module")
def split(fat: Path, tmp_path_factory: pytest.TempPathFactory) -> WheelSplit:
    return split_wheel(
        fat,
        tmp_path_factory.mktemp("split"),
        overlay_root="torch",
        device_requires=["rocm-sdk-device-@GFXARCH@ == 7.1"],
    )


def output(split: WheelSplit) -> Path:
    return Path(split.host).parent


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


# -- what comes out ----------------------------------------------------------------------------------------


def test_a_host_of_the_same_name_and_a_wheel_for_each_target(split: WheelSplit, fat: Path) -> None:
    assert names(output(split)) == sorted([FILENAME, *DEVICES.values()])
    assert split.changed and split.fat_size == fat.stat().st_size
    assert split.host_size == (output(split) / FILENAME).stat().st_size < split.fat_size
    assert [(one.target, one.targets, one.files) for one in split.device] == [
        ("gfx90a", ("gfx90a:xnack+", "gfx90a:xnack-"), 0),
        ("gfx942", ("gfx942",), 1),
        ("gfx1100", ("gfx1100",), 0),
        ("gfx11", (), 1),
    ]
    assert all(Path(one.path).stat().st_size == one.size for one in split.device)
    assert (split.libraries, split.objects, split.identical) == (2, 7, 7)
    assert (split.kept, split.unplaced, split.undigested, split.already_split) == ((), (), 0, 0)


def test_every_code_object_is_in_the_archive_of_its_target_under_its_wrapper(split: WheelSplit) -> None:
    found = {}
    for name in DEVICES.values():
        for path, archive in content(output(split) / name).archives().items():
            assert path.startswith("torch/.kpack/mini_torch_")
            assert archive.group_name == "mini_torch"
            found |= archive.entries
    expected = {("lib/libraw.so", 0, target): code for target, code in ALPHA.items()}
    # Wrapper 1 has code for gfx942 alone: its number must stay 1.
    expected |= {("lib/libraw.so", 1, target): code for target, code in GAMMA.items()}
    expected |= {("_C.so", 0, target): code for target, code in BETA.items()}
    assert found == expected


def test_each_file_of_the_wheel_is_in_exactly_one_of_them(split: WheelSplit, fat: Path) -> None:
    wheels = {name: content(output(split) / name) for name in (FILENAME, *DEVICES.values())}
    owners: dict[str, list[str]] = {}
    for wheel, its in wheels.items():
        for path in its.files:
            owners.setdefault(path, []).append(wheel)
    assert [path for path, its in owners.items() if len(its) > 1] == []
    original = content(fat)
    changed = {"torch/lib/libraw.so", "torch/_C.so", f"{INFO}/METADATA", f"{INFO}/RECORD"}
    for path, data in original.files.items():
        (owner,) = owners[path]
        assert path in changed or wheels[owner].files[path] == data
    assert owners["torch/lib/rocblas/library/Kernels_gfx942.hsaco"] == [DEVICES["gfx942"]]
    assert owners["torch/lib/aotriton.images/amd-gfx11xx/flash/x.aks2"] == [DEVICES["gfx11"]]
    assert owners["torch/lib/rocblas/library/TensileLibrary.dat"] == [FILENAME]
    assert owners["torch/.kpack/mini_torch_gfx90a:xnack-.kpack"] == [DEVICES["gfx90a"]]
    assert f"{INFO}/entry_points.txt" in wheels[FILENAME].files
    assert not any(path.endswith("entry_points.txt") for path in owners if INFO not in path)


def test_the_host_says_the_same_and_offers_its_device_wheels(split: WheelSplit) -> None:
    host = content(output(split) / FILENAME).files[f"{INFO}/METADATA"]
    head, body = METADATA.split(b"\n\n")
    assert host.startswith(head + b"\n") and host.endswith(b"\n\n" + body)
    assert host[len(head) + 1 : -len(body) - 1].decode().splitlines() == [
        "Provides-Extra: device-gfx90a",
        "Provides-Extra: device-gfx942",
        "Provides-Extra: device-gfx1100",
        "Provides-Extra: device-all",
        *(
            f'Requires-Dist: amd-mini-torch-device-{target}=={VERSION} ; extra == "{extra}"'
            for target, extra in [
                ("gfx90a", "device-gfx90a"),
                ("gfx90a", "device-all"),
                ("gfx942", "device-gfx942"),
                ("gfx942", "device-all"),
                ("gfx1100", "device-gfx1100"),
                ("gfx1100", "device-all"),
                ("gfx11", "device-all"),
            ]
        ),
    ]


def test_a_device_wheel_needs_its_host_and_passes_the_licence_on(split: WheelSplit) -> None:
    found = content(output(split) / DEVICES["gfx1100"])
    assert found.text("METADATA").splitlines() == [
        "Metadata-Version: 2.4",
        "Name: amd-mini-torch-device-gfx1100",
        f"Version: {VERSION}",
        "Summary: Device code of mini-torch for gfx1100",
        "Author-email: Somebody <somebody@example.org>",
        "License-Expression: BSD-3-Clause",
        "License-File: LICENSE",
        "Classifier: License :: OSI Approved",
        "Requires-Python: >=3.8",
        f"Requires-Dist: mini-torch=={VERSION}",
        f"Requires-Dist: amd-mini-torch-device-gfx11=={VERSION}",
        "Requires-Dist: rocm-sdk-device-gfx1100==7.1",
    ]
    assert found.text("WHEEL").splitlines()[2:] == ["Root-Is-Purelib: false", f"Tag: {TAG}"]
    assert found.text("licenses/LICENSE") == "You may.\n" * 50
    assert content(output(split) / DEVICES["gfx942"]).headers("Requires-Dist") == [
        f"mini-torch=={VERSION}",
        "rocm-sdk-device-gfx942==7.1",
    ]
    # A group is no target that ROCm has a package for.
    assert content(output(split) / DEVICES["gfx11"]).headers("Requires-Dist") == [f"mini-torch=={VERSION}"]


def test_what_does_not_change_is_taken_over_as_it_is_compressed(split: WheelSplit, fat: Path) -> None:
    host = output(split) / FILENAME
    same = ["torch/__init__.py", "torch/lib/two words ü.txt", "torch/bin/tool", f"{INFO}/entry_points.txt"]
    assert [stored(host, name) for name in same] == [stored(fat, name) for name in same]
    moved = "torch/lib/rocblas/library/Kernels_gfx942.hsaco"
    assert stored(output(split) / DEVICES["gfx942"], moved) == stored(fat, moved)
    kept = [info.filename for info in zipfile.ZipFile(fat).infolist() if "gfx" not in info.filename]
    assert [info.filename for info in zipfile.ZipFile(host).infolist()] == [
        "torch/.kpack/mini_torch.json",
        *kept,
    ]
    for name, info in content(host).info.items():
        assert info.flag_bits & 8 == 0
        if not name.endswith("RECORD"):
            new = 0o100644 if name.endswith(".json") else 0o100664
            mode = 0o100755 if name == "torch/bin/tool" else new
            assert info.external_attr >> 16 == mode, name
    archives = content(output(split) / DEVICES["gfx90a"]).info
    assert {info.compress_type for name, info in archives.items() if name.endswith(".kpack")} == {0}


def stored(wheel: Path, name: str) -> bytes:
    """A member's bytes as they lie in the archive."""
    with zipfile.ZipFile(wheel) as archive:
        info = archive.getinfo(name)
    data = wheel.read_bytes()
    name_size, extra_size = struct.unpack_from("<HH", data, info.header_offset + 26)
    start = info.header_offset + 30 + name_size + extra_size
    return data[start : start + info.compress_size]


def test_the_marker_leads_from_the_library_to_the_archive(split: WheelSplit) -> None:
    for member, kernel, path in [
        ("torch/lib/libraw.so", "lib/libraw.so", "../.kpack/mini_torch_@GFXARCH@.kpack"),
        ("torch/_C.so", "_C.so", ".kpack/mini_torch_@GFXARCH@.kpack"),
    ]:
        data = content(output(split) / FILENAME).files[member]
        assert marker(data) == (kernel, (path,))


def marker(library: bytes) -> tuple[str, tuple[str, ...]]:
    """Kernel name and search paths of a split library, found through its section table."""
    (table,) = struct.unpack_from("<Q", library, 40)
    count, names_index = struct.unpack_from("<HH", library, 60)
    rows = [struct.unpack_from("<IIQQQQIIQQ", library, table + 64 * number) for number in range(count)]
    strings = library[rows[names_index][4] :]
    (row,) = (row for row in rows if strings[row[0] :].split(b"\0", 1)[0] == b".rocm_kpack_ref")
    found = parse_marker(library[row[4] : row[4] + row[5]])
    return found.kernel_name, found.search_paths


def test_the_same_bytes_for_any_number_of_threads(split: WheelSplit, fat: Path, tmp_path: Path) -> None:
    for threads in (1, 5):
        again = split_wheel(
            fat,
            tmp_path / str(threads),
            device_requires=["rocm-sdk-device-@GFXARCH@ == 7.1"],
            threads=threads,
        )
        for name in names(output(split)):
            assert (output(again) / name).read_bytes() == (output(split) / name).read_bytes(), name


def test_large_libraries_wait_in_files_without_a_name(
    split: WheelSplit, fat: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheel_scan, "_IN_MEMORY", 0)
    seen: list[list[str]] = []
    again = split_wheel(
        fat, tmp_path, overlay_root="torch", note=lambda text: seen.append(everything(tmp_path))
    )
    host = Path(again.host)
    assert (
        host.name == FILENAME
        and content(host).files["torch/_C.so"] == (content(Path(split.host)).files["torch/_C.so"])
    )
    assert seen[1] == [f"{FILENAME}.partial"]  # while the libraries are set aside


def everything(directory: Path) -> list[str]:
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


# -- where archives go -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "root"),
    [
        (["solo/lib/a.so"], "solo/lib"),
        (["solo/__init__.py", "solo/lib/a.so"], "solo"),
        (["jax_plugins/xla_rocm7/__init__.py", "jax_plugins/xla_rocm7/a.so"], "jax_plugins/xla_rocm7"),
        (["one/__init__.py", "one/x/a.so", "one/y/b.so"], "one"),
        (["one/a.so", "two/b.so"], ""),
        (["top.so"], ""),
    ],
)
def test_archives_lie_in_the_package_that_holds_the_libraries(
    members: list[str], root: str, libraries: dict[str, bytes], tmp_path: Path
) -> None:
    files = {name: libraries["packed"] if name.endswith(".so") else b"" for name in members}
    done = split_wheel(write_fat(tmp_path / "in", files), tmp_path / "out")
    assert done.overlay_root == root
    place = f"{root}/.kpack" if root else ".kpack"
    device = content(tmp_path / "out" / DEVICES["gfx942"])
    assert list(device.archives()) == [f"{place}/mini_torch_gfx942.kpack"]
    kernels = [name.removeprefix(f"{root}/") for name in members if name.endswith(".so")]
    entries = device.archives()[f"{place}/mini_torch_gfx942.kpack"].entries
    assert [kernel for kernel, _, _ in entries] == kernels


def test_a_library_outside_the_wanted_root_is_refused(fat: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"torch/_C\.so .* outside the overlay root torch/lib"):
        split_wheel(fat, tmp_path / "out", overlay_root="torch/lib/")
    assert names(tmp_path) == []


def test_device_wheels_are_named_as_asked_for_and_keep_the_build_tag(
    libraries: dict[str, bytes], tmp_path: Path
) -> None:
    source = write_fat(
        tmp_path / "in", {"torch/a.so": libraries["packed"]}, filename=f"mini_torch-{VERSION}-7-{TAG}.whl"
    )
    split_wheel(source, tmp_path / "out", prefix="amd-torch-device-")
    assert names(tmp_path / "out") == [
        f"amd_torch_device_gfx1100-{VERSION}-7-{TAG}.whl",
        f"amd_torch_device_gfx942-{VERSION}-7-{TAG}.whl",
        source.name,
    ]


# -- what stays --------------------------------------------------------------------------------------------


def test_a_wheel_without_device_code_is_copied(tmp_path: Path) -> None:
    source = write_fat(tmp_path / "in", {"torch/__init__.py": b"x = 1\n", "torch/a.so": b"\x7fELF nonsense"})
    done = split_wheel(source, tmp_path / "out")
    assert (done.changed, done.device, done.host_size) == (False, (), done.fat_size)
    assert names(tmp_path / "out") == [FILENAME]
    assert (tmp_path / "out" / FILENAME).read_bytes() == source.read_bytes()


def test_a_host_is_not_split_again(split: WheelSplit, tmp_path: Path) -> None:
    again = split_wheel(Path(split.host), tmp_path)
    assert (again.changed, again.already_split, again.kept) == (False, 2, ())
    assert Path(again.host).read_bytes() == Path(split.host).read_bytes()


def test_a_library_that_cannot_be_split_stays_whole_and_is_named(
    libraries: dict[str, bytes], tmp_path: Path
) -> None:
    lost = build_library(tmp_path / "lost", bundles=[bundle(BETA.items())], wrappers=[]).read_bytes()
    files = {
        "torch/lost.so": lost,
        "torch/good.so": libraries["packed"],
        "torch/lib/rocblas/library/Kernels_gfx999.co": b"?",
        "torch/kernels/mine.co": code_object(0x4C, b"code in a file of its own"),
        f"mini_torch-{VERSION}.data/platlib/x.so": libraries["packed"],
        "torch/x.dll": b"MZ" + bytes(500) + b".hip_fat" + bytes(5000),
    }
    done = split_wheel(write_fat(tmp_path / "in", files), tmp_path / "out")
    assert done.libraries == 1
    assert done.kept == (
        Left(
            f"mini_torch-{VERSION}.data/platlib/x.so",
            "it lies in the wheel's .data directory, which installers move",
        ),
        Left("torch/lost.so", "no wrapper leads to 1 of its 1 bundles"),
        Left("torch/x.dll", "device code in Windows libraries is not split"),
    )
    assert done.unplaced == (
        Left("torch/kernels/mine.co", "it is a separate file of device code, of an unknown kind"),
        Left("torch/lib/rocblas/library/Kernels_gfx999.co", "rocblas: gfx999 is not a known target"),
    )
    host = content(tmp_path / "out" / FILENAME).files
    assert {name: host[name] for name in files if name != "torch/good.so"} == {
        name: data for name, data in files.items() if name != "torch/good.so"
    }


def test_a_wheel_of_which_all_is_kept_is_copied(tmp_path: Path) -> None:
    lost = build_library(tmp_path / "lost", bundles=[bundle(BETA.items())], wrappers=[]).read_bytes()
    source = write_fat(tmp_path / "in", {"torch/lost.so": lost})
    done = split_wheel(source, tmp_path / "out")
    assert (done.changed, [left.member for left in done.kept]) == (False, ["torch/lost.so"])
    assert (tmp_path / "out" / FILENAME).read_bytes() == source.read_bytes()


def test_databases_alone_make_device_wheels(tmp_path: Path) -> None:
    files = {f"torch/lib/rocblas/library/K_{target}.co": b"x" for target in ("gfx942", "gfx90a-xnack-")}
    done = split_wheel(write_fat(tmp_path / "in", files), tmp_path / "out")
    assert [(one.target, one.targets, one.files) for one in done.device] == [
        ("gfx90a", (), 1),
        ("gfx942", (), 1),
    ]


def test_code_of_a_target_without_a_package_goes_into_that_of_its_owner(tmp_path: Path) -> None:
    """gfx1250-strict is in the package of gfx1250, under its own name, by rocm-bootstrap 0.3.0."""
    code = {
        "gfx1250": code_object(0x49, b"plain" * 400),
        "gfx1250-strict": code_object(0xEB, b"strict" * 400),
    }
    library = build_library(tmp_path / "lib", bundles=[bundle(code.items())]).read_bytes()
    files = {
        "torch/lib/libboth.so": library,
        "torch/lib/rocblas/library/K_gfx1250-strict.co": b"x",
        "torch/lib/rocblas/library/K_gfx1250.co": b"y",
    }
    needs = ("rocm-sdk-device-@GFXARCH@==7.1",)
    done = split_wheel(write_fat(tmp_path / "in", files), tmp_path / "out", device_requires=needs)
    [one] = done.device
    assert Path(one.path).name == f"amd_mini_torch_device_gfx1250-{VERSION}-{TAG}.whl"
    assert (one.target, one.targets, one.files) == ("gfx1250", ("gfx1250", "gfx1250-strict"), 2)
    with zipfile.ZipFile(one.path) as device:
        kpacks = {name for name in device.namelist() if name.endswith(".kpack")}
        metadata = device.read(f"amd_mini_torch_device_gfx1250-{VERSION}.dist-info/METADATA").decode()
    assert kpacks == {f"torch/lib/.kpack/mini_torch_{name}.kpack" for name in code}
    assert "Requires-Dist: rocm-sdk-device-gfx1250==7.1\n" in metadata
    with zipfile.ZipFile(tmp_path / "out" / FILENAME) as host:
        lines = host.read(f"{INFO}/METADATA").decode().splitlines()
    extras = [line for line in lines if line.startswith("Provides-Extra: device-")]
    assert extras == ["Provides-Extra: device-gfx1250", "Provides-Extra: device-all"]
    assert verify([Path(done.host), Path(one.path)]).passed


def test_code_for_an_owned_target_alone_makes_the_package_of_its_owner(tmp_path: Path) -> None:
    one = bundle([("gfx1250-strict", code_object(0xEB, b"strict" * 4000))])
    library = build_library(tmp_path / "lib", bundles=[one, one]).read_bytes()
    done = split_wheel(write_fat(tmp_path / "in", {"torch/lib/libone.so": library}), tmp_path / "out")
    assert done.kept == ()
    assert [(one.target, one.targets) for one in done.device] == [("gfx1250", ("gfx1250-strict",))]


# -- unusual archives --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["streamed", "wide"])
def test_data_descriptors_and_zip64_headers_are_not_taken_over(
    kind: str, libraries: dict[str, bytes], split: WheelSplit, tmp_path: Path
) -> None:
    source = write_fat(tmp_path / "in", usual(libraries), streamed=kind == "streamed", wide=kind == "wide")
    flags = {info.flag_bits & 8 for info in zipfile.ZipFile(source).infolist()}
    assert flags == ({8} if kind == "streamed" else {0})
    done = split_wheel(source, tmp_path / "out", device_requires=["rocm-sdk-device-@GFXARCH@ == 7.1"])
    assert Path(done.host).read_bytes() == Path(split.host).read_bytes()


def test_a_wheel_from_windows_tools_gets_unix_line_ends_and_modes(
    libraries: dict[str, bytes], tmp_path: Path
) -> None:
    text = METADATA.replace(b"\n", b"\r\n")
    source = write_fat(tmp_path / "in", {"torch/a.so": libraries["packed"]}, metadata=text)
    data = bytearray(source.read_bytes())
    at = data.find(b"PK\1\2")
    while at >= 0:
        data[at + 5] = 0  # "made by" MS-DOS
        at = data.find(b"PK\1\2", at + 4)
    source.write_bytes(data)
    split_wheel(source, tmp_path / "out")
    host = content(tmp_path / "out" / FILENAME)
    added = host.files[f"{INFO}/METADATA"].removeprefix(text.split(b"\r\n\r\n")[0])
    assert b"\r\nProvides-Extra: device-gfx942\r\n" in added and b"\n" not in added.replace(b"\r\n", b"")
    assert {info.external_attr >> 16 for info in host.info.values()} == {0o100644}
    assert "\r" not in content(tmp_path / "out" / DEVICES["gfx942"]).text("METADATA")


@pytest.mark.parametrize(
    ("name", "given", "made"),
    [
        ("torch/a.so", 0o100777, 0o100775),
        ("torch/b.py", 0o106644, 0o100644),
        ("torch/b.py", 0o100066, 0o100464),
        ("torch/b.py", 0o100755, 0o100755),
        ("mini_torch-2.0.data/scripts/run", 0o100644, 0o100755),
    ],
)
def test_modes_that_no_installed_file_should_have_are_put_right(
    name: str, given: int, made: int, libraries: dict[str, bytes], tmp_path: Path
) -> None:
    """A publisher's wheel has them; what is split of it is ours."""
    members = {
        "torch/a.so": libraries["packed"],
        "torch/b.py": b"b",
        "mini_torch-2.0.data/scripts/run": b"#!",
    }
    source = write_fat(tmp_path / "in", members)
    data = bytearray(source.read_bytes())
    at = data.find(b"PK\1\2")
    while data[at + 46 : at + 46 + len(name)] != name.encode():
        at = data.find(b"PK\1\2", at + 4)
    data[at + 38 : at + 42] = (given << 16).to_bytes(4, "little")
    source.write_bytes(data)
    split_wheel(source, tmp_path / "out")
    assert content(tmp_path / "out" / FILENAME).info[name].external_attr >> 16 == made


def test_files_without_a_digest_in_record_are_counted_and_get_one(
    libraries: dict[str, bytes], tmp_path: Path
) -> None:
    source = write_fat(
        tmp_path / "in",
        {"torch/a.so": libraries["packed"], "torch/b.py": b"b"},
        record={"torch/b.py": "torch/b.py,,1"},
    )
    assert split_wheel(source, tmp_path / "out").undigested == 1
    content(tmp_path / "out" / FILENAME)  # compares RECORD


# -- refused -----------------------------------------------------------------------------------------------


def refused(source: Path, tmp_path: Path, error: type[InvalidInput], text: str) -> None:
    with pytest.raises(error, match=text) as caught:
        split_wheel(source, tmp_path / "out")
    assert FILENAME in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_a_member_that_differs_from_record(libraries: dict[str, bytes], tmp_path: Path) -> None:
    row = "torch/b.py,sha256=" + "A" * 43 + ",1"
    source = write_fat(
        tmp_path / "in",
        {"torch/a.so": libraries["packed"], "torch/b.py": b"b"},
        record={"torch/b.py": row},
    )
    refused(source, tmp_path, InvalidWheel, r"torch/b\.py .* its sha256 is 3e23e8160039.*RECORD says 0000")


@pytest.mark.parametrize(
    ("row", "text"),
    [
        (None, "RECORD does not list it"),
        ("torch/b.py,,2", "it has 1 bytes, RECORD says 2"),
        ("torch/b.py,,1\ntorch/b.py,,1", "RECORD lists it twice"),
        ("torch/b.py,,1\ntorch/c.py,,1", "but it is not there"),
    ],
)
def test_a_record_that_lists_other_files(row: str | None, text: str, tmp_path: Path) -> None:
    source = write_fat(tmp_path / "in", {"torch/b.py": b"b"}, record={"torch/b.py": row})
    refused(source, tmp_path, InvalidWheel, rf"torch/[bc]\.py in .*{text}")


def test_a_wheel_cut_short(fat: Path, tmp_path: Path) -> None:
    source = tmp_path / "in" / FILENAME
    source.parent.mkdir()
    source.write_bytes(fat.read_bytes()[:-2000])
    refused(source, tmp_path, InvalidWheel, "damaged archive")


def test_a_wheel_with_a_flipped_bit_in_a_library(fat: Path, tmp_path: Path) -> None:
    data = bytearray(fat.read_bytes())
    at = data.find(stored(fat, "torch/_C.so"))
    data[at + 3000] ^= 16
    source = tmp_path / "in" / FILENAME
    source.parent.mkdir()
    source.write_bytes(data)
    refused(source, tmp_path, InvalidWheel, r"torch/_C\.so in .* is damaged")


def test_a_damaged_bundle_names_wheel_and_library(libraries: dict[str, bytes], tmp_path: Path) -> None:
    library = bytearray(libraries["packed"])
    at = library.find(b"CCOB")
    library[at + 60] ^= 255
    source = write_fat(tmp_path / "in", {"torch/good.so": libraries["raw"], "torch/bad.so": bytes(library)})
    refused(source, tmp_path, InvalidBundle, r"bad\.so")


@pytest.mark.parametrize("digested", [False, True])
def test_bundles_are_compared_with_their_hashes_where_record_has_no_digest(
    digested: bool, libraries: dict[str, bytes], tmp_path: Path
) -> None:
    library = bytearray(libraries["packed"])
    at = library.find(b"CCOB")
    library[at + {1: 12, 2: 16, 3: 24}[library[at + 4]]] ^= 255
    record = {} if digested else {"torch/a.so": f"torch/a.so,,{len(library)}"}
    source = write_fat(tmp_path / "in", {"torch/a.so": bytes(library)}, record=record)
    if digested:
        assert split_wheel(source, tmp_path / "out").objects == len(BETA)
    else:
        refused(source, tmp_path, InvalidBundle, "its hash is")


def test_a_wheel_that_has_an_archive_in_the_way(libraries: dict[str, bytes], tmp_path: Path) -> None:
    files = {"torch/a.so": libraries["packed"], "torch/.kpack/mini_torch_gfx942.kpack": b"older"}
    refused(write_fat(tmp_path / "in", files), tmp_path, InvalidInput, "has a file torch/.kpack/mini_torch")


def test_a_wheel_that_offers_device_wheels_already(libraries: dict[str, bytes], tmp_path: Path) -> None:
    text = METADATA.replace(b"Provides-Extra: numpy", b"Provides-Extra: Device_gfx942")
    source = write_fat(tmp_path / "in", {"torch/a.so": libraries["packed"]}, metadata=text)
    refused(source, tmp_path, InvalidInput, "offers device-gfx942 already")


def test_the_output_never_replaces_the_wheel(fat: Path, tmp_path: Path) -> None:
    source = tmp_path / FILENAME
    source.write_bytes(fat.read_bytes())
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    for directory in (tmp_path, link):
        with pytest.raises(UsageError, match="would replace"):
            split_wheel(source, directory)
    assert names(tmp_path) == ["link", FILENAME]
    assert source.read_bytes() == fat.read_bytes()


def test_a_wheel_without_device_code_can_be_taken_again(tmp_path: Path) -> None:
    plain = write_fat(tmp_path / "in", {"torch/__init__.py": b""})
    for _ in range(2):
        done = split_wheel(plain, tmp_path / "out")
        assert not done.changed
    assert (tmp_path / "out" / plain.name).read_bytes() == plain.read_bytes()


def test_requirements_and_prefixes_that_make_no_names(fat: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="not a requirement"):
        split_wheel(fat, tmp_path / "out", device_requires=["rocm device"])
    with pytest.raises(UsageError, match="prefix"):
        split_wheel(fat, tmp_path / "out", prefix="amd torch ")
    assert names(tmp_path) == []


@pytest.mark.parametrize("moment", ["verifying", "libraw", "stored"])
def test_nothing_is_left_when_the_user_stops_it(moment: str, fat: Path, tmp_path: Path) -> None:
    def stop(text: str) -> None:
        if moment in text:
            raise KeyboardInterrupt

    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "other.whl").write_bytes(b"mine")
    for directory in ("out", "new/deeper"):
        with pytest.raises(KeyboardInterrupt):
            split_wheel(fat, tmp_path / directory, note=stop)
    assert names(tmp_path) == ["out"]
    assert names(tmp_path / "out") == ["other.whl"]


def test_a_full_output_directory_in_the_way_leaves_nothing(fat: Path, tmp_path: Path) -> None:
    # The host's name is a directory: the last rename fails, and the device wheels in place go again.
    (tmp_path / "out" / FILENAME / "x").mkdir(parents=True)
    with pytest.raises(InvalidInput, match="cannot write"):
        split_wheel(fat, tmp_path / "out")
    assert names(tmp_path / "out") == [FILENAME]


def test_unknown_targets_are_kept_not_guessed(tmp_path: Path) -> None:
    odd = build_library(
        tmp_path / "odd", bundles=[bundle([(f"{DEVICE}gfxunknown", b"x" * 100)])], wrappers=[Wrapper()]
    )
    done = split_wheel(write_fat(tmp_path / "in", {"torch/a.so": odd.read_bytes()}), tmp_path / "out")
    assert [left.reason for left in done.kept] == [
        f"the entry '{DEVICE}gfxunknown' names no known kind of target"
    ]

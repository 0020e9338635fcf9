"""A torch with ROCm inside runs where there is no ROCm, and says so in all its papers."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
import small_fat
from small_fat import FAT, FAT_NAME, INFO, INSIDE, LICENCES, NAME, VERSION

from rocwright.binary.elf import read_elf
from rocwright.builder.fat.plan import plan_fat
from rocwright.builder.fat.wheel import write_fat
from rocwright.errors import InvalidPrefix, InvalidWheel, NoSpace, RocwrightError, UsageError
from rocwright.wheel.read import open_wheel, verify_record

ROOT = "torch/lib/rocm/"


@pytest.fixture(scope="module")
def prefix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_fat.rocm_prefix(tmp_path_factory.mktemp("rocm"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_fat.torch_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def fat(wheel: Path, prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    (path,) = write_fat(plan_fat(wheel, prefix, output=tmp_path_factory.mktemp("fat")))
    return path


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def text(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name).decode()


def test_what_torch_needs_and_opens_is_inside_and_nothing_else(wheel: Path, fat: Path) -> None:
    assert fat.name == FAT_NAME
    old = f"torch-{VERSION}."
    kept = {name.replace(old, f"torch-{FAT}.") for name in names(wheel)}
    beside = {f"{INFO}/{name}" for name in (*LICENCES, "sboms/rocm.cdx.json")}
    assert names(fat) == kept | {ROOT + name for name in INSIDE} | beside


def test_the_rocm_of_native_packages_lies_below_the_prefix(wheel: Path, tmp_path: Path) -> None:
    root = small_fat.rocm_prefix(tmp_path / "rocm/core-10.0")
    (tmp_path / "rocm/lib").symlink_to("core-10.0/lib")
    plan = plan_fat(wheel, tmp_path / "rocm")
    assert plan.files == plan_fat(wheel, root).files
    assert plan.rocm_version == "7.1.0"


def test_it_runs_with_an_empty_environment_and_loads_only_what_it_brings(fat: Path, tmp_path: Path) -> None:
    site = small_fat.unpack(fat, tmp_path / "site")
    hostile = small_fat.hostile(tmp_path / "hostile")
    code = (
        "import torch; print(torch.__version__, torch.number())\n"
        "for line in open('/proc/self/maps'): print(line.split()[-1])"
    )
    said, *maps = small_fat.run(site, code, LD_LIBRARY_PATH=str(hostile)).splitlines()
    # torch_hip 10000 and rocblas 1000, HIP 100, HSA 10, ELF 1; and HIP once more for _C itself.
    assert said == f"{FAT} {11111 + 111}"
    libraries = {path for path in maps if any(Path(name).name in path for name in small_fat.ROCM)}
    assert {Path(path).parent for path in libraries} == {
        site / ROOT / "lib", site / ROOT / "lib/rocm_sysdeps/lib"
    }  # fmt: skip
    assert any("libroctx64" in path for path in libraries), "preloaded, although nothing needs it"


def test_comgr_is_found_by_the_name_that_hip_opens_it_by(fat: Path, tmp_path: Path) -> None:
    site = small_fat.unpack(fat, tmp_path)
    elf = read_elf(site / ROOT / "lib/libamdhip64.so.7")
    assert elf.rpath == "$ORIGIN" and elf.runpath is None
    comgr = read_elf(site / ROOT / "lib/libamd_comgr.so.3")
    assert comgr.rpath == "$ORIGIN:$ORIGIN/llvm/lib"


def test_torchs_own_libraries_look_into_the_bundle_and_no_longer_for_packages(
    fat: Path, tmp_path: Path
) -> None:
    site = small_fat.unpack(fat, tmp_path)
    inside, hip = read_elf(site / "torch/_C.so"), read_elf(site / "torch/lib/libtorch_hip.so")
    assert inside.rpath == "$ORIGIN/lib:$ORIGIN/lib/rocm/lib:$ORIGIN/../../.."
    assert (hip.rpath, hip.runpath) == ("$ORIGIN:$ORIGIN/rocm/lib", None)


def test_its_papers_name_the_new_version_and_require_no_rocm(fat: Path) -> None:
    assert verify_record(open_wheel(fat)) == ()
    metadata = text(fat, f"{INFO}/METADATA").splitlines()
    assert f"Version: {FAT}" in metadata
    assert [line for line in metadata if line.startswith("Requires-Dist")] == ["Requires-Dist: filelock"]
    expected = f"__version__ = '{FAT}'\ndebug = False\nhip: str = '7.1.0'\n"
    assert text(fat, "torch/version.py") == expected
    (bill,) = json.loads(text(fat, f"{INFO}/sboms/rocm.cdx.json"))["components"]
    assert (bill["name"], bill["version"]) == ("ROCm", "7.1.0")
    assert {part["name"] for part in bill["components"]} == {ROOT + name for name in INSIDE}


def test_requirements_on_rocm_go_however_they_are_written(prefix: Path, tmp_path: Path) -> None:
    markers = ('sys_platform == "linux"', 'extra == "all"')
    requires = ("ROCm[libraries]  ==7.1.0", f"rocm_sdk.core==7.1.0 ; {markers[0]}", "rocmlike", "torchaudio")
    requires += (f"rocm [devel] >=7 ; {markers[1]}", f"numpy ; {markers[1]}")
    plan = plan_fat(small_fat.torch_wheel(tmp_path, requires=requires), prefix)
    kept = [line for line in plan.wheels[0].metadata.splitlines() if line.startswith("Requires-Dist")]
    assert kept == [f"Requires-Dist: {requires[n]}" for n in (2, 3, 5)]


def test_the_order_of_loading_stays_and_what_this_rocm_lacks_is_left_out(wheel: Path, prefix: Path) -> None:
    plan = plan_fat(wheel, prefix)
    assert plan.preload == ("lib/libroctx64.so.4", "lib/libamdhip64.so.7")
    assert plan.notes == ("this ROCm has no hipdnn, which torch loads first: it is left out",)
    assert plan.wheels[0].dropped == (small_fat.REQUIRES[0], small_fat.REQUIRES[2])


def test_a_small_library_that_leads_to_another_is_not_loaded_first(wheel: Path, tmp_path: Path) -> None:
    root = small_fat.rocm_prefix(tmp_path / "rocm")
    short = root / "lib/libamdhip64.so"
    short.unlink(missing_ok=True)
    small_fat.compile_library(short, "leads", 0, {}, soname=short.name)
    assert plan_fat(wheel, root).preload == ("lib/libroctx64.so.4", "lib/libamdhip64.so.7")


def test_what_the_system_has_to_bring_is_named(prefix: Path, tmp_path: Path) -> None:
    needs = {name: tmp_path / f"lib{name}.so" for name in ("numa", "elf")}
    for number, (name, path) in enumerate(needs.items()):
        small_fat.compile_library(path, name, number, {}, soname=f"lib{name}.so.1")
    small_fat.compile_library(tmp_path / "more.so", "more", 0, needs)
    more = {"torch/lib/more.so": (tmp_path / "more.so").read_bytes()}
    plan = plan_fat(small_fat.torch_wheel(tmp_path / "wheel", files=more), prefix)
    assert plan.notes[-1] == "the system has to bring libelf.so.1, libnuma.so.1"


def test_a_library_without_a_number_is_one_of_rocms(tmp_path: Path) -> None:
    rocm = small_fat.rocm_prefix(tmp_path / "rocm")
    library = rocm / "lib/libplain.so"
    small_fat.compile_library(library, "plain", 0, {}, soname="libplain.so")
    small_fat.compile_library(tmp_path / "more.so", "more", 0, {"plain": library})
    more = {"torch/lib/more.so": (tmp_path / "more.so").read_bytes()}
    plan = plan_fat(small_fat.torch_wheel(tmp_path / "wheel", files=more), rocm)
    assert f"{ROOT}lib/libplain.so" in {file.path for file in plan.files}


def test_what_does_not_change_is_taken_over_as_it_is_compressed(wheel: Path, fat: Path) -> None:
    def packed(path: Path) -> dict[str, bytes]:
        data, found = path.read_bytes(), {}
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                at = info.header_offset
                start = at + 30 + sum(int.from_bytes(data[at + k : at + k + 2], "little") for k in (26, 28))
                found[info.filename] = data[start : start + info.compress_size]
        return found

    before, after = packed(wheel), packed(fat)
    assert before["torch/nn.py"] == after["torch/nn.py"]
    assert before["torch/__init__.py"] == after["torch/__init__.py"]


def test_members_without_a_mode_can_be_read_by_everybody(wheel: Path, prefix: Path, tmp_path: Path) -> None:
    """Archives made on Windows record none."""
    plain = tmp_path / wheel.name
    with zipfile.ZipFile(wheel) as archive, zipfile.ZipFile(plain, "w") as copy:
        for info in archive.infolist():
            data, info.create_system, info.external_attr = archive.read(info), 0, 0
            copy.writestr(info, data)
    (made,) = write_fat(plan_fat(plain, prefix, output=tmp_path / "out"))
    with zipfile.ZipFile(made) as archive:
        modes = {info.filename: info.external_attr >> 16 & 0o7777 for info in archive.infolist()}
    assert {modes[name] for name in names(wheel) & modes.keys()} == {0o644}


def test_the_same_bytes_for_any_number_of_threads(
    wheel: Path, prefix: Path, fat: Path, tmp_path: Path
) -> None:
    (again,) = write_fat(plan_fat(wheel, prefix, output=tmp_path, threads=1), threads=1)
    assert again.read_bytes() == fat.read_bytes()
    assert [path.name for path in tmp_path.iterdir()] == [FAT_NAME]


@pytest.mark.parametrize("below", ["", "_rocm_sdk_core", "_rocm_sdk_devel", "../../.."])
def test_rocms_packages_serve_as_well(wheel: Path, fat: Path, tmp_path: Path, below: str) -> None:
    site = small_fat.rocm_packages(tmp_path / "lib/python3.12/site-packages")
    plan = plan_fat(wheel, site / below)
    assert {file.path for file in plan.files} == {ROOT + name for name in INSIDE}
    assert plan.rocm_version == "7.1.0"
    of_core = "rocm_sdk_core-7.1.0.dist-info"
    assert plan.licences[f"licenses/rocm/{of_core}/share/doc/LICENSE.md"]
    assert plan.boms[f"sboms/rocm/{of_core}/parts.cdx.json"]


def test_archives_of_device_code_go_with_the_libraries_that_were_split(wheel: Path, tmp_path: Path) -> None:
    rocm = small_fat.rocm_prefix(tmp_path / "rocm")
    small_fat.split_rocblas(rocm)
    plan = plan_fat(wheel, rocm)
    archives = {f".kpack/blas_lib_{target}.kpack" for target in ("gfx942", "gfx1100")}
    assert {file.path for file in plan.files} == {ROOT + name for name in INSIDE | archives}
    for archive in (rocm / ".kpack").iterdir():
        archive.unlink()
    with pytest.raises(InvalidPrefix, match=r"device code of librocblas\.so\.5 was split off") as refused:
        plan_fat(wheel, rocm)
    assert "rocm[device-TARGET]" in str(refused.value.next_step)


def test_libraries_that_the_environment_names_are_loaded_too(fat: Path, tmp_path: Path) -> None:
    site = small_fat.unpack(fat, tmp_path)
    code = "import torch; print([line for line in open('/proc/self/maps') if 'rocblas' in line] != [])"
    variable = "ROCM_SDK_PRELOAD_LIBRARIES"
    assert small_fat.run(site, code) == "False\n"
    assert small_fat.run(site, code, **{variable: "roctx64; rocblas,"}) == "True\n"
    unknown = (
        "try:\n    import torch\nexcept ModuleNotFoundError as error: print(error)\n"
        "import ctypes; ctypes.CDLL(None).hip"
    )
    # What torch itself wants has been loaded by then.
    said = small_fat.run(site, unknown, **{variable: "hipfft"})
    there = "amd_comgr amdhip64 rocblas roctx64"
    assert said == f"{variable}: the ROCm inside this torch has no 'hipfft'; it has: {there}\n"


def test_extensions_go_along(wheel: Path, prefix: Path, tmp_path: Path) -> None:
    vision = small_fat.vision_wheel(tmp_path)
    made = write_fat(plan_fat(wheel, prefix, output=tmp_path / "out", also=[vision]))
    assert [path.name for path in made] == [
        FAT_NAME,
        f"torchvision-0.24.0+rocm.rocm7.1.0-{small_fat.TAG}.whl",
    ]
    metadata = text(made[1], "torchvision-0.24.0+rocm.rocm7.1.0.dist-info/METADATA")
    assert f"\nRequires-Dist: torch=={FAT}\n" in metadata
    assert text(made[1], "torchvision/version.py") == "__version__ = '0.24.0+rocm.rocm7.1.0'\n"
    further = {f"{ROOT}{name}" for name in ("lib/libhipfft.so.0", "lib/librocfft.so.0")}
    data = f"{ROOT}lib/rocfft/rocfft_kernel_cache.db"
    assert {name for name in names(made[0]) if "fft" in name} == {*further, data}
    site = small_fat.unpack(made[1], small_fat.unpack(made[0], tmp_path / "site"))
    code = "import torch, torchvision; torch.number(); print(torchvision.number())"
    # torch_hip as above, hipfft 5 and HIP once more through rocfft.
    assert small_fat.run(site, code) == f"{11111 + 5 + 111}\n"


@pytest.mark.parametrize(
    ("given", "name", "version"),
    [
        (None, FAT_NAME, FAT),
        (f"torch-2.9.0+rocm_rocm7.1.0-{small_fat.TAG}.whl", None, FAT),
        (f"torch-2.9.0+mine-{small_fat.TAG}.whl", None, "2.9.0+mine"),
        (f"sub/{NAME}", None, VERSION),
    ],
)
def test_output_names(
    wheel: Path, prefix: Path, tmp_path: Path, given: str | None, name: str | None, version: str
) -> None:
    source = small_fat.copied(wheel, tmp_path / wheel.name)
    plan = plan_fat(source, prefix, output=None if given is None else tmp_path / given)
    assert plan.wheels[0].output == str(tmp_path / (name or given or ""))
    assert plan.wheels[0].version == version
    (written,) = write_fat(plan)
    assert open_wheel(written).version == version


def test_a_version_without_local_part() -> None:
    from rocwright.builder.fat.texts import fat_version

    assert fat_version("2.9.0") == "2.9.0+rocm"
    assert fat_version("2.9.0+devrocm7.10.0.dev0-efed3c") == "2.9.0+rocm.devrocm7.10.0.dev0.efed3c"


# -- what cannot be done


Refusal = Callable[[Path, Path, Path], object]


def _wheel(**options: object) -> Refusal:
    return lambda folder, wheel, prefix: plan_fat(small_fat.torch_wheel(folder, **options), prefix)


def _damaged(folder: Path, wheel: Path, prefix: Path) -> object:
    copy = small_fat.copied(wheel, folder / NAME)
    data = copy.read_bytes()
    at = data.index(b"torch/nn.py") + 12
    copy.write_bytes(data[:at] + bytes(9) + data[at + 9 :])
    return plan_fat(copy, prefix)


def _empty(folder: Path, wheel: Path, prefix: Path) -> object:
    (folder / "empty").mkdir()
    return plan_fat(wheel, folder / "empty")


def _for_windows(folder: Path, wheel: Path, prefix: Path) -> object:
    (folder / "rocm/bin").mkdir(parents=True)
    (folder / "rocm/bin/amdhip64_7.dll").write_bytes(b"MZ")
    return plan_fat(wheel, folder / "rocm")


def _lacking(folder: Path, wheel: Path, prefix: Path) -> object:
    rocm = small_fat.rocm_prefix(folder / "rocm")
    (rocm / "lib/libhsa-runtime64.so.1.0.0").unlink()
    return plan_fat(wheel, rocm)


def _output(name: str) -> Refusal:
    return lambda folder, wheel, prefix: plan_fat(wheel, prefix, output=folder / name)


CASES: dict[str, tuple[Refusal, type[RocwrightError], str]] = {
    "no-torch": (
        lambda folder, wheel, prefix: plan_fat(small_fat.vision_wheel(folder), prefix),
        InvalidWheel,
        "is not a torch wheel",
    ),
    "fat-already": (
        _wheel(files={f"{ROOT}lib/x": "x"}),
        InvalidWheel,
        r"already has ROCm inside \(torch/lib/rocm/lib/x\)",
    ),
    "cpu": (
        _wheel(files={"torch/_C.so": None, "torch/lib/libtorch_hip.so": None, "torch/_rocm_init.py": None}),
        InvalidWheel,
        "no library of .* needs ROCm",
    ),
    "split": (
        _wheel(requires=(f'amd-torch-device-gfx942=={VERSION}; extra == "device-gfx942"',)),
        InvalidWheel,
        "device code .* is in separate device wheels",
    ),
    "never-called": (
        _wheel(files={"torch/__init__.py": "x = 1\n"}),
        InvalidWheel,
        r"__init__\.py never calls initialize\(\)",
    ),
    "no-version": (
        _wheel(files={"torch/version.py": "hip = '7.1'\n"}),
        InvalidWheel,
        r"version\.py sets no __version__",
    ),
    "damaged": (_damaged, InvalidWheel, "torch/nn.py .* is damaged"),
    "no-rocm": (_empty, InvalidPrefix, "holds no HIP runtime"),
    "no-directory": (
        lambda folder, wheel, prefix: plan_fat(wheel, folder / "nowhere"),
        InvalidPrefix,
        "is not a directory",
    ),
    "rocm-for-windows": (_for_windows, InvalidPrefix, "is a ROCm for Windows, and the wheel is for Linux"),
    "lacking": (
        _lacking,
        InvalidPrefix,
        r"this ROCm lacks libhsa-runtime64\.so\.1 \(needed by libamdhip64\.so\.7\)",
    ),
    "platform": (
        lambda folder, wheel, prefix: plan_fat(wheel, prefix, platform="windows"),
        UsageError,
        "is for linux, not for windows",
    ),
    "macos": (
        _wheel(tag="cp312-cp312-macosx_14_0_arm64"),
        UsageError,
        "neither Linux nor Windows",
    ),
    "onto-itself": (
        lambda folder, wheel, prefix: plan_fat(wheel, prefix, output=wheel),
        UsageError,
        "would replace torch-.* itself",
    ),
    "other-project": (_output(f"vision-2.9.0-{small_fat.TAG}.whl"), UsageError, "says project vision"),
    "other-version": (_output(f"torch-2.8.0-{small_fat.TAG}.whl"), UsageError, r"says version 2\.8\.0"),
    "other-tags": (_output("torch-2.9.0-py3-none-any.whl"), UsageError, "says tags py3-none-any"),
    "no-name": (_output("fat.whl"), UsageError, r"fat\.whl is not a valid wheel name"),
    "large-letters": (_output(FAT_NAME.replace(".whl", ".WHL")), UsageError, "is not a valid wheel name"),
    "extension-of-another-torch": (
        lambda folder, wheel, prefix: plan_fat(
            wheel, prefix, also=[small_fat.vision_wheel(folder, requires=("torch==2.8.0",))]
        ),
        UsageError,
        r"requires torch==2\.8\.0, not torch 2\.9\.0",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str, wheel: Path, prefix: Path, tmp_path: Path) -> None:
    act, error, message = CASES[case]
    with pytest.raises(error, match=message) as refused:
        act(tmp_path, wheel, prefix)
    assert case == "damaged" or refused.value.next_step


def test_a_full_disk_leaves_nothing_behind(
    wheel: Path, prefix: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_fat(wheel, prefix, output=tmp_path)
    usage = SimpleNamespace(free=100)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage)
    with pytest.raises(NoSpace, match="the fat wheel needs"):
        write_fat(plan)
    assert list(tmp_path.iterdir()) == []


def test_a_library_that_changed_since_leaves_nothing_behind(wheel: Path, tmp_path: Path) -> None:
    rocm = small_fat.rocm_prefix(tmp_path / "rocm")
    plan = plan_fat(wheel, rocm, output=tmp_path / "out")
    (rocm / "lib/librocblas.so.5.0.0").write_bytes(b"\x7fELF, once")
    with pytest.raises(RocwrightError, match="librocblas"):
        write_fat(plan)
    assert not (tmp_path / "out").exists()

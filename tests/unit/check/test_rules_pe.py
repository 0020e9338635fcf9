"""What the rules say of Windows programs and DLLs, on any system."""

from __future__ import annotations

import pytest
from facts_by_hand import dll, elf, members, said, wheel

import windows_tree
from rocwright.check.facts import Facts, PeFacts
from rocwright.check.run import check_paths

WIN = "win_amd64"
_NOTHING = "it is not in this wheel, in what it requires, or on the system"
_NOTHING_IN_SET = "it is not in this wheel, in what it requires of the set, or on the system"


def windows(project: str, *dlls: PeFacts, platform: str = WIN, requires: tuple[str, ...] = ()) -> Facts:
    return wheel(project, *dlls, platform=platform, requires=requires)


CORE = windows("rocm-sdk-core", dll("_rocm_sdk_core/bin/amdhip64_7.dll", "KERNEL32.dll", "amd_comgr0700.dll"))
COMGR = dll("_rocm_sdk_core/bin/amd_comgr0700.dll")


def test_a_file_that_cannot_be_read_is_told_with_the_reason() -> None:
    broken = PeFacts("pkg/a.dll", problem="a.dll: its section table lies outside the file")
    assert said("pe-readable", windows("pkg", broken)) == [
        ("pkg/a.dll", "a.dll: its section table lies outside the file")
    ]
    for rule in ("pe-machine", "pe-imports"):
        assert members(rule, windows("pkg", broken)) == []


def test_of_dlls_for_several_machines_one_is_chosen_when_it_runs() -> None:
    names = ("pkg/x86.dll", "pkg/arm64.dll", "pkg/native.pyd")
    others = [PeFacts(name, machine=0x14C) for name in names]
    assert said("pe-machine", windows("pkg", dll("pkg/amd64.dll"), *others, platform="win_amd64")) == [
        ("pkg/native.pyd", "it is for machine 0x14c, the wheel is for win_amd64")
    ]
    assert len(said("pe-machine", windows("pkg", *others, platform="win_amd64"))) == 3
    assembly = PeFacts("pkg/Net.dll", machine=0x14C, portable=True)
    assert said("pe-machine", windows("pkg", assembly, platform="win_amd64")) == []


@pytest.mark.parametrize(
    ("platform", "machine", "is_dll", "told"),
    [
        ("win_amd64", 0x8664, True, False),
        ("win_amd64", 0xAA64, True, True),
        ("win_amd64", 0x14C, True, True),
        ("win_amd64", 0x14C, False, False),  # Windows runs older programs
        ("win_amd64", 0xAA64, False, True),
        ("win_arm64", 0xAA64, True, False),
        ("win_arm64", 0x8664, True, True),
        ("win_arm64", 0x8664, False, False),
        ("win32", 0x14C, True, False),
        ("win32", 0x8664, False, True),
        # Elsewhere they are data: launchers that an installer copies.
        ("any", 0xAA64, True, False),
        ("linux_x86_64", 0x14C, True, False),
    ],
)
def test_the_machine_is_compared_with_the_tag(platform: str, machine: int, is_dll: bool, told: bool) -> None:
    facts = windows("pkg", PeFacts("pkg/a.dll", machine=machine, is_dll=is_dll), platform=platform)
    cause = f"it is for machine {machine:#x}, the wheel is for {platform}"
    assert said("pe-machine", facts) == ([("pkg/a.dll", cause)] if told else [])


def test_an_extension_for_windows_in_a_wheel_for_linux_is_of_the_wrong_system() -> None:
    cause = "it is for Windows, the wheel is tagged for Linux"
    lone = wheel("pkg", dll("pkg/a.pyd"), dll("pkg/net.dll"), dll("pkg/t.exe", is_dll=False))
    assert said("pe-machine", lone) == [("pkg/a.pyd", cause)]
    assert said("pe-machine", wheel("pkg", dll("pkg/a.pyd"), elf("pkg/a.so"))) == []
    assert said("pe-machine", wheel("pkg", dll("pkg/a.pyd"), platform="any")) == []


@pytest.mark.parametrize(
    "name",
    [
        "KERNEL32.dll",
        "api-ms-win-crt-runtime-l1-1-0.dll",
        "VCRUNTIME140_1.dll",
        "MSVCP140.dll",
        "msvcp140_codecvt_ids.dll",
        "python312.dll",
        "python3.dll",
        "d3d12.dll",
        "nvcuda.dll",
    ],
)
def test_windows_the_runtimes_the_driver_and_python_bring_theirs(name: str) -> None:
    assert said("pe-imports", windows("pkg", dll("pkg/a.pyd", name))) == []


@pytest.mark.parametrize(
    "name", ["libomp140.x86_64.dll", "libgcc_s_seh-1.dll", "python27.dll", "kernel33.dll"]
)
def test_what_windows_does_not_bring(name: str) -> None:
    assert said("pe-imports", windows("pkg", dll("pkg/a.pyd", name))) == [
        ("pkg/a.pyd", f"it needs {name}: {_NOTHING}")
    ]


def test_names_are_compared_without_case() -> None:
    facts = windows("pkg", dll("pkg/a.pyd", "Helper.DLL"), dll("pkg/bin/HELPER.dll"))
    assert said("pe-imports", facts) == []


def test_what_is_only_loaded_when_first_used_counts() -> None:
    lazy = PeFacts("pkg/a.dll", imports=("kernel32.dll",), delay_imports=("later.dll",))
    assert said("pe-imports", windows("pkg", lazy)) == [("pkg/a.dll", f"it needs later.dll: {_NOTHING}")]


def test_a_dll_that_the_package_should_hold() -> None:
    assert said("pe-imports", CORE) == [
        (
            "_rocm_sdk_core/bin/amdhip64_7.dll",
            "it needs amd_comgr0700.dll: rocm-sdk-core should have it, but does not",
        )
    ]
    whole = windows("rocm-sdk-core", *CORE.pe, COMGR)
    assert said("pe-imports", whole) == []


def test_a_required_package_that_is_there_is_looked_into() -> None:
    blas = windows(
        "rocm-sdk-libraries", dll("x/rocblas.dll", "amdhip64_8.dll"), requires=("rocm-sdk-core==1",)
    )
    cause = "it needs amdhip64_8.dll: rocm-sdk-core should have it, but does not"
    assert said("pe-imports", blas, CORE) == [("x/rocblas.dll", cause)]
    # Not among the files: its name says that it holds such DLLs.
    assert said("pe-imports", blas) == []
    assert said("pe-imports-unseen", blas) == []


def test_a_package_that_is_not_looked_at_may_bring_it() -> None:
    facts = windows("pkg", dll("pkg/a.pyd", "mkl_rt.2.dll", "torch_cpu.dll"), requires=("mkl", "torch==2"))
    assert said("pe-imports", facts) == []
    [(_, cause)] = said("pe-imports-unseen", facts)
    assert "(mkl_rt.2.dll): perhaps mkl or torch would bring it" in cause
    # That a set is complete says nothing of packages from elsewhere.
    assert said("pe-imports", facts, closed=True) == []
    family = windows("torchaudio", dll("torchaudio/a.pyd", "mkl_rt.2.dll"), requires=("mkl", "torch==2"))
    assert [cause for _, cause in said("pe-imports", family, closed=True)] == [
        f"it needs mkl_rt.2.dll: {_NOTHING_IN_SET}"
    ]


def test_what_delvewheel_put_into_the_wheel_nothing_else_brings() -> None:
    name = "msvcp140-0f2ea95580b32bcfc81c235d5751ce78.dll"
    assert len(said("pe-imports", windows("numpy", dll("numpy/a.pyd", name), requires=("anything",)))) == 1


def test_torch_loads_the_dlls_of_rocm_first() -> None:
    init = (
        "def initialize():\n    import rocm_sdk\n"
        "    rocm_sdk.initialize_process(preload_shortnames=['hipblas'], check_version='7.1')\n"
    )
    torch = wheel(
        "torch",
        dll("torch/lib/torch_hip.dll", "amdhip64_7.dll", "libhipblas.dll", "hiprtc0701.dll", "c10.dll"),
        dll("torch/lib/c10.dll"),
        platform=WIN,
        texts={"torch/_rocm_init.py": init},
    )
    assert [cause.rpartition("lacks ")[2] for _, cause in said("torch-preload", torch)] == [
        "'amdhip64'",
        "'hiprtc'",
    ]


def test_real_dlls_at_the_door(build, tmp_path) -> None:
    """Made by mingw; what is broken is the wheel around them."""
    windows_tree.windows_prefix(tmp_path / "rocm")
    names = ("amdhip64_7.dll", "amd_comgr0700.dll", "hiprtc0700.dll")
    found = {
        path.name: path.read_bytes() for path in (tmp_path / "rocm").rglob("*.dll") if path.name in names
    }
    assert set(found) == set(names)
    tag = "py3-none-win_amd64"
    for left_out, told in ((None, []), ("amd_comgr0700.dll", ["pe-imports"])):
        files = {f"_rocm_sdk_core/bin/{name}": data for name, data in found.items() if name != left_out}
        report = check_paths([build("rocm_sdk_core", "7.0.2", files, tag=tag)])
        assert [one.rule for one in report.findings if one.rule.startswith("pe-")] == told
    other = check_paths([build("rocm_sdk_core", "7.0.2", files, tag="py3-none-win_arm64")])
    assert "pe-machine" in [one.rule for one in other.findings]

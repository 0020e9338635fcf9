"""ROCm as a plain tree, in the layouts that exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.builder.rocm.describe import describe_prefix
from rocwright.errors import InvalidPrefix


def lay(root: Path, *files: str) -> Path:
    for name in files:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return root


def amd(root: Path) -> Path:
    """AMD's own layout."""
    lay(
        root,
        "bin/hipcc",
        "include/hip/hip_version.h",
        "include/roctracer/roctx.h",
        "lib/cmake/hip/hip-config.cmake",
        "lib/llvm/amdgcn/bitcode/ockl.bc",
        "lib/host-math/lib/librocm-openblas.so.0",
        "lib/rocm_sysdeps/lib/librocm_sysdeps_liblzma.so.5",
        "lib/libamdhip64.so.7",
        "lib/libhiprtc.so.7",
        "lib/libhiprtc-builtins.so.7",
        "lib/libMIOpen.so.1.0",
        "lib/libamdhip64.so.debug.txt/not-a-library",
    )
    (root / ".info").mkdir()
    (root / ".info" / "version").write_text("7.10.0-83\n")
    return root


def test_what_amds_layout_has(tmp_path: Path) -> None:
    root = amd(tmp_path / "rocm")
    rocm = describe_prefix(root)
    assert rocm.origin == "prefix"
    assert rocm.version == "7.10.0"
    assert rocm.root == str(root)
    assert rocm.bin == f"{root}/bin"
    assert rocm.cmake == f"{root}/lib/cmake"
    assert rocm.device_libraries == f"{root}/lib/llvm/amdgcn/bitcode"
    assert rocm.host_math == f"{root}/lib/host-math"
    assert rocm.sysdeps == f"{root}/lib/rocm_sysdeps"
    assert rocm.roctracer_include == f"{root}/include/roctracer"
    assert set(rocm.libraries) >= {"amdhip64", "hiprtc", "hiprtc-builtins", "miopen", "rocm-openblas"}
    assert "rocm_sysdeps_liblzma" in rocm.libraries
    assert (rocm.targets, rocm.site) == ((), "")


def test_native_packages_of_rocm_10(tmp_path: Path) -> None:
    """ROCm lies in core-10.0; links above it say no version, and HIP's headers have one of their own."""
    amd(tmp_path / "core-9.1")
    root = amd(tmp_path / "core-10.0")
    (root / ".info/version").write_text("10.0.0\n")
    header = "#define HIP_VERSION_MAJOR 7\n#define HIP_VERSION_MINOR 15\n#define HIP_VERSION_PATCH 1\n"
    (root / "include/hip/hip_version.h").write_text(header)
    for name in ("bin", "include", "lib"):
        (tmp_path / name).symlink_to(f"core-10.0/{name}")
    # The newest, where no link says which one is meant.
    rocm = describe_prefix(tmp_path)
    assert (rocm.root, rocm.version) == (str(root), "10.0.0")
    (tmp_path / "core").symlink_to("core-9.1")
    rocm = describe_prefix(tmp_path)
    assert (rocm.root, rocm.version) == (str(tmp_path / "core"), "7.10.0")
    assert describe_prefix(root).version == "10.0.0"


@pytest.mark.parametrize(
    ("said", "targets"),
    [
        ('{"dist_amdgpu_targets": "gfx1100;gfx942"}', ("gfx1100", "gfx942")),
        ('{"dist_amdgpu_targets": ""}', ()),
        ('{"dist_amdgpu_targets": "gfx110X-all"}', ()),
        ('{"dist_amdgpu_targets": null}', ()),
        ('{"other": 1}', ()),
        ("[]", ()),
        ("no JSON", ()),
    ],
)
def test_a_tree_that_says_what_it_was_built_for(tmp_path: Path, said: str, targets: tuple[str, ...]) -> None:
    root = lay(amd(tmp_path / "rocm"), "share/therock/dist_info.json")
    (root / "share/therock/dist_info.json").write_text(said)
    assert describe_prefix(root).targets == targets


def test_debians_layout_below_usr(tmp_path: Path) -> None:
    root = lay(
        tmp_path / "usr",
        "bin/hipcc",
        "lib/x86_64-linux-gnu/cmake/hip/hip-config.cmake",
        "lib/cmake/clang-15/ClangConfig.cmake",
        "lib/x86_64-linux-gnu/libamdhip64.so.5",
        # Of two compilers, the newer one's.
        "lib/llvm-9/lib/clang/9.0.1/amdgcn/bitcode/ockl.bc",
        "lib/llvm-15/lib/clang/15.0.6/amdgcn/bitcode/ockl.bc",
        "lib/llvm-17/lib/clang/17/amdgcn/bitcode/README",
    )
    (root / "include" / "hip").mkdir(parents=True)
    (root / "include/hip/hip_version.h").write_text(
        "#define HIP_VERSION_MAJOR 5\n#define HIP_VERSION_MINOR 2\n#define HIP_VERSION_PATCH 21153\n"
    )
    # A development package alone has links to libraries of others.
    (root / "lib/x86_64-linux-gnu/librocblas.so").symlink_to("librocblas.so.0")
    rocm = describe_prefix(root)
    assert rocm.version == "5.2.21153"
    assert rocm.cmake == f"{root}/lib/x86_64-linux-gnu/cmake"
    assert rocm.device_libraries == f"{root}/lib/llvm-15/lib/clang/15.0.6/amdgcn/bitcode"
    assert (rocm.host_math, rocm.sysdeps, rocm.roctracer_include) == ("", "", "")
    assert rocm.libraries == ("amdhip64",)


def test_the_products_version_goes_before_hips_own(tmp_path: Path) -> None:
    root = amd(tmp_path / "rocm")
    (root / ".info" / "version").write_text("\n")
    (root / "include" / "rocm-core").mkdir()
    (root / "include/rocm-core/rocm_version.h").write_text(
        "#define ROCM_VERSION_MAJOR   6\n#  define ROCM_VERSION_MINOR 4\n#define ROCM_VERSION_PATCH  3\n"
    )
    assert describe_prefix(root).version == "6.4.3"


def test_the_version_stands_in_a_header_that_is_no_utf8(tmp_path: Path) -> None:
    root = amd(tmp_path / "rocm")
    (root / ".info" / "version").unlink()
    (root / "include/hip/hip_version.h").write_bytes(
        b"// \xa9 AMD\n"
        b"#define HIP_VERSION_MAJOR 7\n#define HIP_VERSION_MINOR 1\n#define HIP_VERSION_PATCH 2\n"
    )
    assert describe_prefix(root).version == "7.1.2"


def test_a_link_stays_the_name_of_a_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    amd(tmp_path / "rocm-7.10.0")
    (tmp_path / "rocm").symlink_to("rocm-7.10.0")
    monkeypatch.chdir(tmp_path)
    assert describe_prefix(Path("rocm")).root == str(tmp_path / "rocm")


@pytest.mark.parametrize(
    ("without", "said"),
    [
        ("bin/hipcc", "bin/hipcc"),
        ("lib/cmake/hip/hip-config.cmake", "lib/cmake/hip"),
        ("include/hip/hip_version.h", "hip_version.h"),
        (".info/version", "version"),
    ],
)
def test_what_a_build_needs_is_missed(tmp_path: Path, without: str, said: str) -> None:
    root = amd(tmp_path / "rocm")
    (root / without).unlink()
    with pytest.raises(InvalidPrefix, match="it lacks") as refused:
        describe_prefix(root)
    assert said in refused.value.what.split("it lacks")[1]


def test_everything_missing_is_named_at_once(tmp_path: Path) -> None:
    with pytest.raises(InvalidPrefix) as refused:
        describe_prefix(tmp_path)
    for what in ("bin/hipcc", "hip_version.h", "lib/cmake/hip", ".info/version"):
        assert what in refused.value.what
    assert refused.value.exit_code == 3


@pytest.mark.parametrize("given", ["dist", "dist/rocm/bin", "dist/rocm/lib/cmake", "."])
def test_what_was_probably_meant_is_told(tmp_path: Path, given: str) -> None:
    root = amd(tmp_path / "dist" / "rocm")
    with pytest.raises(InvalidPrefix) as refused:
        describe_prefix(tmp_path / given)
    assert str(root) in str(refused.value.next_step)


def test_the_build_in_a_checkout_of_rocms_sources_is_what_was_meant(tmp_path: Path) -> None:
    root = amd(tmp_path / "build" / "dist" / "rocm")
    with pytest.raises(InvalidPrefix) as refused:
        describe_prefix(tmp_path)
    assert str(root) in str(refused.value.next_step)


def test_an_environment_is_no_prefix(tmp_path: Path) -> None:
    (tmp_path / "pyvenv.cfg").write_text("")
    with pytest.raises(InvalidPrefix) as refused:
        describe_prefix(tmp_path)
    assert f"--rocm-environment {tmp_path}" in str(refused.value.next_step)


def test_no_directory(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidPrefix, match="does not exist"):
        describe_prefix(tmp_path / "rocm")
    with pytest.raises(InvalidPrefix, match="is not a directory"):
        describe_prefix(tmp_path / "file")

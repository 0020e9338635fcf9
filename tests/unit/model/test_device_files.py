"""Which target a database file of ROCm serves, told from its path: names as ROCm's packages have them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rocwright.data import load_table, parse_table
from rocwright.errors import InvalidData
from rocwright.model.device_files import (
    DeviceFile,
    DeviceFiles,
    Unplaced,
    classify,
    in_database,
    known_targets,
)
from rocwright.model.gpu import Families, Target, parse_target

TABLE = load_table("device_files", DeviceFiles)
KNOWN = known_targets(TABLE, load_table("families", Families))
HANDLERS = {handler.name: handler for handler in TABLE.handler}


def sanitised(target: str) -> str:
    return target.replace("-", "_")


# One line: handler, target, path. The file names are those of published ROCm builds, wheels and issues.
ONE_TARGET = """
rocblas gfx90a lib/rocblas/library/TensileLibrary_Type_HH_Contraction_l_Ailk_Bljk_Cijk_Dijk_gfx90a.co
rocblas gfx90a lib/rocblas/library/TensileLibrary_gfx90a.hsaco
rocblas gfx90a lib/rocblas/library/Kernels.so-000-gfx90a-xnack-.hsaco
rocblas gfx90a lib/rocblas/library/Kernels.so-000-gfx90a-xnack+.hsaco
rocblas gfx906 lib/rocblas/library/TensileLibrary_Type_SS_Contraction_l_Ailk_fallback_gfx906-xnack-.hsaco
rocblas gfx1030 lib/rocblas/library/TensileLibrary_lazy_gfx1030.dat
rocblas gfx942 lib/rocblas/library/gfx942/TensileManifest.txt
rocblas gfx942 lib/rocblas/library/gfx942/TensileLibrary_Type_SS_fallback.dat
rocblas gfx1100 torch/lib/rocblas/library/TensileLibrary_gfx1100.dat
rocblas gfx1101 bin/rocblas/library/TensileLibrary_gfx1101.dat
rocblas gfx942 lib/rocblas/library/Librarygfx942.dat
rocblas gfx1010 usr/lib/x86_64-linux-gnu/rocblas/2.47.0/library/Kernels.so-000-gfx1010.hsaco
rocblas gfx90a usr/lib/x86_64-linux-gnu/rocblas/2.47.0/library/Kernels.so-000-gfx90a-xnack+.hsaco
rocblas gfx803 math-libs/BLAS/rocBLAS/stage/lib/rocblas/library/Kernels.so-000-gfx803.hsaco
hipblaslt gfx942 lib/hipblaslt/library/extop_gfx942.co
hipblaslt gfx942 lib/hipblaslt/library/TensileLibrary_lazy_gfx942.dat
hipblaslt gfx1250 lib/hipblaslt/library/gfx1250/TensileLibrary_lazy_gfx1250.dat.zlib
hipblaslt gfx1250 lib/hipblaslt/library/gfx1250/TensileLiteLibrary_lazy_gfx1250_Mapping.dat.zlib
hipblaslt gfx1250 lib/hipblaslt/library/gfx1250v0/TensileLibrary_lazy_gfx1250v0.dat.zlib
hipblaslt gfx1250-strict lib/hipblaslt/library/gfx1250-strict/Kernels.so-000-gfx1250-strict.hsaco
hipblaslt gfx1100 lib/hipblaslt/library/hipblasltTransform_gfx1100.hsaco
hipblaslt gfx942 lib/hipblaslt/library/gfx942/hipblasltExtOpLibrary_gfx942.dat
hipblaslt gfx90a lib/hipblaslt/library/gfx90a:xnack-/Kernels.so-000-gfx90a-xnack-.hsaco
hipblaslt gfx942 lib/hipblaslt/library/gfx942/x_gfx942-sramecc+-xnack-.co
hipsparselt gfx950 lib/hipsparselt/library/TensileLibrary_gfx950.co
hipsparselt gfx942 lib/hipsparselt/library/extop_gfx942.co
miopen gfx908 share/miopen/db/gfx90878.db.txt
miopen gfx908 share/miopen/db/gfx90878.HIP.fdb.txt
miopen gfx90a share/miopen/db/gfx90a6e.db
miopen gfx90a share/miopen/db/gfx90a68.kdb
miopen gfx942 share/miopen/db/gfx942130.HIP.fdb.txt
miopen gfx942 share/miopen/db/gfx942e4.db.txt
miopen gfx950 share/miopen/db/gfx950100.db.txt
miopen gfx803 share/miopen/db/gfx803_36.db
miopen gfx900 share/miopen/db/gfx900_56.kdb
miopen gfx906 share/miopen/db/gfx906_60.OpenCL.fdb.txt
miopen gfx1030 share/miopen/db/gfx1030_36.kdb
miopen gfx942 share/miopen/db/gfx942.kdb
miopen gfx1250-strict share/miopen/db/gfx1250-strict_256.db.txt
miopen gfx1250-strict share/miopen/db/gfx1250-strict256.HIP.fdb.txt
miopen gfx942 share/miopen/db/gfx942.tn.model
miopen gfx942 share/miopen/db/gfx942_3d.tn.model
miopen gfx942 share/miopen/db/gfx942_3d_metadata.tn.model
miopen gfx908 share/miopen/db/gfx908_ConvAsm1x1U_decoder.ktn.model
miopen gfx90a torch/share/miopen/db/gfx90a.tn.model
miopen-ck gfx942 lib/libMIOpenCKGroupedConv_gfx942.so
miopen-ck gfx12-generic lib/libMIOpenCKGroupedConv_gfx12-generic.so
miopen-ck gfx90a lib/libMIOpenCKGroupedConv_gfx90a.so.1.0
miopen-ck gfx1201 bin/MIOpenCKGroupedConv_gfx1201.dll
aotriton gfx90a torch/lib/aotriton.images/amd-gfx90a/__signature__
aotriton gfx942 lib/aotriton.images/amd-gfx942/flash/attn_fwd/FONLY__*bf16@16_128_F_F_0_0___gfx942.aks2
aotriton gfx1250 lib/aotriton.images/amd-gfx1250/flash/attn_fwd.zip
composablekernel gfx942 lib/libdevice_conv_operations_gfx942.a
composablekernel gfx90a lib/libdevice_conv_operations_gfx90a_xnack_.a
composablekernel gfx1250-strict lib/libdevice_conv_operations_gfx1250_strict.a
composablekernel gfx9-4-generic lib/libdevice_conv_operations_gfx9_4_generic.a
hipkernelprovider gfx950 lib/hipdnn_plugins/engines/arch_content/rocke/gfx950/bundle.json
hipkernelprovider gfx942 lib/hipdnn_plugins/engines/arch_content/hip-kernel-provider/gfx942/sdpa/solo.kdp.json
hipkernelprovider gfx942 bin/hip_kernel_provider/engines/test_arch_content/rocke/sdpa/gfx942/lock.json
hipkernelprovider gfx950 lib/hipdnn_plugins/engines/hip_kernel_provider/asm_kernels/gfx950/fmha/fwd_bf16.co
hotswap_cache gfx1250 share/rocjitsu/translations/gfx1250-b0-a0/v1/00ff.man
rocfft gfx950 lib/rocfft/rocfft_kernel_cache_gfx950.db
rocfft gfx10-3-generic lib/rocfft/rocfft_kernel_cache_gfx10-3-generic.db
"""


@pytest.mark.parametrize(
    ("handler", "target", "path"),
    [pytest.param(*line.split(), id=line.split()[2]) for line in ONE_TARGET.strip().splitlines()],
)
def test_a_file_of_one_target(handler: str, target: str, path: str) -> None:
    wanted = DeviceFile(handler, target, None)
    assert classify(path, TABLE, KNOWN) == wanted
    # Where the prefix lies says nothing, even if it names a target.
    assert classify("blas_lib_gfx1030/stage/" + path, TABLE, KNOWN) == wanted
    assert classify("/" + path, TABLE, KNOWN) == wanted


@pytest.mark.parametrize(
    "path",
    [
        "lib/rocblas/library/TensileManifest.txt",
        "usr/lib/x86_64-linux-gnu/rocblas/2.47.0/library/TensileLibrary.dat",
        "lib/rocblas/library/TensileLibrary_Type_SS_Contraction_l_Ailk_Bjlk_Cijk_Dijk_fallback.dat",
        "lib/hipblaslt/library/hipblasltExtOpLibrary.dat",
        "lib/hipblaslt/library/hipblasltTransform.hsaco",
        "lib/hipblaslt/library/TensileLiteLibrary_lazy_Mapping.dat",
        "lib/rocfft/rocfft_kernel_cache.db",
        "lib/libdevice_conv_operations.a",
        "lib/libdevice_gemm_operations.a",
        "lib/libMIOpen.so.1.0",
        "lib/librocfft-device-0.so.0.1",
        "lib/libaotriton_v2.so.0.11.1",
        "lib/hipdnn_plugins/engines/libhip_kernel_provider.so",
        "share/miopen/db/README.md",
        # A target outside of every handler's area is none of this table's business.
        "lib/llvm/lib-debug/libomptarget-amdgpu-gfx908.bc",
        "lib/librocshmem_device_gfx942.bc",
        "blas_lib_gfx942/lib/librocblas.so.5",
        "gfx942/lib/rocblas/library/TensileManifest.txt",
        ".kpack/blas_lib_gfx942.kpack",
        "lib/myrocblas/library/x_gfx942.dat",
        "",
    ],
)
def test_a_file_of_all_targets_stays_with_the_host(path: str) -> None:
    assert classify(path, TABLE, KNOWN) is None


@pytest.mark.parametrize(
    ("word", "group", "members"),
    [
        ("gfx120x", "gfx12_0", "gfx1200 gfx1201"),
        ("gfx110x", "gfx110x", "gfx1100 gfx1101 gfx1102 gfx1103"),
        ("gfx115x", "gfx115x", "gfx1150 gfx1151 gfx1152 gfx1153 gfx1154"),
        ("gfx94x", "gfx94x", "gfx940 gfx941 gfx942"),
        (
            "gfx11xx",
            "gfx11",
            "gfx1100 gfx1101 gfx1102 gfx1103 gfx1150 gfx1151 gfx1152 gfx1153 gfx1154 gfx1170 gfx1171 gfx1172",
        ),
    ],
)
def test_a_file_of_a_group(word: str, group: str, members: str) -> None:
    path = f"torch/lib/aotriton.images/amd-{word}/flash/attn_fwd/FONLY__*bf16@16___{word}.aks2"
    assert classify(path, TABLE, KNOWN) == DeviceFile("aotriton", None, group, tuple(members.split()))


# One line: handler, the word that is reported, path.
UNPLACED = """
rocblas gfx9999 lib/rocblas/library/TensileLibrary_gfx9999.dat
rocblas gfx90 lib/rocblas/library/TensileLibrary_gfx90.dat
rocblas gfx110 lib/rocblas/library/gfx110/TensileManifest.txt
rocblas gfx90a1 lib/rocblas/library/TensileLibrary_gfx90a1.dat
rocblas gfx11xx lib/rocblas/library/TensileLibrary_gfx11xx.dat
rocblas gfx942-strict lib/rocblas/library/TensileLibrary_gfx942-strict.dat
rocblas gfx1250-strict2 lib/rocblas/library/TensileLibrary_gfx1250-strict2.dat
rocblas gfx90a-xnack lib/rocblas/library/Kernels.so-000-gfx90a-xnack.hsaco
rocblas gfx90a:tgsplit+ lib/rocblas/library/gfx90a:tgsplit+/x.co
rocblas gfx942 lib/rocblas/library/gfx942/TensileLibrary_gfx90a.co
rocblas gfx9999 lib/rocblas/library/gfx942/TensileLibrary_gfx9999.co
hipblaslt gfx1251v0 lib/hipblaslt/library/gfx1251v0/x.dat
miopen gfx9010 share/miopen/db/gfx9010.db.txt
miopen gfx90a6 share/miopen/db/gfx90a6.db.txt
miopen gfx94130 share/miopen/db/gfx94130.db.txt
miopen gfx94240 share/miopen/db/gfx94240.db.txt
miopen gfx9421304 share/miopen/db/gfx9421304.db.txt
miopen gfx942_metadata share/miopen/db/old_gfx942_metadata.model
miopen-ck gfx9999 lib/libMIOpenCKGroupedConv_gfx9999.so
miopen-ck gfx942 lib/libMIOpenCKGroupedConv_gfx942.a
aotriton gfx14xx lib/aotriton.images/amd-gfx14xx/flash/x.zip
aotriton gfx942 lib/aotriton.images/gfx942/flash/x.zip
aotriton gfx942_mod9 lib/aotriton.images/amd-gfx942_mod9/flash/x.zip
composablekernel gfx1250_other lib/libdevice_conv_operations_gfx1250_other.a
hipkernelprovider gfx9999 lib/hipdnn_plugins/engines/arch_content/rocke/gfx9999/x.co
hipkernelprovider gfx942 lib/hipdnn_plugins/engines/arch_content/rocke/index_gfx942.json
hotswap_cache gfx1250 share/rocjitsu/translations/gfx1250/v1/00ff.man
rocfft gfx9999 lib/rocfft/rocfft_kernel_cache_gfx9999.db
"""


@pytest.mark.parametrize(
    ("handler", "word", "path"),
    [pytest.param(*line.split(), id=line.split()[2]) for line in UNPLACED.strip().splitlines()],
)
def test_what_names_no_known_target_is_reported_and_never_left_in_the_host(
    handler: str, word: str, path: str
) -> None:
    found = classify(path, TABLE, KNOWN)
    assert isinstance(found, Unplaced)
    assert (found.handler, found.word) == (handler, word)
    assert found.reason


def test_the_reason_says_what_is_wrong() -> None:
    def reason(path: str) -> str:
        found = classify(path, TABLE, KNOWN)
        assert isinstance(found, Unplaced)
        return found.reason

    assert "not a known target" in reason("lib/rocblas/library/x_gfx9999.dat")
    assert "not the only target" in reason("lib/rocblas/library/gfx942/x_gfx90a.dat")
    assert "keeps no targets" in reason("lib/aotriton.images/gfx942/x")


# How each handler writes a target into a path, and with which features it may.
SHAPES = [
    ("rocblas", "lib/rocblas/library/TensileLibrary_{}.dat", ["", "-xnack-", "-sramecc+-xnack+", ":xnack+"]),
    ("hipblaslt", "lib/hipblaslt/library/{}/x.co", ["", ":xnack-", "-xnack-"]),
    ("hipsparselt", "x/hipsparselt/library/extop_{}.co", ["", "-sramecc-"]),
    ("miopen", "share/miopen/db/{}.db.txt", ["", "_8", "_36", "_120", "41", "6e", "e4", "130", "100"]),
    ("miopen-ck", "lib/libMIOpenCKGroupedConv_{}.so", ["", ":xnack-", ":sramecc+:xnack-"]),
    ("aotriton", "lib/aotriton.images/amd-{}/flash/x.zip", [""]),
    ("hipkernelprovider", "engines/arch_content/rocke/{}/x.co", ["", ":xnack-"]),
    ("hotswap_cache", "share/rocjitsu/translations/{}/v1/0.obj", ["-b0-a0"]),
    ("rocfft", "lib/rocfft/rocfft_kernel_cache_{}.db", [""]),
]


@pytest.mark.parametrize("target", sorted(KNOWN))
def test_every_known_target_is_found_in_every_spelling(target: str) -> None:
    for handler, shape, tails in SHAPES:
        for tail in tails:
            path = shape.format(target + tail)
            assert classify(path, TABLE, KNOWN) == DeviceFile(handler, target, None), path
    for tail in ("", "_xnack_", "_sramecc__xnack_"):
        path = f"lib/libdevice_conv_operations_{sanitised(target)}{tail}.a"
        assert classify(path, TABLE, KNOWN) == DeviceFile("composablekernel", target, None), path


def test_the_shapes_cover_every_handler() -> None:
    assert {name for name, _, _ in SHAPES} | {"composablekernel"} == set(HANDLERS)


EXACT = [shape for shape in SHAPES if shape[0] not in ("miopen", "hotswap_cache")]


@given(
    st.sampled_from(sorted(KNOWN)),
    st.text("0123456789abcdefgxz", min_size=1, max_size=3),
    st.sampled_from(EXACT),
)
def test_a_longer_word_is_never_taken_for_the_known_target_it_begins_with(
    target: str, more: str, shape: tuple[str, str, list[str]]
) -> None:
    word = target + more
    found = classify(shape[1].format(word), TABLE, KNOWN)
    if word in KNOWN or word in TABLE.steppings:
        assert isinstance(found, DeviceFile) and found.target in (word, TABLE.steppings.get(word))
    else:
        assert isinstance(found, Unplaced) and found.word == word


@given(st.sampled_from(sorted(KNOWN)), st.integers(1, 3), st.sampled_from(EXACT))
def test_a_cut_word_is_never_taken_for_another_target(
    target: str, cut: int, shape: tuple[str, str, list[str]]
) -> None:
    word = target[:-cut]
    found = classify(shape[1].format(word), TABLE, KNOWN)
    if word in KNOWN:
        assert found == DeviceFile(shape[0], word, None)
    elif re.match("gfx[0-9]", word):
        assert isinstance(found, Unplaced)
    else:
        assert found is None


@given(st.frozensets(st.sampled_from(sorted(KNOWN))), st.sampled_from(sorted(KNOWN)))
def test_only_targets_on_the_list_are_known(listed: frozenset[str], target: str) -> None:
    found = classify(f"lib/rocblas/library/x_{target}.dat", TABLE, listed)
    if target in listed:
        assert found == DeviceFile("rocblas", target, None)
    else:
        assert found == Unplaced("rocblas", target, "is not a known target")


PIECES = [*"/._-:+x0149ab\n", "gfx", "gfx90a", "/rocblas/library/", "/miopen/db/", "/aotriton.images/amd-"]


@given(st.lists(st.sampled_from(PIECES), max_size=12))
def test_any_path_gets_an_answer(pieces: list[str]) -> None:
    path = "".join(pieces)
    found = classify(path, TABLE, KNOWN)
    if isinstance(found, DeviceFile):
        assert (found.target is None) != (found.group is None)
        assert found.target is None or found.target in path


def test_the_libraries_shipped_whole_are_looked_at_first() -> None:
    assert TABLE.handler[0].name == "miopen-ck"


def test_known_targets_are_base_targets_and_hold_all_families() -> None:
    assert all(parse_target(target) == Target(target) for target in KNOWN)
    assert {"gfx803", "gfx900", "gfx906", "gfx90c", "gfx940", "gfx942", "gfx1201", "amdgcnspirv"} <= KNOWN
    assert {"gfx1250", "gfx1250-strict", "gfx9-4-generic"} <= KNOWN
    assert set(TABLE.steppings.values()) <= KNOWN
    # Sanitised names must stay apart.
    assert len({sanitised(target) for target in KNOWN}) == len(KNOWN)


@pytest.mark.parametrize("names", ['["*.dat"]', '["<target>/<target>"]'])
def test_a_row_without_exactly_one_place_for_the_target_is_refused(names: str) -> None:
    text = f"""
further_targets = []
[[handler]]
name = "mine"
spelling = "plain"
area = "**/mine/"
names = {names}
"""
    with pytest.raises(InvalidData) as caught:
        parse_table(text, DeviceFiles, where="mine.toml")
    assert "'mine'" in caught.value.what
    assert "<target>" in caught.value.what


@pytest.mark.parametrize(
    ("path", "there"),
    [
        ("lib/hipblaslt/library/hipblasltTransform.hsaco", True),
        ("rocblas/4.4.1/library/TensileLibrary.dat", True),
        ("share/miopen/db/gfx90a68.kdb", True),
        ("lib/libhipblaslt.so.1", False),
        ("share/doc/rocblas/copyright", False),
    ],
)
def test_databases_are_known_by_where_they_lie(path: str, there: bool) -> None:
    assert in_database(path, TABLE) is there

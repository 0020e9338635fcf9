"""What a family plan makes of a user's wishes: switches, several Pythons, prefixes, editable trees."""

from __future__ import annotations

import msgspec
import pytest
from plans_by_hand import LINUX, family, one, tree, trees

from rocwright.builder.decide.family import FamilyPlan, running_python
from rocwright.builder.decide.plan import BuildPlan, with_built
from rocwright.builder.decide.recipe import recipes
from rocwright.builder.rocm.rocm import Rocm, unknown_rocm
from rocwright.errors import InvalidInput, UsageError

GCC = "-Wno-error=maybe-uninitialized -Wno-error=uninitialized -Wno-error=restrict"
PREFIX = Rocm(
    version="6.4.3", root="/opt/rocm", bin="/opt/rocm/bin", cmake="/opt/rocm/lib/cmake", origin="prefix"
)


# ---- what the caller set ----


def test_what_the_caller_set_is_kept_and_added_to() -> None:
    caller = {
        "PATH": "/usr/bin",
        "USE_KINETO": "OFF",
        "CC": "gcc-12",
        "CXXFLAGS": "-O1",
        "CPPFLAGS": "-DX",
        "LDFLAGS": "-s",
        "CPATH": "/mine",
        "PKG_CONFIG_PATH": "/mine/pc",
        "MAX_JOBS": "7",
        "HOME": "/home/x",
        "ROCM_HOME": "/other",
        "LD_LIBRARY_PATH": "/other/lib",
        "CMAKE_PREFIX_PATH": "/other/cmake",
    }
    before = dict(caller)
    env = one("torch", caller=caller, include=("/python",)).env
    assert env["USE_KINETO"] == "OFF"
    assert env["CC"] == "gcc-12"
    assert env["CXXFLAGS"].startswith(f"-O1 {GCC} -I")
    assert env["CPPFLAGS"] == f"-DX {GCC}"
    assert env["LDFLAGS"] == "-s -L/sdk/lib/rocm_sysdeps/lib"
    assert env["CPATH"] == "/python:/mine"
    assert env["PKG_CONFIG_PATH"] == "/sdk/lib/rocm_sysdeps/lib/pkgconfig:/mine/pc"
    assert env["MAX_JOBS"] == "7"
    # Another ROCm of his leads nowhere here.
    assert (env["ROCM_HOME"], env["CMAKE_PREFIX_PATH"]) == ("/sdk", "/sdk/lib/cmake")
    assert env["LD_LIBRARY_PATH"] == "/sdk/lib/rocm_sysdeps/lib"
    assert "HOME" not in env
    assert caller == before


def test_a_number_of_jobs_that_was_asked_for_beats_the_variable() -> None:
    caller = {"MAX_JOBS": "7"}
    assert one("torch", caller=caller, jobs=9, cores=5).env["MAX_JOBS"] == "9"
    assert one("torch", caller=caller, cores=5).env["MAX_JOBS"] == "7"
    assert one("torch", caller={}, cores=5).env["MAX_JOBS"] == "5"


def test_a_callers_date_is_kept() -> None:
    assert one("torch", caller={"SOURCE_DATE_EPOCH": "12"}).env["SOURCE_DATE_EPOCH"] == "12"


def test_what_the_rocm_does_not_have_is_not_named_but_told() -> None:
    bare = Rocm(version="7.10.0", root="/sdk", bin="/sdk/bin", cmake="/sdk/lib/cmake")
    plan = family(rocm=bare)
    for build in plan.builds:
        for name in ("HIP_DEVICE_LIB_PATH", "BLAS", "OpenBLAS_HOME", "PKG_CONFIG_PATH", "LD_LIBRARY_PATH"):
            assert name not in build.env
    assert any("HIP_DEVICE_LIB_PATH is not set" in note for note in plan.notes)
    assert any("lib/host-math" in note for note in plan.notes)
    assert family().notes == ()


# ---- flash attention ----


@pytest.mark.parametrize(
    ("targets", "platform", "triton", "value"),
    [
        ("gfx90a", "linux", True, "1"),
        ("gfx942", "linux", True, "1"),
        ("gfx950", "linux", True, "1"),
        ("gfx1100", "linux", True, "1"),
        ("gfx1201", "linux", True, "1"),
        ("gfx906", "linux", True, "0"),
        ("gfx908", "linux", True, "0"),
        ("gfx906 gfx1030", "linux", True, "0"),
        ("gfx906 gfx90a", "linux", True, "1"),
        ("gfx942", "linux", False, "0"),
        ("gfx1100", "windows", False, "1"),
        ("gfx1030", "windows", False, "0"),
    ],
)
def test_flash_attention_by_the_rule(targets: str, platform: str, triton: bool, value: str) -> None:
    build = {"triton": triton}
    plan = family(platform, targets=tuple(targets.split()), build=build)
    torch = next(build for build in plan.builds if build.project == "torch")
    assert (torch.env["USE_FLASH_ATTENTION"], torch.env["USE_MEM_EFF_ATTENTION"]) == (value, value)
    # When it is off, the user hears why.
    assert any("flash attention is off" in note for note in plan.notes) == (value == "0")


def test_a_flag_for_flash_attention_wins() -> None:
    assert one("torch", flash_attention=False).env["USE_FLASH_ATTENTION"] == "0"
    asked = family(flash_attention=True, targets=("gfx906",))
    assert asked.builds[1].env["USE_FLASH_ATTENTION"] == "1"
    assert any("built for none of gfx906" in note for note in asked.notes)
    with pytest.raises(UsageError, match="triton") as caught:
        family(flash_attention=True, build={"triton": False})
    assert "--triton-dir" in str(caught.value)


# ---- compiler caches ----


def test_launchers_stand_in_every_build() -> None:
    given = {"CMAKE_CXX_COMPILER_LAUNCHER": "/w/bin/record-host", "HIP_CLANG_LAUNCHER": "/w/bin/record-hip"}
    for build in family(cache="sccache", launchers=given).builds:
        assert given.items() <= build.env.items()
        assert "CMAKE_C_COMPILER_LAUNCHER" not in build.env


def test_the_advice_on_ccache_and_aotriton() -> None:
    assert any("invalid argument" in note for note in family(cache="ccache").notes)
    assert not any("invalid argument" in note for note in family(cache="sccache").notes)
    assert not any("invalid argument" in note for note in family(cache="ccache", flash_attention=False).notes)


def test_an_older_hipcc_has_no_launcher() -> None:
    def told(version: str, **changes: object) -> bool:
        plan = family(rocm=msgspec.structs.replace(LINUX, version=version), **changes)
        return any("HIP_CLANG_LAUNCHER" in note for note in plan.notes)

    assert told("7.12.0", cache="sccache")
    assert not told("7.13.0a20260101", cache="sccache")
    assert not told("7.12.0", cache="sccache", cache_hip=False)
    # hipcc itself passes the compiler by, whichever cache is asked for.
    assert told("7.12.0", cache="ccache")
    assert not told("7.12.0")
    # Whoever has a wrapper of his own was told.
    table = recipes()
    own = [msgspec.structs.replace(row, env={**row.env, "HIP_CLANG_PATH": "/w"}) for row in table.recipe]
    assert not told("7.12.0", cache="ccache", table=msgspec.structs.replace(table, recipe=tuple(own)))
    # One that stands before the compiler of torch alone leaves the others, which are named.
    some = [new if new.project == "torch" else row for new, row in zip(own, table.recipe, strict=True)]
    older = msgspec.structs.replace(LINUX, version="7.12.0")
    part = family(rocm=older, part=("gfx942",), table=msgspec.structs.replace(table, recipe=tuple(some)))
    (note,) = (note for note in part.notes if "HIP_CLANG_LAUNCHER" in note)
    assert "hipcc compiles for triton, torchaudio, torchvision, apex (" in note
    # Where HIP is a language of CMake's, it has CMake's launcher.
    apart = {
        name: msgspec.structs.replace(tree, hip_language=name != "apex")
        for name, tree in trees("/b/").items()
    }
    (note,) = (
        note for note in family(rocm=older, cache="ccache", trees=apart).notes if "HIP_CLANG_LAUNCHER" in note
    )
    assert "HIP code of apex: " in note


# ---- what targets cost ----


def test_many_targets_are_priced_aloud() -> None:
    five = ("gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201")
    note = next(note for note in family(targets=five).notes if "GPU targets" in note)
    # 48 CPU minutes for each of the four after the first.
    for words in ("5 GPU targets", "48 CPU minutes", "3.2 CPU hours", "estimate"):
        assert words in note
    assert not any("GPU targets" in note for note in family(targets=five[:3]).notes)
    with pytest.raises(UsageError) as caught:
        family(targets=())
    assert "--pytorch-rocm-arch" in str(caught.value)


# ---- several Pythons from one tree ----


def test_pythons_follow_one_another_and_share_the_objects() -> None:
    plan = family(pythons=("3.11", "3.12", "3.13t"), clean=True)
    assert [build.python for build in plan.builds] == ["3.11"] * 5 + ["3.12"] * 5 + ["3.13t"] * 5
    removed = {(build.project, build.python): build.removed for build in plan.builds}
    assert removed["torch", "3.11"] == ("build",)
    assert removed["torch", "3.12"] == removed["torch", "3.13t"] == ("build/CMakeCache.txt",)
    assert removed["torchvision", "3.12"] == ()
    # Nothing else differs: another word in a compile command would be another object.
    first, second = (
        msgspec.structs.replace(build, python="", removed=()) for build in (plan.builds[1], plan.builds[6])
    )
    assert first == second
    assert first.per_python == ("build/CMakeCache.txt",)


def test_without_a_python_it_is_the_running_one() -> None:
    assert {build.python for build in family(pythons=()).builds} == {running_python()}


# ---- a plain prefix ----


def test_against_a_prefix_nothing_requires_rocm_packages() -> None:
    caller = {"PATH": "/usr/bin", "CMAKE_PREFIX_PATH": "/mine:/more"}
    plan = family(rocm=PREFIX, caller=caller)
    torch = next(build for build in plan.builds if build.project == "torch")
    assert torch.env["CMAKE_PREFIX_PATH"] == "/opt/rocm/lib/cmake:/opt/rocm:/mine:/more"
    assert torch.env["PYTORCH_EXTRA_INSTALL_REQUIREMENTS"] == "triton==${TRITON_VERSION}"
    assert torch.pins == ("triton==${TRITON_VERSION}",)
    assert torch.generated == {}
    assert torch.version == "2.9.0+rocm6.4.3"
    # Its libraries are found by torch in the builds that import it, whatever the caller's variable says.
    assert {build.env["LD_LIBRARY_PATH"] for build in plan.builds} == {"/opt/rocm/lib"}
    sysdeps = msgspec.structs.replace(PREFIX, sysdeps="/opt/rocm/lib/rocm_sysdeps")
    expected = "/opt/rocm/lib/rocm_sysdeps/lib:/opt/rocm/lib"
    assert one("torch", rocm=sysdeps).env["LD_LIBRARY_PATH"] == expected
    debian = msgspec.structs.replace(PREFIX, cmake="/usr/lib/x86_64-linux-gnu/cmake")
    assert one("torchaudio", rocm=debian).env["LD_LIBRARY_PATH"] == "/usr/lib/x86_64-linux-gnu"
    assert any("need the ROCm of /opt/rocm where they run" in note for note in plan.notes)
    alone = one("torch", rocm=PREFIX, build={"triton": False})
    assert "PYTORCH_EXTRA_INSTALL_REQUIREMENTS" not in alone.env


def test_a_rocm_without_device_libraries_is_spoken_of_once() -> None:
    plan = family(rocm=PREFIX)
    assert "HIP_DEVICE_LIB_PATH" not in plan.builds[0].env
    said = [note for note in plan.notes if "device libraries" in note]
    assert said == [
        "no device libraries in /opt/rocm: HIP_DEVICE_LIB_PATH is not set, the compiler looks for them itself"
    ]


# ---- without a ROCm ----


def test_a_plan_without_a_rocm_says_what_is_open() -> None:
    plan = family(rocm=unknown_rocm(), release_type="release")
    torch = plan.builds[1]
    assert torch.version == torch.env["PYTORCH_BUILD_VERSION"] == "2.9.0+rocm${ROCM_VERSION}"
    assert torch.env["ROCM_HOME"] == "${ROCM_ROOT}"
    assert "check_version='${ROCM_MAJOR}.${ROCM_MINOR}.*'," in torch.generated["torch/_rocm_init.py"]
    assert any("${ROCM_ROOT}" in note for note in plan.notes)
    exact = one("torch", rocm=unknown_rocm("7.10.0"), release_type="release")
    assert exact.version == "2.9.0+rocm7.10.0"
    assert "'7.10.*'" in exact.generated["torch/_rocm_init.py"]
    # Made on Linux: this machine's PATH means nothing there.
    windows = one("torch", "windows", rocm=unknown_rocm(), caller={"PATH": "/usr/bin:/bin"})
    assert windows.env["PATH"] == "${ROCM_ROOT}/bin;${PATH}"
    assert windows.env["CC"] == "${ROCM_ROOT}/lib/llvm/bin/clang-cl.exe"


# ---- versions ----


def test_a_suffix_that_is_given_is_taken() -> None:
    assert one("torch", version_suffix="+mine.1").version == "2.9.0+mine.1"
    assert one("torch", version_suffix="+mine", release_type="dev").version == "2.9.0+git1a2b3c4d.mine"
    for text in ("mine", "", "+", "+a b", "+rocm7/x", "+rocm..7"):
        with pytest.raises(UsageError, match=r"must start with '\+'"):
            family(version_suffix=text)


def test_torch_counts_builds_in_its_version() -> None:
    second = one("torch", build_number=2)
    assert second.env["PYTORCH_BUILD_VERSION"] == "2.9.0+rocm7.10.0"
    assert second.env["PYTORCH_BUILD_NUMBER"] == "2"
    assert second.version == "2.9.0+rocm7.10.0.post2"
    assert one("torchvision", build_number=2).version == "0.24.0+rocm7.10.0"


def test_triton_has_one_plus_sign() -> None:
    known = trees("/b/")
    for pinned, suffix in (("+git12345678", "+git12345678.rocm7.10.0"), ("", "+rocm7.10.0")):
        known["triton"] = tree("/b/triton", build_env={"TRITON_WHEEL_VERSION_SUFFIX": pinned})
        assert one("triton", trees=known).env["TRITON_WHEEL_VERSION_SUFFIX"] == suffix


def test_a_dev_wheel_needs_a_commit() -> None:
    known = trees("/b/") | {"apex": tree("/b/apex", "1.9.0", commit="")}
    assert one("apex", trees=known).version == "1.9.0+rocm7.10.0"
    with pytest.raises(UsageError, match="/b/apex is not a git checkout"):
        family(trees=known, release_type="dev")


def test_the_name_of_tritons_wheel_is_the_callers() -> None:
    caller = {"PATH": "/usr/bin", "TRITON_WHEEL_NAME": "pytorch-triton-rocm"}
    plan = family(caller=caller)
    assert plan.builds[0].env["TRITON_WHEEL_NAME"] == plan.builds[0].wheel_name == "pytorch-triton-rocm"
    assert plan.builds[0].import_name == "triton"
    assert plan.builds[1].pins[1] == "pytorch-triton-rocm==${TRITON_VERSION}"


# ---- which projects ----


def test_what_is_not_built_is_announced_with_the_reason() -> None:
    known = {name: facts for name, facts in trees("/b/").items() if name in ("torch", "triton", "apex")}
    plan = family(trees=known, build={"apex": False})
    assert [build.project for build in plan.builds] == ["triton", "torch"]
    assert plan.left_out == {
        "torchaudio": "its directory is not known",
        "torchvision": "its directory is not known",
        "apex": "not wanted (--no-build-apex)",
    }


def test_triton_is_built_on_windows_when_asked_for() -> None:
    plan = family("windows", build={})
    assert [build.project for build in plan.builds] == ["torch", "torchaudio", "torchvision"]
    assert plan.left_out["triton"] == "is built on windows only when asked for (--build-triton)"
    torch = plan.builds[0]
    assert torch.pins == ("rocm[libraries]==7.10.0",)
    # The rule for triton's LLVM holds for all as soon as the checkout is known.
    assert "TRITON_APPEND_CMAKE_ARGS" in torch.env
    without = {name: facts for name, facts in trees("/b/").items() if name != "triton"}
    assert "TRITON_APPEND_CMAKE_ARGS" not in one("torch", trees=without).env


def test_tritons_own_llvm_on_windows() -> None:
    caller = {"PATH": "", "LLVM_SYSPATH": r"D:\llvm"}
    plan = family("windows", caller=caller)
    assert plan.builds[0].env["LLVM_LIBRARY_DIR"] == r"D:\llvm\lib"
    assert any(r"unpacked at D:\llvm (" in note for note in plan.notes)
    assert not any("LLVM" in note for note in family().notes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"trees": {}, "build": {}}, "no source tree to build"),
        ({"build": {"triton": False, "vision": True}}, "no recipe for 'vision'"),
        ({"trees": {"torch": tree("/b/t", "2.9.0")}, "build": {"apex": True}}, "--build-apex: its directory"),
        (
            {"trees": {"torch": tree("/b/t", "2.9.0")}, "build": {"torchaudio": True}},
            "--build-pytorch-audio: its directory",
        ),
        ({"trees": {"torchaudio": tree("/b/a", "2.9.0")}, "build": {}}, "torchaudio is built against torch"),
        ({"platform": "macos"}, "platform 'macos'"),
        ({"release_type": "final"}, "release type 'final'"),
        ({"cache": "distcc"}, "compiler cache 'distcc'"),
        ({"build_number": 0}, "build number 0"),
        ({"editable": ("torch",), "pythons": ("3.11", "3.12")}, "one Python only"),
        ({"editable": ("apex",), "build": {"apex": False}}, "--editable apex: not wanted"),
        ({"pythons": ("3.11", "3.11")}, "named twice"),
    ],
)
def test_what_cannot_be_built_as_asked_is_a_usage_error(changes: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words) as caught:
        platform = changes.pop("platform", None)
        family(**changes) if platform is None else family_on(str(platform))
    assert caught.value.next_step


def family_on(platform: str) -> FamilyPlan:
    from rocwright.builder.decide.family import plan_family
    from rocwright.builder.decide.plan import BuildRequest
    from rocwright.builder.decide.recipe import recipes

    wanted = BuildRequest(sources={}, platform=platform, targets=("gfx90a",))
    return plan_family(wanted, LINUX, recipes(), trees("/b/"), caller={}, jobs=1)


# ---- editable, split, scikit-build-core ----


def test_an_editable_torch_stays_in_its_tree() -> None:
    plan = family(editable=("torch",))
    torch, audio = plan.builds[1], plan.builds[2]
    assert torch.argv == (
        *("python", "-m", "pip", "install", "--no-build-isolation", "--no-deps", "-e", "."),
    )
    assert (torch.editable, torch.install, torch.pins) == (True, False, ())
    assert list(torch.generated) == ["torch/_rocm_init.py"]
    # What is no wheel cannot be required in an exact version.
    assert audio.pins == ()
    assert "PYTORCH_VERSION" not in audio.env
    note = next(note for note in plan.notes if "/b/pytorch" in note)
    assert "no wheel is made" in note and "torch/_rocm_init.py" in note


def test_only_wheels_with_device_code_are_split() -> None:
    split = {build.project for build in family(split=True).builds if build.split}
    assert split == {"torch", "torchvision"}
    assert not any(build.split for build in family().builds)


def test_scikit_build_core_is_told_to_take_the_ignored_files() -> None:
    def with_backend(platform: str) -> tuple[str, ...]:
        known = trees("/b/")
        known["torch"] = tree("/b/t", "2.14.0a0", backend="scikit_build_core.build")
        return one("torch", platform, trees=known).argv

    wheel = ("python", "-m", "build", "--wheel", "--no-isolation")
    init = "-Cwheel.force-include.torch/_rocm_init.py=torch/_rocm_init.py"
    assert with_backend("linux") == (*wheel, init)
    assert with_backend("windows") == (
        *(*wheel, "--skip-dependency-check", init),
        "-Cwheel.force-include.torch/lib/libomp140.x86_64.dll=torch/lib/libomp140.x86_64.dll",
        "-Cwheel.force-include.torch/lib/uv.dll=torch/lib/uv.dll",
    )


# ---- versions that come with the build ----


def test_versions_are_filled_in_as_wheels_are_built() -> None:
    plans = {build.project: build for build in family().builds}
    torch = with_built(plans["torch"], {"triton": "3.5.1+rocm7"})
    assert torch.env["PYTORCH_EXTRA_INSTALL_REQUIREMENTS"] == "rocm[libraries]==7.10.0|triton==3.5.1+rocm7"
    assert torch.pins == ("rocm[libraries]==7.10.0", "triton==3.5.1+rocm7")
    built = {"triton": "3.5.1+rocm7", "torch": "2.9.0+rocm7.10.0"}
    audio = with_built(plans["torchaudio"], built)
    assert audio.env["PYTORCH_VERSION"] == "2.9.0+rocm7.10.0"
    assert audio.pins == ("torch==2.9.0+rocm7.10.0",)
    with pytest.raises(InvalidInput, match="TRITON_VERSION"):
        with_built(plans["torch"], {})


def test_a_plan_is_json_and_back() -> None:
    for platform in ("linux", "windows"):
        plan = family(platform)
        assert msgspec.json.decode(msgspec.json.encode(plan), type=FamilyPlan) == plan
    build = one("torch")
    assert msgspec.json.decode(msgspec.json.encode(build), type=BuildPlan) == build

"""What stands in the way of a plan: facts made by hand, sentences written by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rocwright.builder.before.host import HostFacts, Python, Unpacking
from rocwright.builder.before.needs import Problem, problem_of, require_none
from rocwright.builder.before.obstacles import find_advice, find_problems
from rocwright.builder.before.tree import Place, Tree
from rocwright.builder.decide.family import FamilyPlan
from rocwright.builder.decide.plan import BuildPlan
from rocwright.builder.rocm.rocm import Rocm, unknown_rocm
from rocwright.errors import CommandFailed, NotReady, UsageError
from rocwright.system.interpreters import Interpreter

GB = 10**9
ROCM = Rocm(
    version="7.10.0",
    root="/opt/rocm",
    bin="/opt/rocm/bin",
    cmake="/opt/rocm/lib/cmake",
    device_libraries="/opt/rocm/lib/llvm/amdgcn/bitcode",
    origin="prefix",
)


def build(project: str = "torch", **changes: Any) -> BuildPlan:
    plan = BuildPlan(
        project=project,
        directory=f"/src/{project}",
        version="2.9.0+rocm7.10.0",
        argv=("python", "setup.py", "bdist_wheel"),
        env={"USE_ROCM": "ON", "USE_FLASH_ATTENTION": "1"},
        python="3.12",
    )
    return msgspec.structs.replace(plan, **changes)


def family(*builds: BuildPlan, rocm: Rocm = ROCM, platform: str = "linux") -> FamilyPlan:
    return FamilyPlan(
        platform=platform,
        release_type="nightly",
        targets=("gfx942",),
        rocm=rocm,
        builds=builds or (build(),),
    )


def place(path: str, **changes: Any) -> Place:
    good = Place(path, kind="directory", nearest=path, free=100 * GB, file_system=1)
    return msgspec.structs.replace(good, **changes)


def tree(project: str = "torch", **changes: Any) -> Tree:
    return msgspec.structs.replace(Tree(project, place(f"/src/{project}"), size=GB), **changes)


PYTHON = Interpreter(
    path="/usr/bin/python3.12",
    version="3.12",
    full="3.12.1",
    include="/usr/include/python3.12",
    has_headers=True,
)


def host(**changes: Any) -> HostFacts:
    facts = HostFacts(
        platform="linux",
        output=place("/home/me/out"),
        work=place("/home/me/out-work"),
        system="debian",
        trees=(tree(),),
        programs={"cc": "/usr/bin/cc", "c++": "/usr/bin/c++"},
        pythons={"3.12": Python(PYTHON, headers=True, venv=True)},
    )
    return msgspec.structs.replace(facts, **changes)


def python(headers: bool = True, venv: bool = True, **changes: Any) -> dict[str, Python]:
    return {"3.12": Python(msgspec.structs.replace(PYTHON, **changes), headers=headers, venv=venv)}


def only(plan: FamilyPlan, facts: HostFacts) -> Problem:
    problems = find_problems(plan, facts)
    assert len(problems) == 1, [str(problem) for problem in problems]
    return problems[0]


def test_nothing_is_in_the_way_of_a_good_machine() -> None:
    assert find_problems(family(), host()) == ()


MISSING = "check it out (`rocwright checkout torch`) or name the directory where it is"


@pytest.mark.parametrize(
    ("found", "what", "next_step"),
    [
        (
            tree(place=place("/src/torch", kind="absent"), empty=True),
            "torch: the checkout /src/torch does not exist",
            MISSING,
        ),
        (
            tree(place=place("/src/torch", kind="file"), empty=True),
            "torch: /src/torch is a file, not a checkout",
            MISSING,
        ),
        (tree(empty=True), "torch: the checkout /src/torch is empty", MISSING),
        (
            tree(unhipified=True),
            "torch: the sources are CUDA's, not translated to HIP: there is no .hip file",
            "rocwright hipify /src/torch",
        ),
        (
            tree(place=place("/my src"), unhipified=True),
            "torch: the sources are CUDA's, not translated to HIP: there is no .hip file",
            "rocwright hipify '/my src'",
        ),
        (
            tree(uncalled=("torch/_rocm_init.py",)),
            "torch: torch/__init__.py does not call torch/_rocm_init.py, through which the wheel finds "
            "ROCm's packages, so `import torch` would fail",
            "let it do so, as newer versions of PyTorch do (import _rocm_init, call initialize(), before "
            "anything else is loaded); or build against a plain installation with --rocm-prefix",
        ),
        (
            tree(git=True, unpopulated=("third_party/fmt",)),
            "torch: the submodule third_party/fmt is empty",
            "git -C /src/torch submodule update --init --recursive --force -- third_party/fmt",
        ),
        (
            tree(unpopulated=("third_party/fmt",)),
            "torch: the submodule third_party/fmt is empty",
            "there is no history there: check it out (`rocwright checkout torch`)",
        ),
        (
            tree(git=True, unpopulated=("a", "b", "c", "d", "e")),
            "torch: 5 submodules are empty: a, b, c and 2 more",
            "git -C /src/torch submodule update --init --recursive",
        ),
        (
            tree(place=place("/src/torch", writable=False)),
            "torch: the checkout is not writable, but a build leaves files there",
            "make it writable, or build from your own checkout",
        ),
        (
            tree(place=place("/my src"), cmake=True),
            "torch: the path of the checkout has spaces, which its build cannot handle",
            "move the checkout; a link will not do, because CMake follows it",
        ),
    ],
)
def test_a_checkout_that_cannot_be_built(found: Tree, what: str, next_step: str) -> None:
    problem = only(family(), host(trees=(found,)))
    assert (problem.what, problem.next_step) == (what, next_step)


def test_what_an_unusual_but_good_checkout_may_have() -> None:
    # Other projects translate their sources while they are built.
    plan = family(build("torchvision", env={"FORCE_CUDA": "1"}))
    assert find_problems(plan, host(trees=(tree("torchvision", unhipified=True),))) == ()
    # A user who takes libraries from his system needs no submodules.
    facts = host(trees=(tree(unpopulated=("third_party/fmt",)),), system_libraries=True)
    assert find_problems(family(), facts) == ()
    # Spaces hurt nobody but CMake and compiler flags.
    assert find_problems(family(), host(trees=(tree(place=place("/my src")),))) == ()


@pytest.mark.parametrize(
    ("changes", "what", "next_step"),
    [
        (
            {"output": place("/home/me/out", kind="file")},
            "the output directory /home/me/out is a file",
            "give another --output-dir",
        ),
        (
            {"work": place("/root/w", kind="absent", nearest="/root", writable=False)},
            "the work directory /root/w is not writable: nothing can be made in /root",
            "make it writable, or give another --work-dir",
        ),
        (
            {"output": place("/home/me/out", writable=False)},
            "the output directory /home/me/out is not writable",
            "make it writable, or give another --output-dir",
        ),
        (
            {"output": place("/src/torch/dist", kind="absent")},
            "the output directory /src/torch/dist lies in the checkout of torch, where a build may take "
            "files for sources or remove them",
            "give another --output-dir, outside of every checkout",
        ),
        (
            {"work": place("/home/me/out")},
            "/home/me/out is to be both the output and the work directory",
            "give another --work-dir; without one it is made beside the output directory",
        ),
    ],
)
def test_directories_that_cannot_take_results(changes: dict[str, Place], what: str, next_step: str) -> None:
    problem = only(family(), host(**changes))
    assert (problem.what, problem.next_step) == (what, next_step)


def test_a_directory_whose_name_only_begins_like_a_checkout_is_outside_of_it() -> None:
    assert find_problems(family(), host(output=place("/src/torch-wheels"))) == ()


@pytest.mark.parametrize(
    ("origin", "lacks", "what", "next_step"),
    [
        (
            "prefix",
            ("hipcc",),
            "this ROCm cannot build: hipcc is missing",
            "install all of ROCm's development packages there, or name the directory that holds bin/hipcc",
        ),
        (
            "packages",
            ("hipcc", "clang", "the headers of HIP"),
            "this ROCm cannot build: hipcc, clang and the headers of HIP are missing",
            "install rocm[libraries,devel] there (`rocwright install-rocm`), then run `rocm-sdk test`",
        ),
        (
            "prefix",
            ("the headers of HIP",),
            "this ROCm cannot build: the headers of HIP are missing",
            "install all of ROCm's development packages there, or name the directory that holds bin/hipcc",
        ),
    ],
)
def test_a_rocm_that_is_not_whole(origin: str, lacks: tuple[str, ...], what: str, next_step: str) -> None:
    plan = family(rocm=msgspec.structs.replace(ROCM, origin=origin))
    problem = only(plan, host(lacks=lacks))
    assert (problem.what, problem.next_step, problem.where) == (what, next_step, "/opt/rocm")


def test_a_rocm_in_a_path_with_spaces_matters_where_compiler_flags_name_it() -> None:
    rocm = msgspec.structs.replace(ROCM, root="/my rocm")
    flags = {"CXXFLAGS": "-I/my rocm/lib/rocm_sysdeps/include"}
    problem = only(family(build(env=flags), rocm=rocm), host())
    assert problem.what == "ROCm lies in a path with spaces, which compiler flags cannot hold (torch)"
    assert problem.where == "/my rocm"
    assert find_problems(family(build(env={"ROCM_PATH": "/my rocm"}), rocm=rocm), host()) == ()


@pytest.mark.parametrize(
    ("system", "name", "next_step"),
    [
        ("debian", "ninja", "apt install ninja-build"),
        ("fedora", "ninja", "dnf install ninja-build"),
        ("suse", "ninja", "zypper install ninja"),
        ("", "ninja", "install ninja"),
        ("debian", "c++", "apt install g++"),
        ("fedora", "c++", "dnf install gcc-c++"),
        ("debian", "ccache", "apt install ccache"),
        ("debian", "git", "apt install git"),
    ],
)
def test_a_program_that_is_missing(system: str, name: str, next_step: str) -> None:
    purpose = {
        "ninja": "run the compilers",
        "c++": "compile C++",
        "ccache": "keep what compilers made, as --use-ccache asks",
        "git": "say which commit is built",
    }
    problem = only(family(), host(system=system, programs={name: ""}))
    assert problem.what == f"{name} was not found on PATH; it is needed to {purpose[name]}"
    assert problem.next_step == next_step


def test_programs_that_requirements_bring_are_not_missing() -> None:
    builds = [build(programs=("cmake", "ninja")), build("triton", version="", programs=("ninja",))]
    brings = frozenset(["ninja", "numpy"])
    facts = host(trees=(tree(brings=brings), tree("triton")), programs={"cmake": "", "ninja": ""})
    problems = find_problems(family(*builds), facts)
    # torch brings its ninja, triton does not; cmake comes from nowhere.
    assert [problem.what.split()[0] for problem in problems] == ["cmake", "ninja"]
    facts = msgspec.structs.replace(facts, trees=(tree(brings=brings), tree("triton", brings=brings)))
    assert [problem.what.split()[0] for problem in find_problems(family(*builds), facts)] == ["cmake"]


def test_a_compiler_that_a_variable_names_in_vain_is_said_once() -> None:
    problem = only(family(), host(misnamed={"CXX": "g++-99"}, programs={"cc": "/usr/bin/cc", "c++": ""}))
    assert problem.what == "the variable CXX names g++-99, which was not found"
    assert problem.next_step == "correct or unset CXX"


@pytest.mark.parametrize(
    ("pythons", "what", "next_step"),
    [
        (
            python(headers=False),
            "Python 3.12 has no headers: /usr/include/python3.12/Python.h is missing; extensions need it",
            "apt install python3.12-dev",
        ),
        (
            python(headers=False, include="/my/py/include"),
            "Python 3.12 has no headers: /my/py/include/Python.h is missing; extensions need it",
            "install this Python again with its headers, or choose another one with --python",
        ),
        (
            python(venv=False),
            "/usr/bin/python3.12 cannot make virtual environments: it has no module venv",
            "apt install python3.12-venv",
        ),
        (
            python(version="3.9"),
            "/usr/bin/python3.12 is Python 3.9; wheels are built for 3.10 to 3.15",
            "choose others with --python",
        ),
        (
            python(version="3.16"),
            "/usr/bin/python3.12 is Python 3.16; wheels are built for 3.10 to 3.15",
            "choose others with --python",
        ),
    ],
)
def test_a_python_that_cannot_be_built_for(pythons: dict[str, Python], what: str, next_step: str) -> None:
    problem = only(family(), host(pythons=pythons))
    assert (problem.what, problem.next_step) == (what, next_step)


def test_headers_that_are_missing_are_asked_of_the_distribution() -> None:
    problem = only(family(), host(system="fedora", pythons=python(headers=False)))
    assert problem.next_step == "dnf install python3.12-devel"


def test_a_python_that_was_not_found_is_named() -> None:
    plan = family(build(), build(python="3.13"))
    assert only(plan, host()).what == "Python 3.13 was not found"


@pytest.mark.parametrize("version", ["3.10", "3.15"])
def test_the_first_and_last_python_are_among_those_that_are_built_for(version: str) -> None:
    assert find_problems(family(), host(pythons=python(version=version))) == ()


def test_space_is_estimated_from_sources_targets_and_pythons() -> None:
    # 1 GB of sources, one target: 2 GB of objects and 1 GB staged for the Python; a wheel of 0.5 GB in the
    # output; an environment of 0.02 GB and twice the unpacked wheel, 2 GB, in the work directory.
    facts = host(
        trees=(tree(place=place("/src/torch", file_system=1, free=1_400_000_000)),),
        output=place("/home/me/out", file_system=2, free=100_000_000),
        work=place("/w", file_system=3, free=2_019_000_000),
    )
    about = "builds of 1.0 GB of sources for 1 GPU target and 1 Python take about"
    assert [problem.what for problem in find_problems(family(), facts)] == [
        f"{about} 3.0 GB on the file system of /src/torch, where 1.4 GB are free",
        f"{about} 0.5 GB on the file system of /home/me/out, where 0.1 GB are free",
    ]
    # What is only perhaps too small is said, and stops nothing.
    assert find_advice(family(), facts) == (
        f"disk space may run out: {about} 2.0 GB on the file system of /w, where 2.0 GB are free "
        "(an estimate)",
    )


def test_space_of_directories_on_one_file_system_is_added_up() -> None:
    same = {"file_system": 1, "free": 2 * GB}
    facts = host(
        trees=(tree(place=place("/src/torch", **same)),),
        output=place("/out", **same),
        work=place("/w", **same),
    )
    problem = only(family(), facts)
    assert (
        "take about 5.5 GB on the file system of /src/torch, /out, /w, where 2.0 GB are free" in problem.what
    )


def test_a_place_that_cannot_be_written_is_not_also_too_small() -> None:
    closed = place("/root/out", kind="absent", writable=False, free=0, file_system=0)
    assert only(family(), host(output=closed)).what == "the output directory /root/out is not writable"


def test_what_an_earlier_build_left_needs_no_further_space() -> None:
    cramped = place("/src/torch", file_system=2, free=GB // 2)
    assert find_problems(family(), host(trees=(tree(place=cramped, built=2 * GB),))) == ()
    assert len(find_problems(family(), host(trees=(tree(place=cramped, built=GB),)))) == 1


@pytest.mark.parametrize(
    ("wheels", "held"),
    [
        (
            ("torch-2.8.0+rocm7.10.0-cp312-cp312-linux_x86_64.whl",),
            "a wheel of another version (torch-2.8.0+rocm7.10.0-cp312-cp312-linux_x86_64.whl)",
        ),
        (
            ("amd_torch_device_gfx942-2.8.0-py3-none-any.whl", "torch-2.9.0+rocm7.9.0-cp312-cp312-any.whl"),
            "amd_torch_device_gfx942-2.8.0-py3-none-any.whl, torch-2.9.0+rocm7.9.0-cp312-cp312-any.whl",
        ),
    ],
)
def test_wheels_of_another_version_are_not_mixed_in(wheels: tuple[str, ...], held: str) -> None:
    problem = only(family(), host(wheels=wheels))
    assert problem.what == f"torch: 2.9.0+rocm7.10.0 is to be built, but the output directory holds {held}"
    assert problem.where == "/home/me/out"


def test_wheels_that_may_lie_in_the_output_directory() -> None:
    facts = host(
        wheels=(
            # The same version for this Python and another one, another project, and something else.
            "torch-2.9.0+rocm7.10.0-cp312-cp312-linux_x86_64.whl",
            "torch-2.9.0+rocm7.10.0-cp313-cp313-linux_x86_64.whl",
            "amd_torch_device_gfx942-2.9.0+rocm7.10.0-py3-none-any.whl",
            "torchvision-0.20.0-cp312-cp312-linux_x86_64.whl",
            "notes.whl",
        )
    )
    assert find_problems(family(), facts) == ()
    # A version that only the build will tell cannot be compared.
    old = host(wheels=("torch-1.0-cp312-cp312-linux_x86_64.whl",))
    for version in ("", "2.9.0+rocm${ROCM_VERSION}"):
        assert find_problems(family(build(version=version)), old) == ()


@pytest.mark.parametrize(
    ("split", "targets", "made"),
    [
        (True, ("gfx942:xnack-",), "will be split for gfx942 alone"),
        (False, ("gfx942", "gfx1100"), "will not be split"),
    ],
)
def test_device_wheels_of_the_same_version_that_would_lose_their_host(
    split: bool, targets: tuple[str, ...], made: str
) -> None:
    plan = msgspec.structs.replace(family(build(split=split)), targets=targets)
    lost = "amd_torch_device_gfx1100-2.9.0+rocm7.10.0-cp312-cp312-linux_x86_64.whl"
    # Those of another Python have their own host wheel.
    facts = host(wheels=(lost, lost.replace("cp312", "cp313")))
    assert only(plan, facts).what == (
        f"torch {made}, and the output directory holds the device wheel {lost} of an earlier build"
    )


def test_device_wheels_that_are_made_again_or_may_be() -> None:
    name = "amd_torch_device_{}-2.9.0+rocm7.10.0-cp312-cp312-linux_x86_64.whl"
    facts = host(wheels=(name.format("gfx942"), name.format("gfx94x")))
    plan = family(build(split=True))
    for targets in (("gfx942",), ("gfx942:xnack+", "gfx1100"), ("${PYTORCH_ROCM_ARCH}",)):
        assert find_problems(msgspec.structs.replace(plan, targets=targets), facts) == ()


def test_a_wheel_is_looked_for_under_its_own_name() -> None:
    plan = family(build("triton", version="3.5.0", wheel_name="pytorch-triton-rocm"))
    facts = host(
        trees=(tree("triton"),),
        wheels=("pytorch_triton_rocm-3.4.0-cp312-cp312-any.whl", "triton-1.0-py3-none-any.whl"),
    )
    assert "a wheel of another version (pytorch_triton_rocm-3.4.0" in only(plan, facts).what


def windows(**changes: Any) -> HostFacts:
    programs = {
        "cl": "C:/vs/cl.exe",
        "ninja": "C:/ninja.exe",
        "c++": "C:/clang-cl.exe",
        "cc": "C:/clang-cl.exe",
    }
    return host(
        **{"platform": "windows", "system": "windows", "programs": programs, "ninja": "1.13.1", **changes}
    )


@pytest.mark.parametrize("ninja", ["1.13.0", "1.11.1", "1.9"])
def test_an_old_ninja_cannot_build_flash_attention_on_windows(ninja: str) -> None:
    problem = only(family(platform="windows"), windows(ninja=ninja))
    assert problem.what == f"flash attention needs ninja 1.13.1 or newer on Windows, and this one is {ninja}"
    assert problem.next_step == (
        "take it from https://github.com/ninja-build/ninja/releases/tag/v1.13.1, or give "
        "--no-enable-pytorch-flash-attention"
    )
    off = build(env={"USE_FLASH_ATTENTION": "0"})
    assert find_problems(family(off, platform="windows"), windows(ninja=ninja)) == ()


@pytest.mark.parametrize("ninja", ["1.13.1", "1.13.2", "1.20"])
def test_a_new_ninja_does(ninja: str) -> None:
    assert find_problems(family(platform="windows"), windows(ninja=ninja)) == ()


def test_a_python_in_a_path_with_spaces_cannot_build_torchvision_on_windows() -> None:
    spaced = python(path="C:/Program Files/Python312/python.exe")
    vision = build("torchvision", env={})
    facts = windows(pythons=spaced, trees=(tree("torchvision"),))
    problem = only(family(vision, platform="windows"), facts)
    assert "https://github.com/pytorch/vision/issues/9165" in problem.what
    assert problem.where == "C:/Program Files/Python312/python.exe"
    assert find_problems(family(platform="windows"), windows(pythons=spaced)) == ()
    assert find_problems(family(vision), host(pythons=python(path="/my py/python"), trees=())) == ()


def test_windows_needs_its_compiler_and_what_is_copied_into_the_wheel() -> None:
    facts = windows(
        programs={"cl": "", "ninja": "C:/ninja.exe"},
        uncopied={"torch/lib/uv.dll": "${libuv_ROOT}/bin/uv.dll"},
        no_llvm={"triton": "C:/b/triton/llvm-1a2b3c4d-windows-x64"},
    )
    found = find_problems(family(platform="windows"), facts)
    assert [problem.what for problem in found] == [
        "cl was not found on PATH; it is needed to find Microsoft's headers and libraries",
        "triton is built with its own LLVM, but C:/b/triton/llvm-1a2b3c4d-windows-x64 does not exist",
        "uv.dll is to become part of the wheel, but ${libuv_ROOT}/bin/uv.dll does not exist",
    ]
    assert "x64 Native Tools Command Prompt" in found[0].next_step
    assert "LLVM_SYSPATH" in found[1].next_step
    assert "libuv_ROOT" in found[2].next_step


def test_long_paths_on_windows_are_spoken_of() -> None:
    deep = tree(place=place("C:/Users/me/source/repos/pytorch"), longest=170)
    facts = windows(trees=(deep,))
    # 32 + 1 + 170 + 60
    assert find_advice(family(platform="windows"), facts) == (
        "torch: paths will have up to about 263 characters, and Windows takes 260: check out to a short "
        "directory such as C:/b",
    )
    short = tree(place=place("C:/b/pytorch"), longest=170)
    assert find_advice(family(platform="windows"), windows(trees=(short,))) == ()


def test_tools_of_a_plan_for_another_platform_are_not_judged() -> None:
    facts = host(programs={"cl": "", "ninja": ""}, ninja="1.0", pythons={}, trees=(tree(empty=True),))
    assert only(family(platform="windows"), facts).what == "torch: the checkout /src/torch is empty"


def test_a_rocm_that_is_still_to_be_installed_is_not_judged() -> None:
    assert find_problems(family(rocm=unknown_rocm()), host()) == ()
    assert find_advice(family(rocm=unknown_rocm()), host()) == ()


def test_everything_is_said_at_once_and_once() -> None:
    # Two Pythons: what is about the tree is not said for each of them.
    plan = family(build(), build(python="3.13"))
    facts = host(
        trees=(tree(unhipified=True),),
        programs={"cc": "/usr/bin/cc", "c++": ""},
        pythons=python(headers=False),
        wheels=("torch-2.8.0-cp312-cp312-any.whl",),
    )
    problems = find_problems(plan, facts)
    assert len(problems) == 5
    with pytest.raises(NotReady) as caught:
        require_none((*problems, problem_of(UsageError("no ROCm", next_step="give one"))), work="the build")
    text = str(caught.value)
    assert caught.value.exit_code == 12
    assert text.startswith(
        "the build has not begun: 6 things are missing or wrong\n  - torch: the sources are CUDA's"
    )
    assert text.count("    next: ") == 6
    assert text.endswith("  - no ROCm\n    next: give one")


def test_space_counts_a_rocm_that_is_installed_first_what_requirements_bring_and_temporary_files() -> None:
    def facts(free: int) -> HostFacts:
        return host(
            trees=(tree(size=0, brings=frozenset({"numpy", "pyyaml", "cmake", "ninja"})),),
            output=place("/home/me/out", file_system=1),
            work=place("/w", file_system=2, free=free),
            unpacking=Unpacking(place("/w/env/rocm", file_system=2, free=free), 400_000_000),
        )

    # 0.4 GB of ROCm's wheels become 1.8; 4 distributions 0.1 beside the environment's 0.02.
    problem = only(family(), facts(900_000_000))
    assert problem.what == (
        "builds of 0.0 GB of sources for 1 GPU target and 1 Python with a ROCm of their own take about "
        "1.9 GB on the file system of /w, /w/env/rocm, where 0.9 GB are free"
    )
    assert find_problems(family(), facts(GB)) == ()
    # 8 compilers at once take 0.8 GB, but never more than comes of them in the end.
    little = place("/tmp", file_system=3, free=300_000_000)
    many = family(build(env={"MAX_JOBS": "8"}))
    assert find_problems(many, host(temporary=little, trees=(tree(size=100_000_000),))) == ()
    problem = only(many, host(temporary=little, trees=(tree(size=GB),)))
    assert "take about 0.8 GB on the file system of /tmp, where 0.3 GB are free" in problem.what


@pytest.mark.parametrize(
    ("found", "what"),
    [
        (place("/scratch", kind="absent"), "the variable TMPDIR names /scratch, which is not a directory"),
        (
            place("/scratch", writable=False),
            "the variable TMPDIR names /scratch, which is not writable",
        ),
    ],
)
def test_a_directory_for_temporary_files_that_compilers_cannot_use(found: Place, what: str) -> None:
    problem = only(family(), host(temporary=found, temporary_variable="TMPDIR"))
    assert (problem.what, problem.next_step) == (what, "correct or unset TMPDIR")


def test_a_command_that_failed_while_looking_says_what_it_said() -> None:
    failed = CommandFailed(
        "python -m rocm_sdk path --cmake", 1, tail="a\nb\nc\nthere is no lib/cmake", next_step="install it"
    )
    assert str(problem_of(failed)) == (
        "command ended with exit code 1: python -m rocm_sdk path --cmake\n"
        "      b\n      c\n      there is no lib/cmake\n    next: install it"
    )

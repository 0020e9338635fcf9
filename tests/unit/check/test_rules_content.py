"""Rules about files that must or must not be there, and about torch's own word on ROCm."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from wheel_facts import LINUX, findings, ids, only, wheel

from rocwright.check.facts import Facts, Fault, Member
from rocwright.check.rules.content import RULES
from rocwright.check.rules.rocm_init import what_is_wrong
from rocwright.check.run import check_paths

TORCH = "2.9.0+rocm7.1"
WINDOWS = "cp311-cp311-win_amd64"
INIT, VERSION = "torch/_rocm_init.py", "torch/version.py"
GOOD_INIT = """\
def initialize():
    import rocm_sdk

    rocm_sdk.initialize_process(preload_shortnames=["amdhip64"], check_version="7.1")
"""
ON_LINUX = (
    "torch/__init__.py",
    "torch/_C.cpython-311-x86_64-linux-gnu.so",
    "torch/lib/libc10_hip.so",
    "torch/lib/libtorch_cpu.so",
    "torch/lib/libtorch_hip.so",
)
ON_WINDOWS = (
    "torch/__init__.py",
    "torch/_C.cp311-win_amd64.pyd",
    "torch/lib/c10_hip.dll",
    "torch/lib/torch_cpu.dll",
    "torch/lib/torch_hip.dll",
)


def torch(
    members: tuple[str, ...] = ON_LINUX,
    *,
    init: str | None = GOOD_INIT,
    version: str | None = "hip = '7.1.0'\n",
    requires: tuple[str, ...] = ("rocm[libraries]==7.1",),
    tag: str = LINUX,
) -> Facts:
    texts = {name: text for name, text in ((INIT, init), (VERSION, version)) if text is not None}
    return wheel("torch", TORCH, [*members, *texts], texts=texts, headers={"requires": requires}, tag=tag)


# -- required files


def test_whole_wheels() -> None:
    assert ids(torch(), RULES) == []
    assert ids(torch(ON_WINDOWS, tag=WINDOWS), RULES) == []


@pytest.mark.parametrize("missing", ON_LINUX)
def test_a_torch_without_a_part(missing: str) -> None:
    finding = only(torch(tuple(name for name in ON_LINUX if name != missing)), RULES)
    assert (finding.rule, finding.severity, finding.members) == ("required-files", "error", ())
    assert finding.cause.startswith("it has no torch/")


@pytest.mark.parametrize("missing", ON_WINDOWS)
def test_a_torch_for_windows_without_a_part(missing: str) -> None:
    facts = torch(tuple(name for name in ON_WINDOWS if name != missing), tag=WINDOWS)
    assert ids(facts, RULES) == ["required-files"]


PACKAGES = [
    ("torchvision", "torchvision/__init__.py", "torchvision/_C.so"),
    ("torchvision", "torchvision/__init__.py", "torchvision/_C_stable.pyd"),
    ("torchaudio", "torchaudio/__init__.py", "torchaudio/_torchaudio.cpython-311-x86_64-linux-gnu.so"),
    ("torchaudio", "torchaudio/__init__.py", "torchaudio/lib/_torchaudio.abi3.so"),
    ("triton", "triton/__init__.py", "triton/_C/libtriton.so"),
    ("apex", "apex/__init__.py", "amp_C.cpython-311-x86_64-linux-gnu.so"),
    ("rocm-sdk-core", "rocm_sdk_core/__init__.py", "_rocm_sdk_core/lib/libamdhip64.so.7"),
    ("rocm-sdk-core", "rocm_sdk_core/__init__.py", "_rocm_sdk_core_n1/bin/amdhip64_7.dll"),
    ("rocm-sdk-libraries", "rocm_sdk_libraries/__init__.py", "_rocm_sdk_libraries/lib/librocblas.so.5"),
    ("rocm-sdk-libraries-x", "rocm_sdk_libraries_x/__init__.py", "_rocm_sdk_libraries_x/bin/rocblas.dll"),
    ("rocm-sdk-devel", "rocm_sdk_devel/__init__.py", "_rocm_sdk_devel/_devel.tar"),
    ("rocm-sdk-devel", "rocm_sdk_devel/__init__.py", "_rocm_sdk_devel/_devel.tar.xz"),
    ("rocm-profiler", "rocm_profiler/__init__.py", "_rocm_profiler/bin/rocprof-sys-run"),
]


@pytest.mark.parametrize(("project", "init", "part"), PACKAGES)
def test_packages_of_the_family_are_whole(project: str, init: str, part: str) -> None:
    assert ids(wheel(project, members=[init, part]), RULES) == []
    for left in (init, part):
        assert ids(wheel(project, members=[left]), RULES) == ["required-files"]
    # A folder of that name is no file, and a name that only begins so is another file.
    assert ids(wheel(project, members=[init, part + "/"]), RULES) == ["required-files"]
    assert ids(wheel(project, members=[init + "x", part]), RULES) == ["required-files"]


def test_a_device_wheel_is_not_empty() -> None:
    assert ids(wheel("rocm-sdk-device-x", members=["_rocm_sdk_libraries/.kpack/x.kpack"]), RULES) == []
    assert ids(wheel("rocm-sdk-device-x"), RULES) == ["required-files"]


def test_all_parts_that_are_missing_are_told() -> None:
    causes = [one.cause for one in findings(torch(()), RULES)]
    assert len(causes) == 5 and "it has no torch/__init__.py" in causes


def test_files_below_data_are_where_they_will_be_installed() -> None:
    moved = tuple(f"torch-{TORCH}.data/platlib/{name}" for name in ON_LINUX)
    assert ids(torch(moved), RULES) == []
    elsewhere = tuple(f"torch-{TORCH}.data/data/{name}" for name in ON_LINUX)
    assert set(ids(torch(elsewhere), RULES)) == {"required-files"}


# -- forbidden files


@pytest.mark.parametrize(
    "name",
    [
        "pure/.git/config",
        ".gitmodules",
        "pure/CMakeCache.txt",
        "CMakeFiles/a/b.o",
        "pure/build/.ninja_log",
        "pure-1.0.data/purelib/pure/CMakeFiles/x.o",
    ],
)
def test_what_a_build_leaves_behind(name: str) -> None:
    finding = only(wheel(members=["pure/__init__.py", name]), RULES)
    assert (finding.rule, finding.severity, finding.members) == ("forbidden-files", "error", (name,))


@pytest.mark.parametrize(
    "name",
    [
        "pure/git/config",
        "pure/.gitignore",
        "pure/x.pyc.txt",
        "tests/x.py",
        "pure/x.orig",
        "pure/cmake/x.cmake",
    ],
)
def test_what_published_wheels_have_for_good_reasons(name: str) -> None:
    assert ids(wheel(members=[name]), RULES) == []


@pytest.mark.parametrize(
    "name",
    [
        "tests/x.py",
        "test/__init__.py",
        "build/lib/x",
        "setup.py",
        "torch/x.py.orig",
        "torch/__pycache__/x.cpython-311.pyc",
        "__pycache__/x.cpython-311.pyc",
        "torch/x.pyc",
        "x.pyo",
        "torch/.DS_Store",
        "torch-2.9.0.data/purelib/torch/__pycache__/x.pyc",
    ],
)
def test_what_only_the_family_may_not_have(name: str) -> None:
    assert ids(wheel(members=["pure/__init__.py", name]), RULES) == []
    assert ids(torch((*ON_LINUX, name)), RULES) == ["forbidden-files"]


def test_tests_inside_a_package_are_its_own_business() -> None:
    assert ids(torch((*ON_LINUX, "torch/test/x.py", "torch/build/x", "torch/setup.py")), RULES) == []


def test_many_files_of_one_kind_are_one_finding() -> None:
    finding = only(wheel(members=["a/.git/x", "b/.git/y", "b/.git/z"]), RULES)
    assert finding.members == ("a/.git/x", "b/.git/y", "b/.git/z")


@pytest.mark.parametrize("project", ["rocm-sdk-device-x", "amd-torch-device-gfx942"])
def test_a_device_wheel_has_no_modules(project: str) -> None:
    files = ["_rocm_sdk_libraries/.kpack/x.kpack", "_rocm_sdk_libraries/_device_x.json"]
    assert ids(wheel(project, members=files), RULES) == []
    assert ids(wheel(project, members=[*files, "torch/__init__.py"]), RULES) == ["forbidden-files"]


# -- torch/_rocm_init.py


def wrong(text: str, version: str | None = "7.1") -> list[str]:
    return list(what_is_wrong(text, version))


CALL = "    rocm_sdk.initialize_process(preload_shortnames=[], check_version='7.1')\n"


@pytest.mark.parametrize(
    "text",
    [
        GOOD_INIT,
        "'''Words.'''\nfrom __future__ import annotations\nNAMES = ['x']\n" + GOOD_INIT,
        "def initialize(a=1, *b, c=2, **d):\n    import rocm_sdk\n" + CALL,
        "def initialize():\n    import rocm_sdk as sdk\n" + CALL.replace("rocm_sdk.", "sdk."),
        "def initialize():\n    from rocm_sdk import initialize_process\n" + CALL.replace("rocm_sdk.", ""),
        "def initialize():\n    from rocm_sdk import initialize_process as go\n"
        + CALL.replace("rocm_sdk.initialize_process", "go"),
        "def initialize():\n    import rocm_sdk\n    rocm_sdk.initialize_process(**OPTIONS)\n",
        "def initialize():\n    try:\n        import rocm_sdk\n    finally:\n        pass\n" + CALL,
    ],
)
def test_good_modules(text: str) -> None:
    assert wrong(text) == []


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("def initialize(:\n", "not valid Python"),
        ("\0", "not valid Python"),
        ("x = 1\n", "it defines nothing; expected exactly initialize()"),
        (GOOD_INIT + "def other(): pass\n", "it defines initialize, other"),
        (GOOD_INIT + "class Other: pass\n", "it defines initialize, Other"),
        (GOOD_INIT + GOOD_INIT, "it defines initialize, initialize"),
        ("async " + GOOD_INIT, "it defines initialize; expected exactly"),
        (GOOD_INIT.replace("def initialize", "def init"), "it defines init;"),
        ("import os\n" + GOOD_INIT, "imports something when it is loaded"),
        ("from os import path\n" + GOOD_INIT, "imports something when it is loaded"),
        (GOOD_INIT.replace("()", "(version)", 1), "cannot be called without version"),
        (GOOD_INIT.replace("()", "(a, /, b, c=1)", 1), "cannot be called without a, b"),
        (GOOD_INIT.replace("()", "(*, key)", 1), "cannot be called without key"),
        ("def initialize(): pass\n", "does not import rocm_sdk and call"),
        ("def initialize():\n" + CALL, "does not import rocm_sdk and call"),
        ("def initialize():\n    import rocm_sdk\n    dict(check_version='7.1')\n", "does not import"),
        ("def initialize():\n    import other as rocm_sdk\n" + CALL, "does not import"),
        ("def initialize():\n    import rocm_sdk\n    rocm_sdk.initialize_process\n", "does not import"),
        (GOOD_INIT.replace('preload_shortnames=["amdhip64"], ', ""), "without preload_shortnames"),
        (GOOD_INIT.replace(', check_version="7.1"', ""), "without check_version"),
        (
            "def initialize():\n    import rocm_sdk\n    rocm_sdk.initialize_process()\n",
            "names and check_version",
        ),
        (GOOD_INIT.replace('"7.1"', "None"), "check_version is None, not a version"),
        (GOOD_INIT.replace('"7.1"', '"7.0"'), "it checks for ROCm 7.0, but the wheel requires rocm 7.1"),
        (GOOD_INIT.replace('"7.1"', '"7.1.*"'), "it checks for ROCm 7.1.*"),
        (GOOD_INIT.replace('"7.1"', '"7x1"'), "it checks for ROCm 7x1"),
        ("x = " + "-" * 100_000 + "1\n" + GOOD_INIT, ""),
        ("x = '\\0'\n\0" + GOOD_INIT, "not valid Python"),
    ],
)
def test_broken_modules(text: str, says: str) -> None:
    [cause] = wrong(text)
    assert says in cause
    finding = only(torch(init=text), RULES)
    assert (finding.rule, finding.severity, finding.members) == ("torch-rocm-init", "error", (INIT,))


@pytest.mark.parametrize(
    ("pattern", "version"),
    [("7.1.*", "7.1.2"), ("*", "7.1"), ("7.*", "7.1"), ("7.1", None), ("7.0", None), ("7.1.2", "7.1.2")],
)
def test_versions_that_fit_the_required_rocm(pattern: str, version: str | None) -> None:
    assert wrong(GOOD_INIT.replace('"7.1"', repr(pattern)), version) == []


def test_a_version_that_is_only_known_when_it_runs() -> None:
    assert wrong(GOOD_INIT.replace('"7.1"', "VERSION")) == []


def test_the_required_rocm_is_that_of_the_wheel() -> None:
    assert ids(torch(requires=("rocm[libraries]==7.1.0",)), RULES) == ["torch-rocm-init"]
    assert ids(torch(requires=("rocm[libraries]>=7.2",)), RULES) == []


def test_no_module() -> None:
    finding = only(torch(init=None), RULES)
    assert (finding.rule, finding.members) == ("torch-rocm-init", (INIT,))
    assert finding.cause.startswith("it is missing")


def test_a_torch_with_rocm_inside_needs_no_module_but_a_good_one_if_any() -> None:
    fat = (*ON_LINUX, "torch/lib/libamdhip64.so.7")
    assert ids(torch(fat, init=None), RULES) == []
    assert ids(torch(fat, init="def initialize(:\n"), RULES) == ["torch-rocm-init"]
    load = "    import ctypes\n    ctypes.CDLL('lib/libamdhip64.so.7')\n"
    assert ids(torch(fat, init=f"def initialize():\n{load}"), RULES) == []
    for init in (
        f"import os\ndef initialize():\n{load}",
        f"def initialize(a):\n{load}",
        "x = 1\n",
        GOOD_INIT,
    ):
        assert ids(torch(fat, init=init), RULES) == ["torch-rocm-init"]
    elsewhere = "def initialize():\n    from rocm_sdk import initialize_process\n"
    assert "a wheel with ROCm inside" in only(torch(fat, init=elsewhere), RULES).cause
    gone = f"def initialize():\n{load}".replace("amdhip64", "hiprtc")
    assert (
        only(torch(fat, init=gone), RULES).cause == "it loads lib/libhiprtc.so.7, which is not in the wheel"
    )


# -- torch/version.py


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        ("2.9.0+rocm7.1", False),
        ("2.9.0", True),
        ("2.9.0+cpu", True),
        ("2.9.1+rocm7.1", True),
        ("2.9.0rc1+rocm7.1", True),
        ("today", True),
    ],
)
def test_a_version_that_was_not_changed_with_the_name(said: str, wrong: bool) -> None:
    facts = torch(version=f"__version__ = {said!r}\nhip = '7.1'\n")
    expected = [f"it says {said}, the wheel is {facts.version}"] if wrong else []
    assert facts.version == "2.9.0+rocm7.1"
    assert [each.cause for each in findings(facts, RULES)] == expected


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "it is missing"),
        ("hip = None\n", "hip = None: this torch was built for the CPU only"),
        ("cuda = '12'\n", "hip = None: this torch was built for CUDA"),
        ("cuda = None\n", "hip = None: this torch was built for the CPU only"),
        ("hip: str = ''\n", "hip = ''"),
        ("hip = False\n", "hip = False"),
        ("hip = '7.1'\nhip = None\n", "hip = None"),
        ("hip: Optional[str] = None\n", "hip = None"),
        ("hip = (\n", "not valid Python"),
        ("hip = " + "-" * 100_000 + "'7.1'\n", ""),  # which Pythons read to a different depth
        ("if 1: pass\n" + "elif 1: pass\n" * 20_000 + "hip = '\\d'\nhip = None", ""),
    ],
)
def test_a_torch_built_for_the_cpu_only(text: str | None, says: str) -> None:
    finding = only(torch(version=text), RULES)
    assert (finding.rule, finding.severity, finding.members) == ("torch-hip", "error", (VERSION,))
    assert says in finding.cause


@pytest.mark.parametrize(
    "text", ["hip = '7.1'", "hip: Optional[str] = '7.1'", "x = hip = '7.1'", "hip=None;hip='7'"]
)
def test_a_torch_built_for_rocm(text: str) -> None:
    assert ids(torch(version=text), RULES) == []


def test_sources_that_were_not_read() -> None:
    unread = msgspec.structs.replace(torch(), texts={})
    assert [(one.rule, one.cause) for one in findings(unread, RULES)] == [
        ("torch-rocm-init", "it is far larger than any source"),
        ("torch-hip", "it is far larger than any source"),
    ]
    damage = (Fault(INIT, "its checksum is wrong"), Fault(VERSION, "its checksum is wrong"))
    assert ids(msgspec.structs.replace(unread, damaged=damage), RULES) == []
    twice = msgspec.structs.replace(unread, members=(*unread.members, Member(INIT), Member(VERSION)))
    assert ids(twice, RULES) == []


def test_these_rules_are_for_torch_only() -> None:
    other = wheel("mytorch", members=["torch/version.py"], texts={"torch/version.py": "hip = None\n"})
    assert ids(other, RULES) == []


# -- at the door


def test_parts_missing_and_left_over_in_a_real_wheel(build: Any) -> None:
    wheel = build.torch({"torch/lib/libtorch_hip.so": None, "torch/__pycache__/x.pyc": "x"})
    report = check_paths([wheel])
    assert [(one.rule, one.members) for one in report.findings if one.rule != "set-closed"] == [
        ("required-files", ()),
        ("forbidden-files", ("torch/__pycache__/x.pyc",)),
    ]


def test_a_real_wheel_that_checks_for_another_rocm(build: Any) -> None:
    wheel = build.torch(requires=["rocm[libraries]==7.2"])
    [finding] = [one for one in check_paths([wheel]).findings if one.rule != "set-closed"]
    assert finding.rule == "torch-rocm-init"
    assert finding.cause == "it checks for ROCm 7.1, but the wheel requires rocm 7.2"

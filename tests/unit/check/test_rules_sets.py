"""The rules of a set: ownership, pins, closure, extras, device packages, archives, installations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
from set_facts import LINUX, PURE, found, sdist, set_report, split, wheel

from rocwright.check.facts import ElfFacts, Facts, Installation, KpackFacts, OriginFacts
from rocwright.device_code.origin import SplitOrigin

CP312 = "cp312-cp312-linux_x86_64"
WINDOWS = "cp311-cp311-win_amd64"
ANY_LINUX = "py3-none-linux_x86_64"


def torch(tag: str = LINUX, version: str = "2.9+rocm7", **more: Any) -> Facts:
    return wheel("torch", version, tag, **{"requires": ["rocm[libraries]==7"], **more})


def vision(tag: str = LINUX, **more: Any) -> Facts:
    return wheel("torchvision", "0.24+rocm7", tag, **{"requires": ["torch==2.9+rocm7"], **more})


def rocm(**more: Any) -> Facts:
    return sdist("rocm", "7", **more)


# Ownership.


def test_a_path_of_two_packages_is_reported_once_for_the_second() -> None:
    first = wheel("a", members=["x/one.py", "x/two.py", "a.py"])
    second = wheel("b", members=["x/one.py", "x/two.py", "b.py"])
    report = set_report(first, second)
    assert [(one.rule, one.file, one.members) for one in report.findings] == [
        ("set-ownership", f"b-1.0-{LINUX}.whl", ("x/one.py", "x/two.py"))
    ]


def test_paths_are_compared_where_they_are_installed() -> None:
    plain = wheel("a", members=["x/lib.so"])
    moved = wheel("b", members=["b-1.0.data/platlib/x/lib.so"])
    scripts = wheel("c", members=["c-1.0.data/scripts/run"])
    same_script = wheel("d", members=["d-1.0.data/scripts/run"])
    headers = [wheel(name, members=[f"{name}-1.0.data/headers/x.h"]) for name in ("e", "f")]
    assert [(rule, file[0]) for rule, file, _ in found(plain, moved)] == [("set-ownership", "b")]
    assert [(rule, file[0]) for rule, file, _ in found(scripts, same_script)] == [("set-ownership", "d")]
    assert found(*headers, plain, scripts) == []


def with_script(project: str, name: str, tag: str = LINUX) -> Facts:
    info = f"{project}-1.0.dist-info"
    texts = {f"{info}/entry_points.txt": f"[console_scripts]\n{name} = elsewhere:main\n"}
    return msgspec.structs.replace(wheel(project, tag=tag), dist_infos=(info,), texts=texts)


def test_a_program_of_two_packages_is_reported_as_a_path_is() -> None:
    first, second = with_script("a", "run"), with_script("b", "run")
    [(rule, file, cause)] = found(first, second)
    assert (rule, file[0]) == ("set-ownership", "b")
    assert cause.startswith(f"the program run also belongs to {first.name}")
    plain = wheel("c", members=["c-1.0.data/scripts/run"])
    assert [(rule, file[0]) for rule, file, _ in found(first, plain)] == [("set-ownership", "c")]
    assert [(rule, file[0]) for rule, file, _ in found(plain, first)] == [("set-ownership", "a")]
    assert found(first, with_script("b", "run2"), with_script("d", "run", CP312)) == []


@pytest.mark.parametrize(
    ("first", "second"),
    [(LINUX, CP312), (LINUX, WINDOWS), (ANY_LINUX, "py3-none-win_amd64")],
    ids=["two Pythons", "two platforms", "two platforms, any Python"],
)
def test_what_is_never_installed_together_may_share_a_path(first: str, second: str) -> None:
    files = [wheel("a", tag=first, members=["x.py"]), wheel("b", tag=second, members=["x.py"])]
    assert found(*files) == []
    # The same project for several Pythons is one package.
    assert found(wheel("a", tag=first, members=["x.py"]), wheel("a", tag=second, members=["x.py"])) == []


@pytest.mark.parametrize(
    "tag", [PURE, "cp39-abi3-linux_x86_64", "cp39-abi3-manylinux_2_28_x86_64", ANY_LINUX]
)
def test_what_fits_every_python_meets_what_is_for_one(tag: str) -> None:
    files = [wheel("a", tag=LINUX, members=["x.py"]), wheel("b", tag=tag, members=["x.py"])]
    assert [rule for rule, _, _ in found(*files)] == ["set-ownership"]


# Versions, pins and closure.


def test_a_good_family_has_no_finding() -> None:
    assert found(rocm(), torch(), vision()) == []
    assert found(rocm(), torch(), vision(), torch(CP312), vision(CP312)) == []


def test_a_requirement_that_contradicts_the_set_is_not_also_a_hole_in_it() -> None:
    assert found(rocm(), torch(version="2.8+rocm7"), vision()) == [
        (
            "set-pins",
            f"torchvision-0.24+rocm7-{LINUX}.whl",
            "it requires torch==2.9+rocm7, the set holds torch 2.8+rocm7",
        )
    ]


def test_not_only_exact_pins_can_contradict() -> None:
    assert [rule for rule, _, _ in found(rocm(), torch(), wheel("x", requires=["torch>=2.10"]))] == [
        "set-pins"
    ]
    assert found(rocm(), torch(), wheel("x", requires=["torch>=2.3,<3"])) == []


def test_a_marker_of_another_platform_asks_for_nothing_here() -> None:
    needy = wheel(
        "x", requires=['rocm==9; sys_platform == "win32"', 'rocm-sdk-core==9; python_version < "3.9"']
    )
    assert found(needy, rocm()) == []
    assert [
        rule for rule, _, _ in found(wheel("x", tag=WINDOWS, requires=needy.headers.requires), rocm())
    ] == ["set-pins"]


@pytest.mark.parametrize(
    "requirement", ["rocm-sdk-core==7", "rocm-sdk-core", "rocm[devel]>=7", "foo==1+rocm7"]
)
def test_what_only_this_index_can_have_must_be_in_it(requirement: str) -> None:
    needy = wheel("x", requires=[requirement])
    [(rule, _, cause)] = found(needy)
    assert rule == "set-closed"
    assert cause == f"it requires {requirement}, which is not among these files"
    assert [(one.rule, one.severity) for one in set_report(needy, closed=False).findings] == [
        ("set-closed", "warning")
    ]


@pytest.mark.parametrize(
    "requirement",
    ["sympy==1.13.1", "torch==2.9", "numpy", "triton>=3", "rocm-bootstrap", "rocm_bootstrap>=0.1"],
)
def test_what_public_indexes_have_need_not_be_in_it(requirement: str) -> None:
    assert found(wheel("x", requires=[requirement])) == []


def test_a_package_that_is_missing_for_one_python_only() -> None:
    """The set looks complete by its names; with Python 3.12 nothing of it can be installed."""
    assert found(rocm(), torch(), vision(), vision(CP312)) == [
        (
            "set-closed",
            f"torchvision-0.24+rocm7-{CP312}.whl",
            "it requires torch==2.9+rocm7, which has no file for cp312 on linux_x86_64",
        )
    ]


def test_an_unreadable_package_is_there_all_the_same() -> None:
    broken = wheel("torch", "2.9+rocm7", unreadable="it is no archive")
    report = set_report(rocm(), broken, vision())
    assert [finding.rule for finding in report.findings] == ["readable"]


# Extras.


def offering(*targets: str, **more: Any) -> Facts:
    return rocm(
        extras=["libraries", *(f"device-{target}" for target in targets), "device-all"],
        requires=[
            'rocm-sdk-libraries==7; extra == "libraries"',
            *(
                f'rocm-sdk-device-{target}==7; sys_platform == "linux" and extra == "{extra}"'
                for target in targets
                for extra in (f"device-{target}", "device-all")
            ),
        ],
        **more,
    )


def device(target: str, version: str = "7", tag: str = ANY_LINUX, **more: Any) -> Facts:
    return wheel(
        f"rocm-sdk-device-{target}", version, tag, requires=[f"rocm-sdk-libraries=={version}"], **more
    )


LIBRARIES = wheel("rocm-sdk-libraries", "7", ANY_LINUX)


def test_every_extra_resolves_to_a_file() -> None:
    assert found(offering("gfx942", "gfx1100"), LIBRARIES, device("gfx942"), device("gfx1100")) == []


def test_an_extra_whose_package_was_not_built() -> None:
    bad = (offering("gfx942", "gfx1100"), LIBRARIES, device("gfx942"))
    assert found(*bad) == [
        (
            "set-extras",
            "rocm-7.tar.gz",
            "its extra device-gfx1100 brings rocm-sdk-device-gfx1100==7, which is not among these files",
        ),
        (
            "set-extras",
            "rocm-7.tar.gz",
            "its extra device-all brings rocm-sdk-device-gfx1100==7, which is not among these files",
        ),
    ]
    assert {finding.severity for finding in set_report(*bad, closed=False).findings} == {"warning"}
    assert found(*bad, without="set-extras") == []


def test_an_extra_whose_package_is_of_another_build() -> None:
    old = wheel("rocm-sdk-device-gfx942", "6", ANY_LINUX)
    causes = [cause for rule, _, cause in found(offering("gfx942"), LIBRARIES, old) if rule == "set-extras"]
    assert causes[0].endswith("rocm-sdk-device-gfx942==7, the set holds rocm-sdk-device-gfx942 6")


def test_an_extra_for_another_platform_asks_for_nothing_here() -> None:
    windows = rocm(
        extras=["device-gfx942"],
        requires=['rocm-sdk-device-gfx942==7; sys_platform == "win32" and extra == "device-gfx942"'],
    )
    assert found(windows, wheel("rocm-sdk-core", "7", ANY_LINUX)) == []
    both = [wheel("rocm-sdk-core", "7", tag) for tag in (ANY_LINUX, "py3-none-win_amd64")]
    assert [rule for rule, _, _ in found(windows, *both)] == ["set-extras"]


def test_an_extra_of_the_public_world_is_nobodys_business() -> None:
    assert found(rocm(), torch(extras=["opt"], requires=["rocm==7", 'opt-einsum>=3; extra == "opt"'])) == []
    # A name on the public index that looks like a device package of ours, and has no target.
    lookalike = 'amd-rocm-device-libs-instinct>=7; extra == "with-rocm"'
    assert found(rocm(), torch(extras=["with-rocm"], requires=["rocm==7", lookalike])) == []


def test_a_device_package_that_lacks_one_python() -> None:
    """One of two Pythons has no device wheel: installing the extra fails there only."""
    host = {
        "extras": ["device-gfx942"],
        "requires": ["rocm==7", 'amd-torch-device-gfx942==2.9+rocm7; extra == "device-gfx942"'],
    }
    leaf = wheel("amd-torch-device-gfx942", "2.9+rocm7", LINUX)
    assert found(rocm(), torch(**host), leaf) == []
    assert [(rule, file) for rule, file, _ in found(rocm(), torch(**host), torch(CP312, **host), leaf)] == [
        ("set-extras", f"torch-2.9+rocm7-{CP312}.whl")
    ]


def test_an_extra_that_is_asked_for_and_does_not_exist() -> None:
    """Installers only warn, and ROCm's libraries are missing at run time."""
    selector = wheel("rocm", "7", PURE, extras=["devel"])
    assert found(selector, torch()) == [
        (
            "set-extras",
            f"torch-2.9+rocm7-{LINUX}.whl",
            "it asks for rocm[libraries], an extra that rocm-7-py3-none-any.whl does not have",
        )
    ]
    # The sdist of a set in legacy mode tells its extras while it is being installed.
    assert found(rocm(), torch()) == []
    assert [rule for rule, _, _ in found(rocm(), torch(requires=["rocm[librarys]==7"]))] == ["set-extras"]


# Device packages.


def test_a_requested_target_that_is_not_offered() -> None:
    files = (offering("gfx942"), LIBRARIES, device("gfx942"))
    assert found(*files, targets=["gfx942"]) == []
    assert found(*files, targets=["gfx942:xnack+"]) == []
    assert found(*files, targets=["gfx942", "gfx90a"]) == [
        ("set-device", "rocm-7.tar.gz", "it offers no device package for gfx90a, only for gfx942")
    ]


def test_a_requested_target_is_offered_by_the_package_that_has_its_code() -> None:
    files = (offering("gfx1250"), LIBRARIES, device("gfx1250"))
    assert found(*files, targets=["gfx1250", "gfx1250-strict"]) == []


def test_a_device_package_that_nothing_brings() -> None:
    files = (offering("gfx942"), LIBRARIES, device("gfx942"), device("gfx1100"))
    for closed in (True, False):
        assert [(rule, file) for rule, file, _ in found(*files, closed=closed)] == [
            ("set-device", "rocm_sdk_device_gfx1100-7-py3-none-linux_x86_64.whl")
        ]
    # Looked at alone, its host may be anywhere.
    assert [rule for rule, _, _ in found(LIBRARIES, device("gfx1100"), closed=False)] == []
    assert [rule for rule, _, _ in found(LIBRARIES, device("gfx1100"))] == ["set-device"]


def test_a_device_package_may_require_that_of_another_project() -> None:
    host = torch(
        extras=["device-gfx942"],
        requires=["rocm[libraries]==7", 'amd-torch-device-gfx942==2.9+rocm7; extra == "device-gfx942"'],
    )
    leaf = wheel("amd-torch-device-gfx942", "2.9+rocm7", requires=["rocm-sdk-device-gfx942==7"])
    files = (offering("gfx942", "gfx90a"), LIBRARIES, device("gfx942"), device("gfx90a"), host, leaf)
    assert found(*files, targets=["gfx942"]) == []
    assert [file for _, file, _ in found(*files, targets=["gfx942", "gfx90a"])] == [
        f"torch-2.9+rocm7-{LINUX}.whl"
    ]


def test_the_newest_of_several_versions_is_named() -> None:
    files = [wheel("a", version) for version in ("9.1", "10.0", "9.2")]
    assert found(*files) == [
        ("set-one-version", f"a-10.0-{LINUX}.whl", "a is there in 3 versions: 9.1, 9.2, 10.0")
    ]


def test_two_files_of_one_name() -> None:
    """As two build directories have them, given to one check."""
    one = wheel("a", "1.0")
    assert found(one, msgspec.structs.replace(one, path=Path("elsewhere") / one.name)) == [
        ("set-one-version", one.name, "2 files of this name are there, in several directories")
    ]


def test_a_package_that_is_not_split_needs_no_device_package() -> None:
    assert found(rocm(), torch(), targets=["gfx942"]) == []


# Archives.


def archive(
    target: str, *kernels: str, where: str = "_rocm/.kpack", problem: str | None = None
) -> KpackFacts:
    return KpackFacts(f"{where}/x_{target}.kpack", frozenset(kernels), frozenset({target}), problem=problem)


BLAS = split("_rocm/lib/libblas.so", "../.kpack/x_@GFXARCH@.kpack", kernel="lib/libblas.so")


def split_set(elf: ElfFacts, *archives: KpackFacts) -> list[Facts]:
    host = wheel("rocm-sdk-libraries", "7", ANY_LINUX, elf=[elf], members=[elf.member])
    return [offering("gfx942"), host, device("gfx942", archives=archives)]


def test_a_split_library_finds_its_code() -> None:
    assert found(*split_set(BLAS, archive("gfx942", "lib/libblas.so"))) == []
    # Also through where its wheel is installed, and from a library whose kernel has Windows's slashes.
    moved = split(
        "rocm-7.data/platlib/_rocm/lib/libblas.so", *BLAS.marker.search_paths, kernel="lib\\libblas.so"
    )
    assert found(*split_set(moved, archive("gfx942", "lib/libblas.so"))) == []


def test_a_library_that_was_moved_after_it_was_split() -> None:
    deeper = split("_rocm/lib/blas/libblas.so", *BLAS.marker.search_paths, kernel="lib/libblas.so")
    [(rule, file, cause)] = found(*split_set(deeper, archive("gfx942", "lib/libblas.so")))
    assert (rule, file) == ("set-kpack", "rocm_sdk_libraries-7-py3-none-linux_x86_64.whl")
    assert "../.kpack/x_@GFXARCH@.kpack, where no package of the set puts an archive" in cause


def test_an_archive_without_the_librarys_code() -> None:
    [(rule, _, cause)] = found(*split_set(BLAS, archive("gfx942", "lib/libfft.so")))
    assert rule == "set-kpack"
    assert cause == "no archive that it finds has code for lib/libblas.so"


@pytest.mark.parametrize(
    ("host", "device", "stranger"),
    [
        ("a" * 32, "a" * 32, False),
        ("a" * 32, "b" * 32, True),
        ("", "b" * 32, True),
        # Another tool wrote the archive: its kernels are compared, by kpack verify.
        ("a" * 32, None, False),
    ],
)
def test_code_of_another_build(host: str, device: str | None, *, stranger: bool) -> None:
    blas = msgspec.structs.replace(BLAS, marker=msgspec.structs.replace(BLAS.marker, build=host))
    code = msgspec.structs.replace(
        archive("gfx942", "lib/libblas.so"), builds={"lib/libblas.so": device} if device else {}
    )
    rules = [(rule, file) for rule, file, _ in found(*split_set(blas, code))]
    assert rules == [("set-build", "rocm_sdk_device_gfx942-7-py3-none-linux_x86_64.whl")] * stranger


HOST_SAYS = SplitOrigin("x", "a" * 32, targets=("gfx906", "gfx942"))


def origin(said: SplitOrigin, where: str = "_rocm/.kpack") -> OriginFacts:
    return OriginFacts(f"{where}/{said.name}", said)


@pytest.mark.parametrize(
    ("build", "targets", "where", "cause"),
    [
        ("a", ("gfx942",), "_rocm/.kpack", ""),
        ("b", ("gfx942",), "_rocm/.kpack", "its files for gfx942 are of build bbbbbbbbbbbb, "),
        (
            "a",
            ("gfx942", "gfx942:xnack-"),
            "_rocm/.kpack",
            "it was split with an archive for gfx942:xnack-, ",
        ),
        # Of another host, which is not here.
        ("b", ("gfx942",), "torch/.kpack", ""),
    ],
)
def test_what_device_packages_say_of_their_split(
    build: str, targets: tuple[str, ...], where: str, cause: str
) -> None:
    part = SplitOrigin("x", build * 32, "gfx942", targets)
    host = wheel(
        "rocm-sdk-libraries",
        "7",
        ANY_LINUX,
        elf=[BLAS],
        members=[BLAS.member],
        origins=[origin(HOST_SAYS)],
    )
    code = device("gfx942", archives=[archive("gfx942", "lib/libblas.so")], origins=[origin(part, where)])
    told = found(offering("gfx942"), host, code)
    assert [(rule, file) for rule, file, _ in told] == [("set-origin", code.name)] * bool(cause)
    assert all(text.startswith(cause) for _, _, text in told)


def test_a_device_package_of_another_build_is_one_fault() -> None:
    blas = msgspec.structs.replace(BLAS, marker=msgspec.structs.replace(BLAS.marker, build="a" * 32))
    host = wheel(
        "rocm-sdk-libraries",
        "7",
        ANY_LINUX,
        elf=[blas],
        members=[blas.member],
        origins=[origin(HOST_SAYS)],
    )
    held = msgspec.structs.replace(archive("gfx942", "lib/libblas.so"), builds={"lib/libblas.so": "b" * 32})
    part = origin(SplitOrigin("x", "b" * 32, "gfx942", ("gfx942",)))
    code = device("gfx942", archives=[held], origins=[part])
    assert [rule for rule, _, _ in found(offering("gfx942"), host, code)] == ["set-build"]


def test_an_archive_that_cannot_be_read_is_reported_elsewhere() -> None:
    assert found(*split_set(BLAS, archive("gfx942", problem="it is cut"))) == []


def test_a_split_library_alone_is_judged_only_as_part_of_a_set() -> None:
    alone = wheel("torch", "2.9", elf=[BLAS])
    assert found(alone, closed=False) == []
    assert [rule for rule, _, _ in found(alone)] == ["set-kpack"]


# Installations.


def tried(**more: Any) -> Installation:
    return Installation("pip", "cp311 on linux_x86_64", **more)


def test_a_good_installation_has_no_finding() -> None:
    good = tried(asked={"torch": ("torch-2.9.whl",)}, stand_ins=("sympy 1.13",))
    report = set_report(rocm(), torch(), installations=[good])
    assert report.findings == ()
    assert report.stand_ins == ("sympy 1.13",)
    assert {"set-install", "set-candidates", "set-unproved"} <= set(report.rules)


def test_what_was_not_tried_is_not_counted_as_judged() -> None:
    assert not {"set-install", "set-candidates", "set-unproved"} & set(set_report(rocm()).rules)


def test_what_an_installer_said_is_an_error() -> None:
    [(rule, file, cause)] = found(installations=[tried(problems=("ERROR: no matching distribution",))])
    assert (rule, file) == ("set-install", "set")
    assert cause == "pip for cp311 on linux_x86_64: ERROR: no matching distribution"


def test_a_second_candidate_is_an_error_of_its_own() -> None:
    asked = {"torch": ("torch-2.9.whl", "torch-2.8.whl"), "rocm": ("rocm-7.tar.gz",)}
    assert found(installations=[tried(asked=asked)]) == [
        (
            "set-candidates",
            "set",
            "pip for cp311 on linux_x86_64 tried 2 files of torch: torch-2.8.whl, torch-2.9.whl",
        )
    ]


def test_what_could_not_be_tried_is_said() -> None:
    report = set_report(installations=[tried(not_tried="it is not here")])
    assert [(one.rule, one.severity) for one in report.findings] == [("set-unproved", "warning")]
    assert report.findings[0].cause == "not proved with pip for cp311 on linux_x86_64: it is not here"

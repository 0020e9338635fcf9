"""What the rules say of device code: for which targets it is, and in which wheel."""

from __future__ import annotations

import pytest
from facts_by_hand import CONTRACT, dll, elf, members, said, wheel

from rocwright.check.context import Context, Request
from rocwright.check.facts import CodeFile, Facts, KpackFacts, PeFacts, WrongCode
from rocwright.check.rules.device import RULES

HOST = ("device-gfx942", "device-gfx1100", "device-all")


def asked(rule: str, facts: Facts, *targets: str) -> list[str]:
    """The causes of a rule when these targets were asked for."""
    context = Context(CONTRACT, Request(targets=frozenset(targets)), (facts,))
    [one] = [one for one in RULES if one.id == rule]
    return [problem.cause for problem in one.check(facts, context)]


def fat(*targets: str, member: str = "torch/lib/libtorch_hip.so") -> Facts:
    return wheel("torch", elf(member, targets=frozenset(targets)))


# -- the targets that were asked for


def test_each_target_that_was_asked_for_is_there_and_no_other() -> None:
    torch = fat("gfx942", "gfx1100")
    assert asked("device-missing", torch, "gfx942", "gfx1100") == []
    assert asked("device-extra", torch, "gfx942", "gfx1100") == []
    assert asked("device-missing", torch, "gfx942", "gfx1100", "gfx90a") == [
        "no library holds code for gfx90a; requested: gfx90a, gfx942, gfx1100"
    ]
    assert asked("device-extra", torch, "gfx942") == [
        "libraries hold code for gfx1100, which was not requested: gfx942"
    ]


def test_features_answer_for_the_base_target() -> None:
    assert asked("device-missing", fat("gfx90a:xnack-", "gfx90a:xnack+"), "gfx90a") == []
    assert asked("device-missing", fat("gfx90a:xnack-"), "gfx90a:xnack+") != []


def test_archives_in_a_wheel_that_was_merged_for_a_family_count() -> None:
    archive = KpackFacts("torch/.kpack/torch_gfx942.kpack", targets=frozenset({"gfx942"}))
    merged = wheel("torch", elf("torch/lib/libtorch_hip.so"), archives=(archive,))
    assert asked("device-missing", merged, "gfx942") == []
    assert asked("device-extra", merged, "gfx1100") != []


def test_a_torch_without_any_code_unless_device_wheels_bring_it() -> None:
    assert asked("device-missing", wheel("torch", elf("torch/a.so")), "gfx942") != []
    assert asked("device-missing", wheel("torch", elf("torch/a.so"), extras=HOST), "gfx942") == []
    assert asked("device-missing", wheel("torchaudio", elf("torchaudio/a.so")), "gfx942") == []


def test_code_in_dlls_counts_and_what_cannot_be_read_there_is_not_compared() -> None:
    def torch(*targets: str) -> Facts:
        return wheel("torch", dll("torch/lib/torch_hip.dll", device_code=True, targets=frozenset(targets)))

    assert asked("device-missing", torch("gfx1151"), "gfx1151") == []
    assert asked("device-missing", torch("gfx1151"), "gfx1151", "gfx1100") != []
    assert asked("device-extra", torch("gfx1151", "gfx1100"), "gfx1151") != []
    assert asked("device-missing", torch(), "gfx1151") == []


# -- headers


def test_code_that_is_not_what_its_container_says() -> None:
    wrong = (WrongCode("gfx942", "its header says gfx90a"),)
    archive = KpackFacts("torch/.kpack/x_gfx942.kpack", targets=frozenset({"gfx942"}), wrong_code=wrong)
    file = CodeFile("torch/k_gfx942.hsaco", said="gfx942", machine="gfx90a", wrong="its header says gfx90a")
    good = CodeFile("torch/k_gfx90a.hsaco", said="gfx90a", machine="gfx90a")
    facts = wheel("torch", elf("torch/a.so", wrong_code=wrong), archives=(archive,), code=(file, good))
    assert said("device-flags", facts) == [
        ("torch/a.so", "it has code that is labelled as gfx942: its header says gfx90a"),
        (
            "torch/.kpack/x_gfx942.kpack",
            "it has code that is labelled as gfx942: its header says gfx90a",
        ),
        ("torch/k_gfx942.hsaco", "its path says it is for gfx942: its header says gfx90a"),
    ]


def test_device_code_that_cannot_be_read_and_whose_path_says_nothing() -> None:
    file = CodeFile("torch/k.hsaco", wrong="its header is cut or malformed")
    assert said("device-flags", wheel("torch", code=(file,))) == [
        ("torch/k.hsaco", "it is device code: its header is cut or malformed")
    ]


# -- device wheels


def part(
    project: str, *code: CodeFile, archives: tuple[KpackFacts, ...] = (), targets: tuple[str, ...] = ()
) -> Facts:
    library = elf("x/lib/libMIOpenCK.so", targets=frozenset(targets))
    return wheel(project, library, code=code, archives=archives)


@pytest.mark.parametrize(
    ("project", "target", "told"),
    [
        ("rocm-sdk-device-gfx942", "gfx942", False),
        ("rocm-sdk-device-gfx942", "gfx942:xnack+", False),
        ("rocm-sdk-device-gfx942", "gfx90a", True),
        ("amd-torch-device-gfx1100", "gfx1100", False),
        ("amd-torch-device-gfx1100", "gfx1101", True),
        ("amd-torch-device-gfx9-4-generic", "gfx9-4-generic", False),
        ("amd-torch-device-gfx9-4-generic", "gfx942", True),
        ("amd-torch-device-gfx1250-strict", "gfx1250", True),
        # Its code comes in the package of gfx1250 (rocm-bootstrap 0.3.0, package_metadata.py).
        ("amd-torch-device-gfx1250", "gfx1250-strict", False),
        ("amd-torch-device-gfx1251", "gfx1250-strict", True),
        # Groups: some databases serve several targets.
        ("amd-torch-device-gfx11xx", "gfx11xx", False),
        ("amd-torch-device-gfx11xx", "gfx1103", False),
        ("amd-torch-device-gfx11xx", "gfx1201", True),
        ("amd-torch-device-gfx12-0", "gfx12_0", False),
        ("amd-torch-device-gfx1100", "gfx11xx", True),
        # No device wheels, whatever they are named for.
        ("rocm-sdk-libraries-gfx942", "gfx90a", False),
        ("torch", "gfx90a", False),
    ],
)
def test_a_device_wheel_serves_its_own_target_only(project: str, target: str, told: bool) -> None:
    archive = KpackFacts("x/.kpack/a.kpack", targets=frozenset({target}))
    file = CodeFile("x/a.dat", said=target)
    for facts, member in (
        (part(project, file), "x/a.dat"),
        (part(project, archives=(archive,)), "x/.kpack/a.kpack"),
        (part(project, targets=(target,)), "x/lib/libMIOpenCK.so"),
    ):
        assert members("device-foreign", facts) == ([member] if told else [])


def test_code_without_a_target_in_its_path_goes_by_its_header() -> None:
    file = CodeFile("x/kernels.hsaco", machine="gfx90a")
    assert said("device-foreign", part("rocm-sdk-device-gfx942", file)) == [
        ("x/kernels.hsaco", "it serves gfx90a, the wheel is for gfx942")
    ]
    bundles = CodeFile("x/kernels.hsaco", targets=frozenset({"gfx942", "gfx90a:xnack+"}))
    assert said("device-foreign", part("rocm-sdk-device-gfx942", bundles)) == [
        ("x/kernels.hsaco", "it serves gfx90a:xnack+, the wheel is for gfx942")
    ]
    # A wrong header is another rule's finding.
    wrong = CodeFile(
        "x/kernels_gfx942.hsaco", said="gfx942", machine="gfx90a", wrong="its header says gfx90a"
    )
    assert members("device-foreign", part("rocm-sdk-device-gfx942", wrong)) == []


# -- host wheels


def code_of_every_kind() -> Facts:
    return wheel(
        "torch",
        elf("torch/lib/libtorch_hip.so", targets=frozenset({"gfx942", "gfx1100"})),
        elf("torch/lib/libc10.so"),
        dll("torch/lib/torch_hip.dll", device_code=True),
        PeFacts("torch/lib/c10.dll"),
        extras=HOST,
        code=(CodeFile("torch/a_gfx942.dat", said="gfx942"), CodeFile("torch/shared.dat")),
        archives=(KpackFacts("torch/.kpack/torch_gfx942.kpack", targets=frozenset({"gfx942"})),),
    )


def test_a_host_wheel_has_no_device_code_of_any_kind() -> None:
    assert said("device-in-host", code_of_every_kind()) == [
        (
            "torch/lib/libtorch_hip.so",
            "it has device code for gfx942, gfx1100, which the device wheels bring",
        ),
        ("torch/.kpack/torch_gfx942.kpack", "it has device code for gfx942, which the device wheels bring"),
        ("torch/a_gfx942.dat", "it has device code for gfx942, which the device wheels bring"),
        ("torch/lib/torch_hip.dll", "it has device code, which the device wheels bring"),
    ]


def test_a_host_may_have_bundles_that_are_opened_by_one_name_on_every_gpu() -> None:
    name, targets = "torch/lib/hipblaslt/library/hipblasltTransform.hsaco", frozenset({"gfx908", "gfx942"})
    for_all = wheel("torch", extras=HOST, code=(CodeFile(name, targets=targets, for_all=True),))
    assert members("device-in-host", for_all) == []
    other = wheel("torch", extras=HOST, code=(CodeFile("torch/lib/kernels.hsaco", targets=targets),))
    assert members("device-in-host", other) == ["torch/lib/kernels.hsaco"]


def test_a_wheel_is_a_host_when_it_offers_device_wheels_or_one_requires_it() -> None:
    library = elf("_rocm_sdk_libraries/lib/librocblas.so.5", targets=frozenset({"gfx942"}))
    host = wheel("rocm-sdk-libraries", library, requires=["rocm-sdk-core==1"])
    device = wheel("rocm-sdk-device-gfx942", requires=["rocm-sdk-libraries==1"])
    family = wheel("rocm-sdk-libraries-gfx942", requires=["rocm-sdk-core==1"])
    assert members("device-in-host", host) == []
    assert members("device-in-host", host, device) == [library.member]
    core = wheel("rocm-sdk-core", elf("_rocm_sdk_core/lib/a.so", targets=frozenset({"gfx942"})))
    # A package for a family is no device wheel, though named for a target; a host's own needs are no hosts.
    assert members("device-in-host", core, family, device, host) == []


def test_a_device_wheel_is_no_host() -> None:
    inside = part("amd-torch-device-gfx942", targets=("gfx942",))
    asking = wheel("amd-torch-device-gfx90a", requires=["amd-torch-device-gfx942"])
    assert members("device-in-host", inside, asking) == []


def test_an_archive_that_cannot_be_read_is_told_with_the_reason() -> None:
    broken = KpackFacts("torch/.kpack/a.kpack", problem="a.kpack: its table lies outside the file")
    assert said("kpack-readable", wheel("torch", archives=(broken, KpackFacts("torch/.kpack/b.kpack")))) == [
        ("torch/.kpack/a.kpack", "a.kpack: its table lies outside the file")
    ]

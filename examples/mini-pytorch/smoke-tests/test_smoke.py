"""Smoke tests of the installed miniature PyTorch family: they prove the packaging, not PyTorch.

Needs the installed wheels and pytest. EXPECT_TARGETS, separated by ';', ',' or blanks, names the GPU
targets that torch must have been built for. Tests of computed values are skipped without a GPU. Of the
other projects those that are installed are tested: a run may build torch alone.
"""

import os
import re
import site
import sysconfig
from importlib import import_module, metadata
from pathlib import Path

import pytest
import torch


def installed(project):
    try:
        metadata.distribution(project)
    except metadata.PackageNotFoundError:
        return False
    return True


# What is installed has to be importable.
MODULES = {
    project: import_module(project)
    for project in ("torch", "torchaudio", "torchvision", "apex", "triton")
    if installed(project)
}
# What HIP answers without a GPU: to "how many devices?", and to a launch.
NO_DEVICE = (100, "hipErrorNoDevice")
LAUNCH_WITHOUT_DEVICE = {NO_DEVICE, (101, "hipErrorInvalidDevice")}
# Every kernel of the family, how to launch it, and its exact result.
KERNELS = {
    "torch-fill": (lambda: torch.mini_launch("fill"), [2.5, 2.5, 2.5, 2.5]),
    "torch-saxpy": (lambda: torch.mini_launch("saxpy"), [2.5, 4.5, 6.5, 8.5]),
    "torch-mm": (lambda: torch.mini_launch("mm"), [19.0, 22.0, 43.0, 50.0]),
}
DEPENDENTS = {
    "torchaudio": [1.0, 1.5, 2.0, 2.5],
    "torchvision": [6.0, 4.0],
    "apex": [0.25, 0.5, 0.75, 1.0],
}
DEPENDENTS = {project: result for project, result in DEPENDENTS.items() if project in MODULES}
KERNELS |= {project: (MODULES[project].mini_launch, result) for project, result in DEPENDENTS.items()}


def require_gpu():
    if not torch.cuda.is_available():
        pytest.skip("no GPU")


def require_no_gpu():
    if torch.cuda.is_available():
        pytest.skip("a GPU is present")


def mapped(name):
    """The files with this in their name that the process has mapped."""
    lines = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    paths = {line.split(maxsplit=5)[5] for line in lines if len(line.split(maxsplit=5)) == 6}
    return sorted(path for path in paths if name in os.path.basename(path))


def site_packages():
    folders = {sysconfig.get_path("purelib"), sysconfig.get_path("platlib"), site.getusersitepackages()}
    return [Path(folder).resolve() for folder in folders]


def test_torch_was_built_for_rocm():
    assert re.fullmatch(r"\d+\.\d+\.\d+", torch.version.hip)
    assert torch.version.cuda is None


def test_submodule_was_prepared_for_rocm():
    assert torch._C._third_party_platform() == "amd"


def test_hip_runtime_comes_from_the_rocm_wheel_and_nowhere_else():
    libraries = [Path(path).resolve() for path in mapped("libamdhip64")]
    assert len(libraries) == 1, libraries
    owners = [folder / "_rocm_sdk_core" for folder in site_packages()]
    assert any(owner in libraries[0].parents for owner in owners), (
        f"{libraries[0]} is not under any of {owners}"
    )


@pytest.mark.parametrize("name", ["libc10_hip", "libtorch_cpu", "libtorch_hip"])
def test_torch_libraries_come_from_the_torch_wheel(name):
    assert mapped(name) == [str(Path(torch.__file__).resolve().parent / "lib" / f"{name}.so")]


def test_targets_are_the_expected_ones():
    targets = torch.cuda.get_arch_list()
    assert targets
    expected = [item for item in re.split(r"[;,\s]+", os.environ.get("EXPECT_TARGETS", "")) if item]
    if not expected:
        pytest.skip("EXPECT_TARGETS is not set")
    assert targets == expected


@pytest.mark.parametrize("project", MODULES)
def test_installed_metadata_names_the_miniature(project):
    found = metadata.metadata(project)
    assert "miniature" in found["Summary"].lower()
    assert MODULES[project].__version__ == found["Version"]


@pytest.mark.parametrize("project", DEPENDENTS)
def test_dependents_require_exactly_this_torch(project):
    assert f"torch=={torch.__version__}" in metadata.requires(project)


def test_asking_for_devices_without_a_gpu():
    require_no_gpu()
    assert torch._C._cuda_getDeviceCountError() == NO_DEVICE
    assert torch.cuda.device_count() == 0


@pytest.mark.parametrize("kernel", KERNELS)
def test_launch_without_a_gpu_reports_the_error_of_hip(kernel):
    require_no_gpu()
    result = KERNELS[kernel][0]()
    assert (result.code, result.name) in LAUNCH_WITHOUT_DEVICE
    assert result.values is None


def test_tensor_to_device_without_a_gpu_raises():
    require_no_gpu()
    with pytest.raises(RuntimeError, match=r"HIP error: hipErrorNoDevice \(100\)"):
        torch.tensor([1, 2]).cuda()


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernel_computes_on_the_gpu(kernel):
    require_gpu()
    launch, expected = KERNELS[kernel]
    result = launch()
    assert (result.code, result.name) == (0, "hipSuccess")
    assert result.values == expected


def test_tensors_compute_on_the_gpu():
    require_gpu()
    left, right = torch.tensor([[1, 2], [3, 4]]).cuda(), torch.tensor([[5, 6], [7, 8]]).cuda()
    assert (left + right).tolist() == [[6.0, 8.0], [10.0, 12.0]]
    assert left.mm(right).tolist() == [[19.0, 22.0], [43.0, 50.0]]
    torch.cuda.synchronize()
    assert torch.cuda.get_device_name(0)


def test_tensors_compute_on_the_cpu():
    left, right = torch.tensor([[1, 2], [3, 4]]), torch.tensor([[5, 6], [7, 8]])
    assert (left + right).tolist() == [[6.0, 8.0], [10.0, 12.0]]
    assert torch.add(left, right, alpha=0.5).tolist() == [[3.5, 5.0], [6.5, 8.0]]
    assert (left @ right).tolist() == [[19.0, 22.0], [43.0, 50.0]]


def test_dependents_compute_on_the_cpu():
    results = {
        "torchaudio": lambda: MODULES["torchaudio"].functional.preemphasis([1, 2, 3, 4], 0.5),
        "torchvision": lambda: MODULES["torchvision"].ops.box_area([[0, 0, 2, 3], [1, 1, 5, 2]]),
        "apex": lambda: MODULES["apex"].multi_tensor_scale([1, 2, 3, 4], 0.25),
    }
    assert {project: results[project]() for project in DEPENDENTS} == DEPENDENTS
    if "triton" in MODULES:
        triton = MODULES["triton"]
        assert (triton.cdiv(10, 4), triton.next_power_of_2(33)) == (3, 64)


def test_different_shapes_are_refused():
    with pytest.raises(ValueError, match="shapes"):
        torch.tensor([1, 2]).add(torch.tensor([1, 2, 3]))

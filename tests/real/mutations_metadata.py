"""Ways to break what a wheel says of itself, its sizes, and the files that it must or must not have."""

from __future__ import annotations

import os

from real.mutations_base import KPACK, LEGACY, Workbench, breaks, breaks_set
from real.wheel_edit import STORED, WheelEdit, rewritten

METADATA, WHEEL = "{info}/METADATA", "{info}/WHEEL"
INIT, VERSION = "torch/_rocm_init.py", "torch/version.py"


# -- METADATA


@breaks("metadata-identity", LEGACY, "triton", "METADATA says another version than the file's name")
def other_version(wheel: WheelEdit) -> None:
    wheel.substitute(METADATA, "Version: 3.5.0+rocm5.2.3", "Version: 3.5.0")


@breaks("metadata-identity", LEGACY, "triton", "METADATA says another project than the file's name")
def other_project(wheel: WheelEdit) -> None:
    wheel.substitute(METADATA, "Name: triton\n", "Name: pytorch-triton-rocm\n")


@breaks("metadata-fields", LEGACY, "triton", "Requires-Python is no specifier")
def requires_python_malformed(wheel: WheelEdit) -> None:
    wheel.substitute(METADATA, "Requires-Python: >=3.10", "Requires-Python: 3.10 or newer")


@breaks("metadata-fields", LEGACY, "triton", "METADATA has no Metadata-Version")
def no_metadata_version(wheel: WheelEdit) -> None:
    wheel.drop_lines(METADATA, "Metadata-Version: ")


@breaks("metadata-fields", KPACK, "rocm-sdk-libraries", "License-File names a file that is not in the wheel")
def licence_file_missing(wheel: WheelEdit) -> None:
    wheel.add_lines(METADATA, "License-File: share/doc/rccl/copyright")


@breaks("metadata-upload", LEGACY, "triton", "Dynamic names a field that may never change")
def dynamic_version(wheel: WheelEdit) -> None:
    wheel.add_lines(METADATA, "Dynamic: Version")


@breaks("requirement-brace", LEGACY, "torch", "a requirement holds the braces of a template")
def brace_left(wheel: WheelEdit) -> None:
    wheel.add_lines(METADATA, "Requires-Dist: sympy=={sympy_version}")


@breaks("requirement-malformed", LEGACY, "torch", "a requirement cannot be read")
def requirement_malformed(wheel: WheelEdit) -> None:
    wheel.add_lines(METADATA, "Requires-Dist: sympy version 1.13")


@breaks("requirement-malformed", LEGACY, "torch", "a requirement names a file of the build machine")
def requirement_on_a_file(wheel: WheelEdit) -> None:
    wheel.add_lines(METADATA, "Requires-Dist: sympy @ file:///build/sympy-1.14-py3-none-any.whl")


@breaks("requirement-extra", LEGACY, "torch", "a requirement is for an extra that the wheel does not provide")
def unknown_extra(wheel: WheelEdit) -> None:
    wheel.add_lines(METADATA, 'Requires-Dist: optree>=0.13; extra == "optree"')


@breaks("tags", LEGACY, "torch", "WHEEL says another tag than the file's name")
def other_tag(wheel: WheelEdit) -> None:
    wheel.substitute(WHEEL, "cp311-cp311-linux_x86_64", "cp310-cp310-linux_x86_64")


@breaks("tags", LEGACY, "torch", "an extension of the build for another Python is left in the tree")
def extension_of_another_python(wheel: WheelEdit) -> None:
    [name] = [each for each in wheel.names() if ".cpython-311-" in each]
    wheel.rename(name, name.replace(".cpython-311-", ".cpython-312-"))


@breaks("tag-any", LEGACY, "triton", "a wheel with compiled code is said to fit every platform")
def any_platform(wheel: WheelEdit) -> None:
    wheel.retag("cp311-cp311-linux_x86_64", "py3-none-any")


@breaks("torch-requires-rocm", LEGACY, "torch", "torch requires rocm for an extra only")
def rocm_for_an_extra(wheel: WheelEdit) -> None:
    wheel.substitute(METADATA, "rocm[libraries]==5.2.3", "rocm[libraries]==5.2.3; extra == 'rocm'")
    wheel.add_lines(METADATA, "Provides-Extra: rocm")


@breaks("torch-pin", LEGACY, "torchvision", "torchvision takes the torch of any index")
def torch_of_any_index(wheel: WheelEdit) -> None:
    wheel.substitute(METADATA, "torch==2.9.0+rocm5.2.3", "torch==2.9.0")


@breaks("torch-hip", LEGACY, "torch", "torch/version.py kept the version of the release candidate")
def version_of_a_candidate(wheel: WheelEdit) -> None:
    wheel.substitute(VERSION, "2.9.0+rocm5.2.3", "2.9.0rc2+rocm5.2.3")


@breaks("torch-requires-rocm", LEGACY, "torch", "torch requires rocm without its libraries")
def rocm_without_libraries(wheel: WheelEdit) -> None:
    wheel.substitute(METADATA, "Requires-Dist: rocm[libraries]==5.2.3", "Requires-Dist: rocm==5.2.3")


@breaks("torch-requires-rocm", LEGACY, "torch", "torch takes any version of rocm's libraries")
def rocm_of_any_version(wheel: WheelEdit) -> None:
    wheel.substitute(METADATA, "Requires-Dist: rocm[libraries]==5.2.3", "Requires-Dist: rocm[libraries]>=5.2")


@breaks("torch-pin", LEGACY, "torchvision", "an extension takes any newer torch")
def any_torch(wheel: WheelEdit) -> None:
    wheel.substitute(METADATA, "Requires-Dist: torch==2.9.0+rocm5.2.3", "Requires-Dist: torch>=2.9.0")


@breaks("family-pin", LEGACY, "torch", "torch takes any triton of the series")
def any_triton(wheel: WheelEdit) -> None:
    wheel.substitute(METADATA, "Requires-Dist: triton==3.5.0+rocm5.2.3", "Requires-Dist: triton==3.5.*")


@breaks("family-pin", KPACK, "rocm-sdk-libraries", "ROCm's libraries take any newer core")
def any_core(wheel: WheelEdit) -> None:
    wheel.substitute(METADATA, "Requires-Dist: rocm-sdk-core==5.2.3", "Requires-Dist: rocm-sdk-core>=5.2.3")


@breaks("device-pin", KPACK, "amd-torch-device-gfx906", "a device wheel takes any torch")
def device_of_any_torch(wheel: WheelEdit) -> None:
    wheel.substitute(METADATA, "Requires-Dist: torch==2.9.0+rocm5.2.3", "Requires-Dist: torch")


@breaks("licences", KPACK, "rocm-sdk-libraries", "libraries are shipped without the texts of their licences")
def no_licences(wheel: WheelEdit) -> None:
    wheel.remove_below("{info}/licenses/")
    wheel.drop_lines(METADATA, "License-File: ")


@breaks("sbom", KPACK, "rocm-sdk-libraries", "libraries are shipped without a list of what they are made of")
def no_sbom(wheel: WheelEdit) -> None:
    wheel.remove_below("{info}/sboms/")


@breaks("sbom", KPACK, "rocm-sdk-libraries", "the list of components is cut off")
def broken_sbom(wheel: WheelEdit) -> None:
    name = "{info}/sboms/rocwright.cdx.json"
    wheel.put(name, wheel.read(name)[:-200])


# -- sizes


@breaks_set("size-budget", LEGACY, "the package that selects the others is larger than its budget")
def beyond_budget(bench: Workbench) -> None:
    padding = os.urandom(1_200_000)
    bench.overwrite("rocm", lambda sdist: rewritten(sdist, "pyproject.toml", lambda data: data, more=padding))


@breaks_set("size-growth", LEGACY, "a wheel grew by two megabytes since the set before")
def grown(bench: Workbench) -> None:
    bench.request["previous"] = True
    with bench.edit("apex") as wheel:
        wheel.put("apex/table.bin", os.urandom(2_000_000), method=STORED)


# -- content


@breaks("required-files", LEGACY, "torch", "torch lacks the file that makes it a package")
def no_package_init(wheel: WheelEdit) -> None:
    wheel.remove("torch/__init__.py")


@breaks("forbidden-files", LEGACY, "torch", "compiled bytecode of the build machine is shipped")
def bytecode(wheel: WheelEdit) -> None:
    wheel.put("torch/__pycache__/version.cpython-311.pyc", b"\xa7\r\r\n" + bytes(12))


@breaks("torch-rocm-init", LEGACY, "torch", "nothing loads ROCm before torch's extensions")
def no_rocm_init(wheel: WheelEdit) -> None:
    wheel.remove(INIT)


@breaks("torch-rocm-init", LEGACY, "torch", "_rocm_init.py cannot be compiled")
def rocm_init_syntax(wheel: WheelEdit) -> None:
    wheel.substitute(INIT, "def initialize():", "def initialize(:")


@breaks("torch-rocm-init", LEGACY, "torch", "initialize() wants an argument that torch does not give")
def rocm_init_argument(wheel: WheelEdit) -> None:
    wheel.substitute(INIT, "def initialize():", "def initialize(version):")


@breaks("torch-rocm-init", LEGACY, "torch", "_rocm_init.py has no initialize()")
def rocm_init_other_name(wheel: WheelEdit) -> None:
    wheel.substitute(INIT, "def initialize():", "def init():")


@breaks("torch-rocm-init", LEGACY, "torch", "initialize() calls nothing of rocm_sdk")
def rocm_init_calls_nothing(wheel: WheelEdit) -> None:
    wheel.substitute(INIT, "rocm_sdk.initialize_process(", "dict(")


@breaks("torch-hip", LEGACY, "torch", "torch was built for the CPU only: version.py says hip = None")
def hip_is_none(wheel: WheelEdit) -> None:
    wheel.substitute(VERSION, "hip = '5.2.21153'", "hip = None")


@breaks("torch-hip", LEGACY, "torch", "version.py says nothing of hip")
def hip_is_missing(wheel: WheelEdit) -> None:
    wheel.substitute(VERSION, "hip = '5.2.21153'\n", "")

"""Ways to break a set of wheels that are each without a fault."""

from __future__ import annotations

import json
import re
from pathlib import Path

from real.mutations_base import KPACK, LEGACY, SMALL, WINDOWS, Workbench, breaks, breaks_set
from real.wheel_edit import WheelEdit, rewritten
from rocwright.binary.elf import read_elf
from rocwright.binary.view import Mapped
from rocwright.check.facts import Installation

METADATA = "{info}/METADATA"


@breaks_set("expected", LEGACY, "a package that was to be built is not there")
def package_not_built(bench: Workbench) -> None:
    bench.request["expect"] = [*bench.request["expect"], "pytorch-lightning"]


@breaks_set("set-one-version", LEGACY, "an older triton was left behind in the folder")
def two_versions(bench: Workbench) -> None:
    older = bench.retitled("triton", "triton", version="3.4.0+rocm5.2.3")
    older.substitute("triton/_version.py", "3.5.0", "3.4.0")
    bench.add("triton older", older)


@breaks(
    "set-ownership", LEGACY, "apex", "two packages install the same file, which uninstalling one takes away"
)
def file_of_another(wheel: WheelEdit) -> None:
    wheel.put("torch/version.py", "hip = '5.2.21153'\n")


@breaks_set("set-ownership", LEGACY, "two packages install a script of one name")
def script_of_another(bench: Workbench) -> None:
    for project in ("apex", "triton"):
        with bench.edit(project) as wheel:
            wheel.put(
                "{info}/entry_points.txt",
                "[console_scripts]\ntorchrun = torch.utils.cpp_extension:library_paths\n",
            )


@breaks("set-pins", LEGACY, "torchvision", "an extension requires another version of torch than the set has")
def pin_of_another_version(wheel: WheelEdit) -> None:
    wheel.substitute(
        METADATA, "Requires-Dist: torch==2.9.0+rocm5.2.3", "Requires-Dist: torch==2.8.0+rocm5.2.3"
    )


@breaks_set("set-closed", LEGACY, "a package that torch requires is not in the set")
def package_left_out(bench: Workbench) -> None:
    bench.drop("triton")
    bench.request["expect"].remove("triton")


@breaks_set("set-extras", KPACK, "torch offers an extra for a GPU whose package is not in the set")
def extra_without_package(bench: Workbench) -> None:
    bench.drop("amd-torch-device-gfx906")
    bench.request["targets"] = [target for target in bench.request["targets"] if target != "gfx906"]


@breaks_set("set-kpack", KPACK, "no archive is where a split library looks for its device code")
def archives_elsewhere(bench: Workbench) -> None:
    for target in bench.request["targets"]:
        with bench.edit(f"amd-torch-device-{target}") as wheel:
            wheel.rename_below("torch/.kpack/", "torch/kpack/")


@breaks_set("set-kpack", KPACK, "the archives hold the device code of a library of another name")
def library_moved(bench: Workbench) -> None:
    with bench.edit("torch") as wheel:
        name, old = "torch/lib/libtorch_hip.so", b"lib/libtorch_hip.so"
        data = wheel.read(name)
        assert data.count(old) == 1, "the marker alone has it"
        wheel.put(name, data.replace(old, b"lib/libtorch_cud.so"))


@breaks_set("set-build", KPACK, "the host wheel is another build of the same version")
def host_of_another_build(bench: Workbench) -> None:
    with bench.edit("torch") as wheel:
        name, key = "torch/lib/libtorch_hip.so", b"host_build"
        data = wheel.read(name)
        at = data.index(key) + len(key) + 2
        assert data.count(key) == 1, "the marker alone has it"
        wheel.put(name, data[:at] + b"0" * 32 + data[at + 32 :])


@breaks_set(
    "set-launch", KPACK, "a library of another build launches kernels that no archive has, and none says so"
)
def kernels_of_another_build(bench: Workbench) -> None:
    with bench.edit("rocm-sdk-libraries") as wheel:
        (name,) = (name for name in wheel.names() if re.search(r"/librocrand\.so[0-9.]+$", name))
        data = wheel.read(name)
        assert data.count(b"host_build") == 1, "the marker alone has it"
        texts = read_elf(Mapped(Path(name), data)).sections[".rodata"]
        start, end = texts.offset, texts.offset + texts.size
        other = data[start:end].replace(b"kernel", b"kernal")
        assert other != data[start:end]
        wheel.put(name, _unnamed(data[:start] + other + data[end:]))
    for project in [name for name in bench.paths if name.startswith("rocm-sdk-device-")]:
        with bench.edit(project) as wheel:
            for name in [name for name in wheel.names() if name.endswith(".kpack")]:
                wheel.put(name, _unnamed(wheel.read(name)))


def _unnamed(data: bytes) -> bytes:
    """A library or an archive as other writers leave it: the key is none that anybody knows."""
    return data.replace(b"host_build", b"xxxx_build")


@breaks("set-origin", KPACK, "amd-torch-device-gfx906", "a device package says that it is of another build")
def part_of_another_build(wheel: WheelEdit) -> None:
    name = "torch/.kpack/torch_gfx906.json"
    said = json.loads(wheel.read(name))
    wheel.put(name, json.dumps({**said, "build": "0" * 32}))


@breaks("set-origin", KPACK, "amd-torch-device-gfx906", "the archive of a device package got lost")
def archive_lost(wheel: WheelEdit) -> None:
    wheel.remove("torch/.kpack/torch_gfx906.kpack")


@breaks_set("set-device", KPACK, "a split torch has no device package for a GPU that was asked for")
def device_package_left_out(bench: Workbench) -> None:
    bench.drop("amd-torch-device-gfx906")
    with bench.edit("torch") as wheel:
        wheel.drop_lines(METADATA, "Provides-Extra: device-gfx906")
        wheel.drop_lines(METADATA, "Requires-Dist: amd-torch-device-gfx906")


@breaks_set("set-device", KPACK, "a device package is there that no extra of its host brings")
def device_without_extra(bench: Workbench) -> None:
    version = "3.5.0+rocm5.2.3"
    wheel = bench.retitled("amd-torch-device-gfx906", "amd-triton-device-gfx906", version=version)
    wheel.substitute(METADATA, "Requires-Dist: torch==2.9.0+rocm5.2.3", f"Requires-Dist: triton=={version}")
    wheel.remove("torch/.kpack/torch_gfx906.json")
    wheel.rename_below("torch/.kpack/torch_", "triton/.kpack/triton_")
    bench.add("amd-triton-device-gfx906", wheel)


# -- installing


@breaks_set("set-install", SMALL, "the package that selects the others cannot be built")
def selector_does_not_build(bench: Workbench) -> None:
    bench.overwrite("rocm", lambda sdist: rewritten(sdist, "rocm_build_backend.py", lambda data: b"1 / 0\n"))


@breaks("set-import", SMALL, "rocm-sdk-core", "a module at top level stops at a name that nothing defines")
def module_that_stops(wheel: WheelEdit) -> None:
    wheel.put("rocm_sdk_version.py", "print(rocm_version)\n")


@breaks_set("set-candidates", SMALL, "an installer looked at two files before it found one that fits")
def two_candidates(bench: Workbench) -> None:
    bench.request["install"] = False
    files = tuple(f"rocm_sdk_core-1.0-{build}-py3-none-linux_x86_64.whl" for build in (1, 2))
    done = Installation("pip", "cp311 on linux_x86_64", asked={"rocm-sdk-core": files})
    bench.installations = (done,)


@breaks_set(
    "set-unproved", WINDOWS, "the set is for a system on which it was not installed", severity="warning"
)
def other_system(bench: Workbench) -> None:
    bench.request["install"] = True

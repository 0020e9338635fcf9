"""Ways to break a set of wheels that are each without a fault."""

from __future__ import annotations

from real.mutations_base import KPACK, LEGACY, Workbench, breaks, breaks_set
from real.wheel_edit import WheelEdit

METADATA = "{info}/METADATA"


@breaks_set("expected", LEGACY, "a package that was to be built is not there")
def package_not_built(bench: Workbench) -> None:
    bench.request["expect"] = [*bench.request["expect"], "pytorch-lightning"]


@breaks_set("set-one-version", LEGACY, "an older triton was left behind in the folder")
def two_versions(bench: Workbench) -> None:
    bench.add("triton older", bench.retitled("triton", "triton", version="3.4.0+rocm5.2.3"))


@breaks(
    "set-ownership", LEGACY, "apex", "two packages install the same file, which uninstalling one takes away"
)
def file_of_another(wheel: WheelEdit) -> None:
    wheel.put("torch/version.py", "hip = '5.2.21153'\n")


@breaks("set-pins", LEGACY, "torchvision", "an extension requires another version of torch than the set has")
def pin_of_another_version(wheel: WheelEdit) -> None:
    wheel.substitute(
        METADATA, "Requires-Dist: torch==2.9.0+rocm5.2.3", "Requires-Dist: torch==2.8.0+rocm5.2.3"
    )


@breaks_set("set-closed", LEGACY, "a package that torch requires is not in the set")
def package_left_out(bench: Workbench) -> None:
    bench.drop("triton")


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
        old = b"torch/lib/libtorch_hip.so"
        data = wheel.read(old.decode())
        assert data.count(old) == 1
        wheel.put(old.decode(), data.replace(old, b"torch/lib/libtorch_cud.so"))


@breaks_set("set-device", KPACK, "a split torch has no device package for a GPU that was asked for")
def device_package_left_out(bench: Workbench) -> None:
    bench.drop("amd-torch-device-gfx906")
    with bench.edit("torch") as wheel:
        wheel.drop_lines(METADATA, "Provides-Extra: device-gfx906")
        wheel.drop_lines(METADATA, "Requires-Dist: amd-torch-device-gfx906")


@breaks_set("set-device", KPACK, "a device package belongs to a wheel that is not in the set")
def device_without_host(bench: Workbench) -> None:
    wheel = bench.retitled("amd-torch-device-gfx906", "amd-apex-device-gfx906")
    wheel.rename_below("torch/.kpack/torch_", "apex/.kpack/apex_")
    bench.add("amd-apex-device-gfx906", wheel)

"""Which device sources of a checkout no object was made of."""

from __future__ import annotations

import pytest

from rocwright.builder.units.report import Uncompiled, uncompiled

NATIVE = "aten/src/ATen/native"
BELOW = f"caffe2/CMakeFiles/torch_hip.dir/__/{NATIVE}"


@pytest.mark.parametrize(
    "made",
    [
        f"{BELOW}/hip/Copy.hip.o",
        f"/src/build/{BELOW}/hip/torch_hip_generated_Copy.hip.o",
        f"build/temp.linux-x86_64-cpython-313/{NATIVE}/hip/Copy.o",
        r"build\temp\aten\src\ATen\native\hip\Copy.obj",
        # A path that was shortened, of a name that no other source has.
        "CMakeFiles/3f2a/Copy.hip.o",
    ],
)
def test_the_object_of_each_build_system_is_known(made):
    assert uncompiled([f"{NATIVE}/hip/Copy.hip"], [made]) == ()


def test_what_was_left_out_is_told_by_directory():
    """As when a pattern for the kernels of one directory is wrong: others of the same name are there."""
    sources = [f"{NATIVE}/hip/{name}.hip" for name in ("Copy", "Mul", "SoftMax")]
    sources += [f"{NATIVE}/sparse/hip/SoftMax.hip", "test/one.hip"]
    objects = [f"{BELOW}/sparse/hip/SoftMax.hip.o", f"{BELOW}/hip/Mul.hip.o", f"{BELOW}/hip/Copy.cpp.o"]
    assert uncompiled(sources, objects) == (
        Uncompiled(f"{NATIVE}/hip", ("Copy.hip", "SoftMax.hip"), 3),
        Uncompiled("test", ("one.hip",), 1),
    )


@pytest.mark.parametrize("other", ["lib/Copy.so", "Copy", "Copies.hip.o", "my_Copy.hip.o", "Copy.hip.d"])
def test_other_outputs_are_not_taken_for_it(other):
    assert uncompiled(["Copy.hip"], [other]) == (Uncompiled("", ("Copy.hip",), 1),)


def test_a_checkout_without_device_sources():
    assert uncompiled([], ["a.o"]) == ()

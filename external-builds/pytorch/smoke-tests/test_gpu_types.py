"""Every data type of the compatibility page: made on the GPU, brought back, computed with."""

from __future__ import annotations

import warnings

import pytest
import torch

# Values that a type holds exactly, by its name.
ADDED = {
    "float16": [0.5, -2.0, 65504.0],
    "bfloat16": [0.5, -2.0, 256.0],
    "float32": [0.5, -2.0, 16777216.0],
    "float64": [0.5, -2.0, 9007199254740992.0],
    "complex32": [1 + 2j, -0.5j, 3 + 0j],
    "complex64": [1 + 2j, -0.5j, 3 + 0j],
    "complex128": [1 + 2j, -0.5j, 3 + 0j],
    "uint8": [0, 1, 255],
    "int8": [0, -128, 127],
    "int16": [0, -32768, 32767],
    "int32": [0, -2147483648, 2147483647],
    "int64": [0, -9223372036854775808, 9223372036854775807],
    "bool": [True, False, True],
}
HELD = {
    "uint16": [0, 1, 65535],
    "uint32": [0, 1, 4294967295],
    "uint64": [0, 1, 18446744073709551615],
}
EIGHT_BITS = {
    "float8_e4m3fn": [0.5, -2.0, 448.0],
    "float8_e5m2": [0.5, -2.0, 57344.0],
}


@pytest.fixture(autouse=True)
def _no_talk_of_experiments():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="ComplexHalf support is experimental")
        yield


@pytest.mark.parametrize("name", [*ADDED, *HELD])
def test_values_come_back(gpu, name):
    values = {**ADDED, **HELD}[name]
    there = torch.tensor(values, dtype=getattr(torch, name), device=gpu)
    assert there.is_cuda
    assert there.cpu().tolist() == values
    assert there.clone().cpu().tolist() == values


@pytest.mark.parametrize("name", [name for name in ADDED if name != "bool"])
def test_sums_and_products(gpu, name):
    dtype = getattr(torch, name)
    three, four = torch.tensor([3], dtype=dtype, device=gpu), torch.tensor([4], dtype=dtype, device=gpu)
    assert (three + four).dtype is dtype
    assert (three + four).item() == 7
    assert (three * four).item() == 12


@pytest.mark.parametrize("name", ["complex32", "complex64", "complex128"])
def test_complex_products(gpu, name):
    dtype = getattr(torch, name)
    one = torch.tensor([1 + 2j], dtype=dtype, device=gpu)
    assert (one * torch.tensor([3 + 4j], dtype=dtype, device=gpu)).item() == -5 + 10j


def test_truth(gpu):
    one, two = (
        torch.tensor([True, True, False, False], device=gpu),
        torch.tensor([True, False] * 2, device=gpu),
    )
    assert (one & two).tolist() == [True, False, False, False]
    assert (one | two).tolist() == [True, True, True, False]
    assert (~one).tolist() == [False, False, True, True]


@pytest.mark.parametrize("name", ["uint16", "uint32"])
def test_wide_unsigned_types_are_converted(gpu, name):
    there = torch.tensor([7, 40000], dtype=getattr(torch, name), device=gpu)
    assert (there.to(torch.int64) * 2).tolist() == [14, 80000]


@pytest.mark.parametrize("name", EIGHT_BITS)
def test_eight_bit_floats_are_converted_on_the_gpu(gpu, name):
    there = torch.tensor(EIGHT_BITS[name], device=gpu).to(getattr(torch, name))
    assert there.element_size() == 1
    assert there.float().tolist() == EIGHT_BITS[name]
    assert there.cpu().float().tolist() == EIGHT_BITS[name]


@pytest.mark.parametrize(("name", "code"), [("quint8", 12), ("qint8", 2), ("qint32", 2)])
def test_quantised_values(gpu, name, code):
    if not hasattr(torch, name):
        pytest.skip(f"this torch has no {name} any more")
    zero = 10 if name == "quint8" else 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are on their way out, and say so
        there = torch.quantize_per_tensor(
            torch.tensor([1.0, -0.5], device=gpu), scale=0.5, zero_point=zero, dtype=getattr(torch, name)
        )
        assert there.is_cuda
        assert there.int_repr()[0].item() == code
        assert there.dequantize().tolist() == [1.0, -0.5]


def test_quint4x2_is_made(gpu):
    if not hasattr(torch, "quint4x2"):
        pytest.skip("this torch has no quint4x2 any more")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        # Its only kernels are the host's: two values a byte, one scale a row.
        packed = torch.quantize_per_channel(
            torch.tensor([[0.0, 1.0, 2.0, 3.0]]), torch.tensor([1.0]), torch.tensor([0.0]), 0, torch.quint4x2
        )
        assert packed.dtype is torch.quint4x2
        assert packed.dequantize().tolist() == [[0.0, 1.0, 2.0, 3.0]]

"""Data types: made, copied to the device and back, converted, computed with; results are compared with values
that are known beforehand."""

from __future__ import annotations

from typing import Any

from rocwright_exercise import Absent, Skipped, Step, expect

# Exact in every data type, the four bits of quint4x2 and the three of float8_e5m2's significand included.
_VALUES = (1, 2, 3, 4, 0, 1, 2, 3)
_SIDE = 16


def steps_of(torch: Any, device: str, names: list[str], kind: dict[str, Any]) -> list[Step]:
    """The steps for the data type of this name; `Absent` where torch has it under none of its names."""
    held = [getattr(torch, name, None) for name in names]
    missing = [name for name, one in zip(names, held) if one is None]  # noqa: B905 - Python 3.9
    if held[0] is None:
        raise Absent(f"torch has no attribute {names[0]}")
    if missing or any(one is not held[0] for one in held):
        raise ValueError(f"{', '.join(names)} are not one data type: missing {', '.join(missing) or 'none'}")
    form = kind["name"]
    if form in ("quantized", "quantized4"):
        return _Quantized(torch, device, held[0], per_channel=form == "quantized4").steps()
    return _Plain(torch, device, held[0], form).steps()


class _Plain:
    """A data type that tensors are made of directly."""

    def __init__(self, torch: Any, device: str, dtype: Any, form: str) -> None:
        self.torch, self.device, self.dtype, self.form = torch, device, dtype, form
        self.values: list[Any] = [bool(one) for one in _VALUES] if form == "bool" else list(_VALUES)
        self.wide = {"float": "float32", "float8": "float32", "complex": "complex64"}.get(form, "int64")
        self.host: Any = None
        self.there: Any = None

    def steps(self) -> list[Step]:
        return [
            ("create", self.create),
            ("to device", self.to_device),
            ("to host", self.to_host),
            ("convert", self.convert),
            ("elementwise", self.elementwise),
            ("matmul", self.scaled_mm if self.form == "float8" else self.matmul),
        ]

    def create(self) -> None:
        self.host = self.torch.tensor(self.values, dtype=self.dtype)
        expect(self.host.dtype, self.dtype)
        made = self.torch.zeros(4, dtype=self.dtype, device=self.device)
        expect((made.dtype, made.device.type), (self.dtype, self.device))

    def to_device(self) -> None:
        self.there = self.host.to(self.device, copy=True)
        expect((self.there.dtype, self.there.device.type), (self.dtype, self.device))

    def to_host(self) -> None:
        back = self.there.to("cpu", copy=True)
        expect(back.dtype, self.dtype)
        expect(_bytes(self.torch, back), _bytes(self.torch, self.host))

    def convert(self) -> None:
        """On the device to a wide type and back, with the same values on both sides."""
        wide = self.there.to(getattr(self.torch, self.wide))
        expect(wide.cpu().tolist(), self.values)
        back = wide.to(self.dtype)
        expect(back.dtype, self.dtype)
        expect(_bytes(self.torch, back.cpu()), _bytes(self.torch, self.host))

    def elementwise(self) -> None:
        """x + x; for truth values x and not x."""
        if self.form == "bool":
            found = self.torch.logical_and(self.there, self.torch.logical_not(self.there))
            wanted: list[Any] = [False] * len(self.values)
        else:
            found, wanted = self.there + self.there, [2 * one for one in self.values]
        expect(found.dtype, self.dtype)
        expect(found.to(getattr(self.torch, self.wide)).cpu().tolist(), wanted)

    def matmul(self) -> None:
        """A matrix of ones by itself: its side everywhere."""
        if self.form == "bool":
            raise Skipped("truth values are not multiplied")
        ones = self.torch.ones(_SIDE, _SIDE, dtype=self.dtype, device=self.device)
        _expect_all(self.torch.mm(ones, ones).to(getattr(self.torch, self.wide)), _SIDE)

    def scaled_mm(self) -> None:
        """As linear layers use it: with scales, the result in bfloat16."""
        torch = self.torch
        if not hasattr(torch, "_scaled_mm"):
            raise Skipped("this torch has no _scaled_mm")
        ones = torch.ones(_SIDE, _SIDE, device=self.device)
        # Two matrices of e5m2 are no case that the libraries have.
        left, right = ones.to(self.dtype), ones.to(torch.float8_e4m3fn).t()
        scale = torch.tensor(1.0, device=self.device)
        found = torch._scaled_mm(left, right, scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16)
        _expect_all(found.to(torch.float32), _SIDE)


class _Quantized:
    """A data type that comes out of quantization: integers with a scale and a zero point."""

    def __init__(self, torch: Any, device: str, dtype: Any, *, per_channel: bool) -> None:
        self.torch, self.device, self.dtype, self.per_channel = torch, device, dtype, per_channel
        self.wanted = [[float(one) for one in _VALUES]]
        self.host: Any = None
        self.there: Any = None

    def steps(self) -> list[Step]:
        return [
            ("create", self.create),
            ("to device", self.to_device),
            ("to host", self.to_host),
            ("convert", self.convert),
            ("elementwise", self.elementwise),
        ]

    def quantize(self, floats: Any) -> Any:
        """Scale 1, zero point 0: by channel for four bits, which have no other form."""
        if not self.per_channel:
            return self.torch.quantize_per_tensor(floats, 1.0, 0, self.dtype)
        ones = self.torch.ones(1, device=floats.device)
        return self.torch.quantize_per_channel(floats, ones, ones - 1, 0, self.dtype)

    def create(self) -> None:
        self.host = self.quantize(self.torch.tensor(self.wanted))
        expect((self.host.dtype, self.host.is_quantized), (self.dtype, True))

    def to_device(self) -> None:
        self.there = self.host.to(self.device)
        expect((self.there.dtype, self.there.device.type), (self.dtype, self.device))

    def to_host(self) -> None:
        expect(self.there.cpu().dequantize().tolist(), self.wanted)

    def convert(self) -> None:
        """Quantized and back on the device."""
        expect(self.there.dequantize().cpu().tolist(), self.wanted)
        again = self.quantize(self.torch.tensor(self.wanted, device=self.device))
        expect((again.dtype, again.device.type), (self.dtype, self.device))
        expect(again.dequantize().cpu().tolist(), self.wanted)

    def elementwise(self) -> None:
        """The largest of zero and x, in the data type itself."""
        found = self.torch.relu(self.there)
        expect(found.dtype, self.dtype)
        expect(found.dequantize().cpu().tolist(), self.wanted)


def _bytes(torch: Any, tensor: Any) -> list[int]:
    found: list[int] = tensor.view(torch.uint8).tolist()
    return found


def _expect_all(tensor: Any, wanted: float) -> None:
    values = tensor.cpu().flatten().tolist()
    expect({complex(one) for one in values}, {complex(wanted)})

"""Layers of neural networks: convolutions, normalization, recurrence, attention; results known beforehand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rocwright_exercise import Skipped, Step, expect


def _all(found: Any, wanted: float, off: float = 1e-3) -> None:
    """Raises `ValueError` where a value of the tensor is not that number."""
    largest = float((found.detach().double().cpu() - wanted).abs().max())
    if not largest <= off:
        raise ValueError(f"is off by {largest:g} from {wanted:g}")


def _conv(torch: Any, device: str) -> list[Step]:
    functional = torch.nn.functional

    def conv2d(dtype: Any) -> Callable[[], None]:
        def act() -> None:
            """Ones in, ones as weights: each output counts channels and window, 4 x 3 x 3."""
            data = torch.ones(2, 4, 16, 16, device=device, dtype=dtype)
            found = functional.conv2d(data, torch.ones(8, 4, 3, 3, device=device, dtype=dtype))
            expect(tuple(found.shape), (2, 8, 14, 14))
            _all(found, 36)

        return act

    def conv3d() -> None:
        data = torch.ones(1, 2, 8, 8, 8, device=device)
        _all(functional.conv3d(data, torch.ones(3, 2, 3, 3, 3, device=device)), 54)

    def transposed() -> None:
        data = torch.ones(1, 4, 5, 5, device=device)
        _all(functional.conv_transpose2d(data, torch.ones(4, 2, 1, 1, device=device)), 4)

    def gradient() -> None:
        """Each weight meets each of the 2 x 14 x 14 windows once."""
        weight = torch.ones(8, 4, 3, 3, device=device, requires_grad=True)
        functional.conv2d(torch.ones(2, 4, 16, 16, device=device), weight).sum().backward()
        _all(weight.grad, 2 * 14 * 14)

    return [
        ("conv2d float32", conv2d(torch.float32)),
        ("conv2d float16", conv2d(torch.float16)),
        ("conv2d bfloat16", conv2d(torch.bfloat16)),
        ("conv3d", conv3d),
        ("transposed", transposed),
        ("gradient", gradient),
    ]


def _norm(torch: Any, device: str) -> list[Step]:
    def batch() -> None:
        """Half of each channel -1, half 1: mean 0, deviation 1, so it comes out as it went in."""
        data = torch.ones(4, 3, 8, 8, device=device)
        data[:2] = -1
        layer = torch.nn.BatchNorm2d(3).to(device)
        _all(layer(data) - data, 0)
        _all(layer.running_mean, 0)

    def pool() -> None:
        data = torch.arange(16.0, device=device).reshape(1, 1, 4, 4)
        expect(torch.nn.functional.max_pool2d(data, 2).flatten().tolist(), [5.0, 7.0, 13.0, 15.0])

    return [("batch norm", batch), ("max pool", pool)]


def _recurrent(torch: Any, device: str) -> list[Step]:
    def lstm() -> None:
        """All weights zero: each gate is 1/2, the candidate 0, so nothing ever leaves 0."""
        layer = torch.nn.LSTM(4, 8).to(device)
        for weight in layer.parameters():
            torch.nn.init.zeros_(weight)
        found, _ = layer(torch.ones(5, 2, 4, device=device))
        expect(tuple(found.shape), (5, 2, 8))
        _all(found, 0)

    def gru() -> None:
        """All weights zero: the state is halved in each of three steps."""
        layer = torch.nn.GRU(4, 8).to(device)
        for weight in layer.parameters():
            torch.nn.init.zeros_(weight)
        _, state = layer(torch.ones(3, 2, 4, device=device), torch.ones(1, 2, 8, device=device))
        _all(state, 0.125)

    def gradient() -> None:
        layer = torch.nn.LSTM(4, 8).to(device)
        layer(torch.ones(5, 2, 4, device=device))[0].sum().backward()
        expect(all(bool(weight.grad.isfinite().all()) for weight in layer.parameters()), True)

    return [("LSTM", lstm), ("GRU", gru), ("LSTM gradient", gradient)]


def _attention(torch: Any, device: str) -> list[Step]:
    dtype = torch.float16 if device == "cuda" else torch.float32

    def attend() -> None:
        """All keys are equal, so each value weighs the same: the mean of 0 to 63."""
        ones = torch.ones(1, 2, 64, 64, device=device, dtype=dtype)
        rows = torch.arange(64.0, device=device).to(dtype).reshape(1, 1, 64, 1)
        # The kernels for GPUs take no rows that repeat one number.
        values = rows.expand(1, 2, 64, 64).contiguous()
        _all(torch.nn.functional.scaled_dot_product_attention(ones, ones, values), 31.5, off=0.05)

    def by(name: str) -> Callable[[], None]:
        def act() -> None:
            from torch.nn.attention import SDPBackend, sdpa_kernel

            if device != "cuda" and name != "MATH":
                raise Skipped("a kernel for GPUs")
            with sdpa_kernel(getattr(SDPBackend, name)):
                attend()

        return act

    names = {"flash": "FLASH_ATTENTION", "efficient": "EFFICIENT_ATTENTION", "math": "MATH"}
    return [("default", attend), *((name, by(backend)) for name, backend in names.items())]


def _composed(torch: Any, device: str) -> list[Step]:
    """What torch on ROCm can be told to compute with Composable Kernel."""
    cuda = torch.backends.cuda

    def chosen(choose: str, what: Callable[[], None]) -> Callable[[], None]:
        def act() -> None:
            function = getattr(cuda, choose, None)
            if not torch.version.hip or device != "cuda" or function is None:
                raise Skipped("torch on ROCm and a GPU only")
            before = function()
            try:
                function("ck")
                what()
            finally:
                function(before)

        return act

    def product() -> None:
        ones = torch.ones(256, 256, device=device, dtype=torch.bfloat16)
        _all(ones @ ones, 256)

    attend = dict(_attention(torch, device))["default"]
    return [
        ("mm", chosen("preferred_blas_library", product)),
        ("attention", chosen("preferred_rocm_fa_library", attend)),
    ]


LAYERS: dict[str, Callable[[Any, str], list[Step]]] = {
    "convolution": _conv,
    "normalization": _norm,
    "recurrence": _recurrent,
    "attention": _attention,
    "composed": _composed,
}

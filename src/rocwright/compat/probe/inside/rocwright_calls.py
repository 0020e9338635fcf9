"""Functions of torch that reach a library, with arguments for which the result is known beforehand."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from typing import Any

from rocwright_exercise import Absent, Skipped, Step, expect
from rocwright_layers import LAYERS

_SIDE = 64


def steps_of_call(torch: Any, device: str, name: str) -> list[Step]:
    """The steps of the exercise of this name."""
    make: Callable[[Any, str], list[Step]] | None = {**_CALLS, **LAYERS}.get(name)
    if make is None:
        raise Absent(f"this script has no exercise {name}")
    return make(torch, device)


def close(torch: Any, found: Any, wanted: Any, off: float = 1e-4) -> None:
    """Raises `ValueError` where two tensors differ by more than rounding."""
    found, wanted = torch.as_tensor(found).cpu(), torch.as_tensor(wanted).cpu()
    expect(tuple(found.shape), tuple(wanted.shape))
    wide = torch.complex128 if found.is_complex() or wanted.is_complex() else torch.float64
    largest = float((found.to(wide) - wanted.to(wide)).abs().max()) if found.numel() else 0.0
    if not largest <= off:
        raise ValueError(f"is off by {largest:g}, more than {off:g}")


def _ones(torch: Any, device: str, *shape: int, dtype: Any = None) -> Any:
    return torch.ones(*(shape or (_SIDE, _SIDE)), device=device, dtype=dtype or torch.float32)


def _blas(torch: Any, device: str) -> list[Step]:
    def product(dtype: Any) -> Callable[[], None]:
        def act() -> None:
            ones = _ones(torch, device, dtype=dtype)
            close(torch, torch.mm(ones, ones), torch.full((_SIDE, _SIDE), float(_SIDE)))

        return act

    def bmm() -> None:
        ones = _ones(torch, device, 4, _SIDE, _SIDE)
        close(torch, torch.bmm(ones, ones), torch.full((4, _SIDE, _SIDE), float(_SIDE)))

    def mv() -> None:
        found = torch.mv(_ones(torch, device), _ones(torch, device, _SIDE))
        close(torch, found, torch.full((_SIDE,), float(_SIDE)))

    kinds = ("float32", "float64", "float16", "bfloat16", "complex64")
    steps: list[Step] = [(f"mm {kind}", product(getattr(torch, kind))) for kind in kinds]
    return [*steps, ("bmm", bmm), ("mv", mv)]


def _blaslt(torch: Any, device: str) -> list[Step]:
    def addmm() -> None:
        ones, bias = _ones(torch, device), _ones(torch, device, _SIDE)
        close(torch, torch.addmm(bias, ones, ones), torch.full((_SIDE, _SIDE), _SIDE + 1.0))

    def epilogue() -> None:
        """The activation in the same kernel: relu of a negative bias is zero."""
        ones, bias = _ones(torch, device), torch.full((_SIDE,), -2.0 * _SIDE, device=device)
        close(torch, torch._addmm_activation(bias, ones, ones), torch.zeros(_SIDE, _SIDE))

    def preferred() -> None:
        choose = getattr(torch.backends.cuda, "preferred_blas_library", None)
        if device != "cuda" or choose is None:
            raise Skipped("there is nothing to choose from")
        before = choose()
        try:
            choose("cublaslt")
            ones = _ones(torch, device, dtype=torch.bfloat16)
            close(torch, ones @ ones, torch.full((_SIDE, _SIDE), float(_SIDE)))
        finally:
            choose(before)

    def integers() -> None:
        ones = _ones(torch, device, dtype=torch.int8)
        close(torch, torch._int_mm(ones, ones), torch.full((_SIDE, _SIDE), float(_SIDE)))

    return [("addmm", addmm), ("epilogue", epilogue), ("preferred", preferred), ("int8", integers)]


def _fft(torch: Any, device: str) -> list[Step]:
    def impulse() -> None:
        """The spectrum of an impulse is one everywhere."""
        signal = torch.zeros(_SIDE, device=device)
        signal[0] = 1
        close(torch, torch.fft.fft(signal), torch.ones(_SIDE, dtype=torch.complex64))

    def back() -> None:
        signal = torch.arange(float(_SIDE * _SIDE), device=device).reshape(_SIDE, _SIDE) / _SIDE
        close(torch, torch.fft.irfft2(torch.fft.rfft2(signal)), signal, off=1e-3)

    return [("fft", impulse), ("rfft2, irfft2", back)]


def _random(torch: Any, device: str) -> list[Step]:
    many = 100_000

    def uniform() -> None:
        """The mean of so many is off by more than 0.01 less than once in 10^26."""
        values = torch.rand(many, device=device)
        expect((float(values.min()) >= 0, float(values.max()) < 1), (True, True))
        close(torch, values.mean(), 0.5, off=0.01)

    def normal() -> None:
        values = torch.randn(many, device=device)
        close(torch, torch.stack((values.mean(), values.std())), torch.tensor((0.0, 1.0)), off=0.05)

    def again() -> None:
        """The same seed, the same numbers."""
        torch.manual_seed(7)
        first = torch.rand(many, device=device)
        torch.manual_seed(7)
        expect(bool((first == torch.rand(many, device=device)).all()), True)

    def dropout() -> None:
        kept = torch.nn.functional.dropout(torch.ones(many, device=device), 0.25)
        expect({round(one, 4) for one in kept.unique().tolist()}, {0.0, 1.3333})

    return [("rand", uniform), ("randn", normal), ("seed", again), ("dropout", dropout)]


def _linalg(torch: Any, device: str) -> list[Step]:
    linalg = torch.linalg
    # Eigenvalues 1 and 3; determinant 3.
    matrix = torch.tensor([[2.0, 1.0], [1.0, 2.0]], device=device)
    right = torch.tensor([[3.0], [3.0]], device=device)

    def eig() -> None:
        close(torch, torch.sort(linalg.eig(matrix)[0].real)[0], torch.tensor((1.0, 3.0)))

    def qr() -> None:
        orthogonal, upper = linalg.qr(matrix)
        close(torch, orthogonal @ upper, matrix)

    def cholesky() -> None:
        lower = linalg.cholesky(matrix)
        close(torch, lower @ lower.T, matrix)

    return [
        ("solve", lambda: close(torch, linalg.solve(matrix, right), torch.ones(2, 1))),
        ("svd", lambda: close(torch, linalg.svdvals(matrix), torch.tensor((3.0, 1.0)))),
        ("eigh", lambda: close(torch, linalg.eigvalsh(matrix), torch.tensor((1.0, 3.0)))),
        ("eig", eig),
        ("qr", qr),
        ("cholesky", cholesky),
        ("det", lambda: close(torch, linalg.det(matrix), torch.tensor(3.0))),
    ]


def _sparse(torch: Any, device: str) -> list[Step]:
    dense = torch.eye(_SIDE, device=device) * 2
    ones = _ones(torch, device)
    wanted = torch.full((_SIDE, _SIDE), 2.0)

    def coo() -> None:
        close(torch, torch.sparse.mm(dense.to_sparse(), ones), wanted)

    def csr() -> None:
        close(torch, dense.to_sparse_csr() @ ones, wanted)

    def both() -> None:
        found = torch.sparse.mm(dense.to_sparse(), dense.to_sparse())
        close(torch, found.to_dense(), torch.eye(_SIDE) * 4)

    return [("COO", coo), ("CSR", csr), ("sparse by sparse", both)]


def _semi_structured(torch: Any, device: str) -> list[Step]:
    def two_of_four() -> None:
        """Two of each four values are zero, so each row sums to half of its length."""
        if device != "cuda":
            raise Skipped("a kernel for GPUs")
        from torch.sparse import to_sparse_semi_structured

        side = 128
        pattern = torch.tensor([0, 0, 1, 1], device=device).tile((side, side // 4)).half()
        ones = torch.ones(side, side, device=device, dtype=torch.float16)
        close(torch, to_sparse_semi_structured(pattern) @ ones, torch.full((side, side), side / 2.0))

    return [("2:4", two_of_four)]


def _scans(torch: Any, device: str) -> list[Step]:
    count = 10_000
    down = torch.arange(count, 0, -1, device=device)

    def scan() -> None:
        found = torch.cumsum(torch.ones(count, dtype=torch.int64, device=device), 0)
        close(torch, found, torch.arange(1, count + 1))

    def unique() -> None:
        close(torch, torch.unique(down // 10), torch.arange(0, count // 10 + 1))

    return [
        ("sort", lambda: close(torch, torch.sort(down)[0], torch.arange(1, count + 1))),
        ("cumsum", scan),
        ("unique", unique),
        ("nonzero", lambda: expect(int(torch.nonzero(down > count // 2).numel()), count // 2)),
        ("topk", lambda: close(torch, torch.topk(down, 3)[0], torch.tensor((count, count - 1, count - 2)))),
        ("sum", lambda: expect(int(down.sum()), count * (count + 1) // 2)),
    ]


def _orders(torch: Any, device: str) -> list[Step]:
    count = 10_000

    def permutation() -> None:
        close(torch, torch.sort(torch.randperm(count, device=device))[0], torch.arange(count))

    def embedding() -> None:
        """Each of ten rows is looked up as often, so their gradients are equal."""
        weight = torch.zeros(10, 2, device=device, requires_grad=True)
        places = torch.arange(count, device=device) % 10
        torch.nn.functional.embedding(places, weight).sum().backward()
        close(torch, weight.grad, torch.full((10, 2), count / 10.0))

    def put() -> None:
        found = torch.zeros(10, device=device)
        places = torch.arange(count, device=device) % 10
        found.index_put_((places,), torch.ones(count, device=device), accumulate=True)
        close(torch, found, torch.full((10,), count / 10.0))

    def runs() -> None:
        values = torch.arange(count, device=device) // 100
        close(torch, torch.unique_consecutive(values), torch.arange(count // 100))

    return [
        ("randperm", permutation),
        ("embedding gradient", embedding),
        ("index_put", put),
        ("unique_consecutive", runs),
    ]


def _collective(torch: Any, device: str) -> list[Step]:
    backend = "nccl" if device == "cuda" else "gloo"

    def group() -> None:
        """A group of this process alone: the sum over it is what it gave."""
        distributed = torch.distributed
        if not distributed.is_available():
            raise Absent("this torch has no torch.distributed")
        with tempfile.TemporaryDirectory() as folder:
            store = f"file://{folder}/store"
            distributed.init_process_group(backend, init_method=store, rank=0, world_size=1)
            try:
                values = torch.arange(4.0, device=device)
                distributed.all_reduce(values)
                distributed.broadcast(values, 0)
                close(torch, values, torch.arange(4.0))
            finally:
                distributed.destroy_process_group()

    return [(f"all_reduce {backend}", group)]


_CALLS: dict[str, Callable[[Any, str], list[Step]]] = {
    "blas": _blas,
    "blaslt": _blaslt,
    "fft": _fft,
    "random": _random,
    "linalg": _linalg,
    "sparse": _sparse,
    "semi-structured": _semi_structured,
    "scans": _scans,
    "orders": _orders,
    "collective": _collective,
}

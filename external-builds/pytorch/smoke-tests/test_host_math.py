"""Arithmetic on the CPU: BLAS and LAPACK do what they are linked for."""

from __future__ import annotations

import io

import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex64, torch.int64], ids=str)
def test_mm(dtype):
    a = torch.tensor([[1, 2], [3, 4]], dtype=dtype)
    b = torch.tensor([[5, 6], [7, 8]], dtype=dtype)
    assert torch.equal(a @ b, torch.tensor([[19, 22], [43, 50]], dtype=dtype))


def test_mm_larger_than_a_block():
    assert torch.equal(torch.ones(257, 129) @ torch.ones(129, 65), torch.full((257, 65), 129.0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.complex128], ids=str)
def test_svd(dtype):
    a = torch.tensor([[3, 0], [0, -2]], dtype=dtype)
    u, s, vh = torch.linalg.svd(a)
    assert torch.allclose(s, torch.tensor([3, 2], dtype=s.dtype))
    assert torch.allclose(u @ torch.diag(s).to(dtype) @ vh, a)


def test_svd_of_a_matrix_of_rank_one():
    # All ones: one singular value of sqrt(64 * 32), all others zero.
    s = torch.linalg.svdvals(torch.ones(64, 32, dtype=torch.float64))
    assert s[0].item() == pytest.approx(2048**0.5)
    assert s[1:].abs().max().item() < 1e-10


def test_eigenvalues():
    found = torch.linalg.eigvalsh(torch.tensor([[2.0, 1.0], [1.0, 2.0]]))
    assert torch.allclose(found, torch.tensor([1.0, 3.0]))


def test_cholesky():
    found = torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    assert torch.allclose(found, torch.tensor([[2.0, 0.0], [1.0, 2.0]]))


def test_solve():
    found = torch.linalg.solve(torch.tensor([[2.0, 1.0], [1.0, 3.0]]), torch.tensor([5.0, 10.0]))
    assert torch.allclose(found, torch.tensor([1.0, 3.0]))


def test_autograd():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x**3).sum().backward()
    assert torch.equal(x.grad, torch.tensor([3.0, 12.0, 27.0]))


def test_a_module_is_saved_and_loaded():
    module = torch.nn.Linear(2, 1)
    with torch.no_grad():
        module.weight.copy_(torch.tensor([[2.0, -1.0]]))
        module.bias.fill_(0.5)
    stored = io.BytesIO()
    torch.save(module.state_dict(), stored)
    stored.seek(0)
    again = torch.nn.Linear(2, 1)
    again.load_state_dict(torch.load(stored, weights_only=True))
    assert again(torch.tensor([[3.0, 4.0]])).item() == 2.5

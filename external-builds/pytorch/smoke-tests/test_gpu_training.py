"""Gradients, training and compiled functions, against closed forms."""

from __future__ import annotations

import shutil

import pytest
import torch


def test_gradients(gpu):
    x = torch.tensor([1.0, 2.0, 3.0], device=gpu, requires_grad=True)
    (x**3).sum().backward()
    assert x.grad.tolist() == [3, 12, 27]


def test_second_derivatives(gpu):
    x = torch.tensor([1.0, 2.0, 3.0], device=gpu, requires_grad=True)
    (first,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), x)
    assert second.tolist() == [6, 12, 18]


def test_gradients_of_a_matrix_product_and_a_convolution(gpu):
    a = torch.tensor([[1.0, 2.0], [3.0, 4.0]], device=gpu, requires_grad=True)
    (a @ torch.tensor([[5.0, 6.0], [7.0, 8.0]], device=gpu)).sum().backward()
    assert a.grad.tolist() == [[11, 15], [11, 15]]  # the sums of the rows
    image = torch.ones(1, 1, 3, 3, device=gpu, requires_grad=True)
    torch.nn.functional.conv2d(image, torch.ones(1, 1, 2, 2, device=gpu)).sum().backward()
    # How many of the four places of the kernel a pixel lies under.
    assert image.grad[0, 0].tolist() == [[1, 2, 1], [2, 4, 2], [1, 2, 1]]


def test_training_reaches_the_loss_of_the_closed_form(gpu):
    """y = 2 x + 1 at x = -1, 0, 1, from w = b = 0, learning rate 1/4.

    The loss is 2/3 (w - 2)^2 + (b - 1)^2, so a step leaves 2/3 of the error of w and 1/2 of that of b.
    """
    model = torch.nn.Linear(1, 1).to(gpu)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    x = torch.tensor([[-1.0], [0.0], [1.0]], device=gpu)
    y = 2 * x + 1
    optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses == pytest.approx([8 / 3 * (4 / 9) ** n + (1 / 4) ** n for n in range(20)], rel=1e-3)
    assert losses[-1] < 1e-6
    assert model.weight.item() == pytest.approx(2 * (1 - (2 / 3) ** 20), rel=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_training_in_mixed_precision(gpu, dtype):
    model = torch.nn.Linear(4, 1, bias=False).to(gpu)
    torch.nn.init.zeros_(model.weight)
    x, y = torch.eye(4, device=gpu), torch.full((4, 1), 2.0, device=gpu)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    scaler = torch.amp.GradScaler("cuda", init_scale=1024.0, enabled=dtype is torch.float16)
    for _ in range(8):
        optimizer.zero_grad()
        with torch.autocast("cuda", dtype=dtype):
            found = model(x)
            assert found.dtype is dtype
            loss = torch.nn.functional.mse_loss(found.float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
    # Each step halves the error, so that every value is exact: 2 - 2 / 256.
    assert model.weight.flatten().tolist() == [2 - 2 / 256] * 4
    assert loss.item() == (2 / 128) ** 2


def want_of_compiler() -> str:
    """What torch.compile lacks here; empty where it has all."""
    from torch.utils._triton import has_triton

    if not has_triton():
        return "no Triton for this GPU"
    if not any(map(shutil.which, ("cc", "gcc", "clang", "cl"))):
        return "no C compiler, which Triton needs"
    return ""


def test_a_compiled_function(gpu):
    if reason := want_of_compiler():
        pytest.skip(reason)

    def bent(x):
        return torch.relu(x) * 2 + 1

    compiled = torch.compile(bent, fullgraph=True)
    assert compiled(torch.tensor([-1.0, 0.0, 3.0], device=gpu)).tolist() == [1, 1, 7]
    rows = torch.ones(33, 65, device=gpu)
    assert torch.compile(lambda x: bent(x).sum(dim=1), fullgraph=True)(rows).tolist() == [195] * 33


def test_a_compiled_function_has_gradients(gpu):
    if reason := want_of_compiler():
        pytest.skip(reason)
    x = torch.tensor([1.0, 2.0, 3.0], device=gpu, requires_grad=True)
    torch.compile(lambda x: (x * x * x).sum(), fullgraph=True)(x).backward()
    assert x.grad.tolist() == [3, 12, 27]

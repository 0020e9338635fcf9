"""Arithmetic on the GPU against values worked out by hand; small integers, so that every type is exact."""

from __future__ import annotations

import os

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
A = [[1, 2], [3, 4]]
B = [[5, 6], [7, 8]]
AB = [[19, 22], [43, 50]]
BA = [[23, 34], [31, 46]]
NINE = [[[[0.0, 1.0, 2.0], [3.0, 4.0, 5.0], [6.0, 7.0, 8.0]]]]


@pytest.fixture
def ab(gpu):
    return torch.tensor(A, dtype=torch.float32, device=gpu), torch.tensor(B, dtype=torch.float32, device=gpu)


def same(found: torch.Tensor, expected: object) -> bool:
    assert found.is_cuda
    return torch.equal(found.cpu(), torch.tensor(expected, dtype=found.dtype))


def test_element_wise(ab):
    a, b = ab
    assert same(a + b, [[6, 8], [10, 12]])
    assert same(a - b, [[-4, -4], [-4, -4]])
    assert same(a * b, [[5, 12], [21, 32]])
    assert same(b // a, [[5, 3], [2, 2]])
    assert same(torch.sqrt(a * a), A)
    assert same(torch.where(a > 2, b, a), [[1, 2], [7, 8]])
    assert same(torch.exp(torch.zeros_like(a)), [[1, 1], [1, 1]])


def test_transpose(ab):
    a, b = ab
    assert same(a.t(), [[1, 3], [2, 4]])
    # As an operand it is not contiguous, which is another kernel.
    assert same(a.t() @ b, [[26, 30], [38, 44]])
    assert same(a @ b.t(), [[17, 23], [39, 53]])


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64, torch.complex128], ids=str)
def test_mm(gpu, dtype):
    a, b = torch.tensor(A, dtype=dtype, device=gpu), torch.tensor(B, dtype=dtype, device=gpu)
    assert same(torch.mm(a, b), AB)
    assert same(a @ b, AB)
    assert same(torch.addmm(b, a, b), [[24, 28], [50, 58]])


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_mm_larger_than_a_tile(gpu, dtype):
    a, b = torch.ones(257, 129, dtype=dtype, device=gpu), torch.ones(129, 65, dtype=dtype, device=gpu)
    found = a @ b
    assert found.shape == (257, 65)
    assert (found == 129).all().item()


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_bmm(gpu, dtype):
    a, b = torch.tensor(A, dtype=dtype, device=gpu), torch.tensor(B, dtype=dtype, device=gpu)
    assert same(torch.bmm(torch.stack([a, b]), torch.stack([b, a])), [AB, BA])


def test_dot_and_mv(ab, gpu):
    a, _ = ab
    one, two = torch.tensor([1.0, 2.0, 3.0], device=gpu), torch.tensor([4.0, 5.0, 6.0], device=gpu)
    assert torch.dot(one, two).item() == 32
    assert same(torch.mv(a, torch.ones(2, device=gpu)), [3, 7])


def test_matmul_of_every_rank(ab, gpu):
    a, b = ab
    rows = torch.arange(6, dtype=torch.float32, device=gpu).reshape(2, 3)
    assert same(rows @ torch.tensor([1.0, 10.0, 100.0], device=gpu), [210, 543])
    assert same(torch.matmul(torch.stack([a, b]), b), [AB, [[67, 78], [91, 106]]])


@pytest.mark.parametrize("dtype", [torch.int64, torch.float32, torch.float64], ids=str)
def test_reductions(gpu, dtype):
    numbers = torch.arange(1, 1001, device=gpu).to(dtype)
    assert numbers.sum().item() == 500500
    assert numbers.max().item() == 1000
    assert numbers.flip(0).argmax().item() == 0
    assert numbers.cumsum(0)[-1].item() == 500500


def test_sorting_and_indexing(gpu):
    numbers = torch.tensor([3, 1, 2, 3, 1], device=gpu)
    assert same(numbers.sort().values, [1, 1, 2, 3, 3])
    assert same(numbers.unique(), [1, 2, 3])
    assert same(torch.topk(numbers, 2).values, [3, 3])
    assert same(numbers[torch.tensor([4, 0], device=gpu)], [1, 3])
    assert same(torch.nonzero(numbers == 3).flatten(), [0, 3])
    assert same(torch.bincount(numbers), [0, 2, 1, 2])


def test_fft(gpu):
    pulse = torch.tensor([1.0, 0.0, 0.0, 0.0], device=gpu)
    there = torch.fft.fft(pulse)
    assert torch.allclose(there.cpu(), torch.ones(4, dtype=torch.complex64))
    assert torch.allclose(torch.fft.ifft(there).real, pulse)


def test_linear_algebra(gpu):
    solved = torch.linalg.solve(
        torch.tensor([[2.0, 1.0], [1.0, 3.0]], device=gpu), torch.tensor([5.0, 10.0], device=gpu)
    )
    assert torch.allclose(solved.cpu(), torch.tensor([1.0, 3.0]))
    lower = torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]], device=gpu))
    assert torch.allclose(lower.cpu(), torch.tensor([[2.0, 0.0], [1.0, 2.0]]))
    values = torch.linalg.svdvals(torch.tensor([[3.0, 0.0], [0.0, -2.0]], device=gpu))
    assert torch.allclose(values.cpu(), torch.tensor([3.0, 2.0]))


def test_sparse_times_dense(gpu):
    places = torch.tensor([[0, 1], [1, 0]], device=gpu)
    sparse = torch.sparse_coo_tensor(places, torch.tensor([2.0, 3.0], device=gpu), (2, 2))
    assert same(torch.sparse.mm(sparse, torch.tensor([[1.0], [10.0]], device=gpu)), [[20], [3]])


def test_random_numbers_follow_their_seed(gpu):
    torch.manual_seed(7)
    first = torch.rand(1000, device=gpu)
    torch.manual_seed(7)
    assert torch.equal(first, torch.rand(1000, device=gpu))
    assert 0 <= first.min().item() < first.max().item() < 1


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("layout", ["contiguous", "channels-last"])
def test_conv2d(gpu, dtype, layout):
    # Two channels, 0..8 and its negative, weighted 1 and -1: twice the sums of the four corners.
    plane = torch.tensor(NINE, dtype=dtype, device=gpu)
    image = torch.cat([plane, -plane], dim=1)
    ones = torch.ones(1, 1, 2, 2, dtype=dtype, device=gpu)
    weight = torch.cat([ones, -ones], dim=1)
    if layout == "channels-last":
        image = image.contiguous(memory_format=torch.channels_last)
        weight = weight.contiguous(memory_format=torch.channels_last)
    assert same(F.conv2d(image, weight), [[[[16, 24], [40, 48]]]])


def test_channels_last_is_worked_on(gpu):
    conv = torch.nn.Conv2d(4, 8, 3, padding=1).to(gpu, memory_format=torch.channels_last)
    with torch.no_grad():
        conv.weight.fill_(1)
        conv.bias.zero_()
    image = torch.ones(2, 4, 5, 5, device=gpu).contiguous(memory_format=torch.channels_last)
    found = conv(image)
    # On ROCm the version of PyTorch and the kind of GPU decide on the format, unless the variable does
    # (pytorch/pytorch#63617, #170947).
    if torch.version.hip is None or os.environ.get("PYTORCH_MIOPEN_SUGGEST_NHWC") == "1":
        assert found.is_contiguous(memory_format=torch.channels_last)
    # Inside 3 x 3 x 4 ones, on an edge 2 x 3 x 4, in a corner 2 x 2 x 4.
    assert same(
        found[1, 7].detach(), [[16, 24, 24, 24, 16], *[[24, 36, 36, 36, 24]] * 3, [16, 24, 24, 24, 16]]
    )


def test_conv_transpose2d(gpu):
    image = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]], device=gpu)
    found = F.conv_transpose2d(image, torch.ones(1, 1, 2, 2, device=gpu))
    assert same(found, [[[[1, 3, 2], [4, 10, 6], [3, 7, 4]]]])


def test_pooling_and_normalisation(gpu):
    assert same(F.max_pool2d(torch.tensor(NINE, device=gpu), 2, stride=1), [[[[4, 5], [7, 8]]]])
    # Mean 2 and variance 1.
    found = F.batch_norm(torch.tensor([[1.0], [3.0]], device=gpu), None, None, training=True)
    assert torch.allclose(found.cpu(), torch.tensor([[-1.0], [1.0]]), atol=1e-4)
    assert same(F.softmax(torch.zeros(2, 4, device=gpu), dim=1), [[0.25] * 4] * 2)


def test_a_recurrent_network_adds_up(gpu):
    network = torch.nn.RNN(1, 1, nonlinearity="relu").to(gpu)
    with torch.no_grad():
        for name, weight in network.named_parameters():
            weight.fill_(1 if name.startswith("weight") else 0)
    found, _ = network(torch.tensor([[[1.0]], [[2.0]], [[3.0]]], device=gpu))
    assert found.detach().flatten().tolist() == [1, 3, 6]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32], ids=str)
def test_attention_to_equal_keys_is_the_mean_of_the_values(gpu, dtype):
    query = torch.ones(1, 2, 16, 64, dtype=dtype, device=gpu)
    key = torch.zeros(1, 2, 16, 64, dtype=dtype, device=gpu)
    value = torch.zeros(1, 2, 16, 64, dtype=dtype, device=gpu)
    value[:, :, :8] = 4
    assert torch.allclose(F.scaled_dot_product_attention(query, key, value), torch.full_like(value, 2))

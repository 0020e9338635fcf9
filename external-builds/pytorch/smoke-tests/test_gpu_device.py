"""The GPU is found, is the expected one, and its memory is given and taken back."""

from __future__ import annotations

import gc
import logging

import pytest
import torch

log = logging.getLogger(__name__)
MIB = 1 << 20


def test_gpus_are_listed(target_of):
    assert torch.cuda.is_available()
    count = torch.cuda.device_count()
    assert count > 0
    for index in range(count):
        found = torch.cuda.get_device_properties(index)
        log.info("GPU %d: %s %s, %d MiB", index, target_of(index), found.name, found.total_memory // MIB)
        assert found.total_memory > 0
        assert found.multi_processor_count > 0


def test_the_gpu_is_the_expected_one(expected_target, target_of):
    if not expected_target:
        pytest.skip("SMOKE_TARGET is not set")
    assert target_of(0) == expected_target


def test_torch_is_built_for_gpus():
    assert bool(torch.version.hip) != bool(torch.version.cuda)
    log.info("built for %s", " ".join(torch.cuda.get_arch_list()))
    assert torch.cuda.get_arch_list()


def test_memory_is_given_and_taken_back(gpu):
    gc.collect()
    before = torch.cuda.memory_allocated(gpu)
    block = torch.zeros(16 * MIB, dtype=torch.uint8, device=gpu)
    assert torch.cuda.memory_allocated(gpu) - before == 16 * MIB
    del block
    assert torch.cuda.memory_allocated(gpu) == before
    torch.cuda.empty_cache()
    free, total = torch.cuda.mem_get_info(gpu)
    assert 0 < free <= total


def test_too_large_an_allocation_is_refused_and_the_next_one_works(gpu):
    total = torch.cuda.get_device_properties(gpu).total_memory
    with pytest.raises(torch.cuda.OutOfMemoryError):
        torch.empty(64 * total, dtype=torch.uint8, device=gpu)
    assert torch.ones(1000, device=gpu).sum().item() == 1000


def test_pinned_memory_is_copied_both_ways_while_the_host_goes_on(gpu):
    source = torch.arange(1 << 20, dtype=torch.int32).pin_memory()
    assert source.is_pinned()
    there = source.to(gpu, non_blocking=True)
    back = torch.empty_like(source, pin_memory=True)
    back.copy_(there * 2, non_blocking=True)
    torch.cuda.synchronize()
    assert torch.equal(back, source * 2)


def test_fill_and_copy_on_the_gpu(gpu):
    block = torch.full((3, 5), 7, device=gpu)
    copy = block.clone()
    copy[1] = 0
    assert block.sum().item() == 105
    assert copy.sum().item() == 70


def test_a_copy_between_two_gpus(gpu):
    if torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")
    source = torch.arange(1 << 16, device=gpu)
    copy = source.to("cuda:1")
    assert copy.device.index == 1
    assert copy.sum().item() == 2147450880  # 65535 * 65536 / 2
    assert torch.equal((copy + 1).to(gpu), source + 1)

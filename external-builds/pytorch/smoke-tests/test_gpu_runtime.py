"""Streams, events and graphs."""

from __future__ import annotations

import torch


def test_a_stream_waits_for_the_event_of_another(gpu):
    first, second = torch.cuda.Stream(gpu), torch.cuda.Stream(gpu)
    ready = torch.cuda.Event()
    numbers = torch.ones(1 << 20, device=gpu)
    first.wait_stream(torch.cuda.current_stream(gpu))
    with torch.cuda.stream(first):
        for _ in range(20):
            numbers += 1
        ready.record(first)
    second.wait_event(ready)
    with torch.cuda.stream(second):
        total = numbers.sum()
    second.synchronize()
    assert total.item() == 21 * (1 << 20)


def test_streams_are_told_apart(gpu):
    side = torch.cuda.Stream(gpu)
    assert torch.cuda.current_stream(gpu) != side
    with torch.cuda.stream(side):
        assert torch.cuda.current_stream(gpu) == side
    assert torch.cuda.current_stream(gpu) != side


def test_events_tell_when_work_is_done_and_how_long_it_took(gpu):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    matrix = torch.ones(512, 512, device=gpu)
    begin.record()
    for _ in range(10):
        matrix = matrix @ matrix / 512
    end.record()
    end.synchronize()
    assert begin.query()
    assert end.query()
    assert begin.elapsed_time(end) > 0
    assert (matrix == 1).all().item()


def test_a_graph_is_captured_and_replayed_with_other_values(gpu):
    given = torch.zeros(4, device=gpu)
    side = torch.cuda.Stream(gpu)
    side.wait_stream(torch.cuda.current_stream(gpu))
    with torch.cuda.stream(side):  # allocations of the first run are none of the graph's
        given * 2 + 1
    torch.cuda.current_stream(gpu).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        result = given * 2 + 1
    for values, expected in (([1.0, 2.0, 3.0, 4.0], [3.0, 5.0, 7.0, 9.0]), ([0.0] * 4, [1.0] * 4)):
        given.copy_(torch.tensor(values))
        graph.replay()
        torch.cuda.synchronize()
        assert result.tolist() == expected


def test_a_graph_with_a_matrix_product(gpu):
    a, b = torch.eye(64, device=gpu), torch.full((64, 64), 3.0, device=gpu)
    side = torch.cuda.Stream(gpu)
    side.wait_stream(torch.cuda.current_stream(gpu))
    with torch.cuda.stream(side):  # the library makes its workspace in the first call
        a @ b
    torch.cuda.current_stream(gpu).wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        product = a @ b
    a.mul_(2)
    graph.replay()
    torch.cuda.synchronize()
    assert (product == 6).all().item()

"""GPU faults, with a stand-in for torch: what a worker does when the device stops answering."""

import pytest

from unit.gputest.test_isolate_faults import isolated, verdicts

# Stands in for torch: a device that a file (`dead`) or a test (`poison`) takes away.
TORCH = """
import os

class cuda:
    sick = False

    @staticmethod
    def is_initialized():
        return True

    @staticmethod
    def is_available():
        return True

    @staticmethod
    def synchronize():
        if cuda.sick or os.path.exists("dead-" + os.environ.get("DEVICE", "0")):
            raise RuntimeError("HIP error: unspecified launch failure")

class ones:
    def __init__(self, *given, **named): pass
    def __add__(self, other): return self
    def sum(self): return self
    def item(self): return 16
"""


def with_torch(tmp_path, sources, **fields):
    """Run files with the stand-in, which is found as an installed torch is."""
    return isolated(tmp_path, sources, env={"PYTHONPATH": str(tmp_path / "suite")}, **fields)


USES = "import torch\n\n"


@pytest.mark.slow
def test_a_worker_whose_gpu_faulted_is_replaced_after_the_failure(tmp_path):
    source = (
        USES
        + """
def test_1(): pass
def test_2():
    torch.cuda.sick = True
    assert False
def test_3():
    assert not torch.cuda.sick
"""
    )
    done = with_torch(tmp_path, {"torch.py": TORCH, "test_a.py": source})
    assert verdicts(done) == {"test_1": "passed", "test_2": "failed", "test_3": "passed"}
    assert done.worker_starts == 2
    assert done.complete
    assert done.notes == ()


@pytest.mark.slow
def test_a_device_that_fails_a_fresh_worker_too_is_left_to_nobody(tmp_path):
    source = (
        USES
        + """
def test_1():
    open("dead-0", "w")
    assert False
def test_2(): pass
"""
    )
    done = with_torch(
        tmp_path, {"torch.py": TORCH, "test_a.py": source, "test_b.py": source}, workers=({"DEVICE": "0"},)
    )
    fault = "GPU fault: DEVICE=0: HIP error: unspecified launch failure"
    assert [(case.id, case.verdict, case.message) for case in done.results] == [
        ("test_a.py::test_1", "failed", "assert False"),
        ("test_a.py::test_2", "error", fault),
        ("test_b.py", "error", fault),
    ]
    assert not done.complete
    assert done.notes == (fault,)


@pytest.mark.slow
def test_another_device_takes_over_what_a_faulty_one_leaves(tmp_path):
    tests = "".join(f"def test_{number}(): time.sleep(0.05)\n" for number in range(2, 12))
    source = (
        USES
        + f"""
def test_1():
    time.sleep(1)
    open("dead-0", "w")
    assert False
{tests}"""
    )
    only_one_fails = source.replace("assert False", "assert os.environ['DEVICE'] == '1'")
    done = with_torch(
        tmp_path,
        {
            "torch.py": TORCH,
            "test_a.py": only_one_fails,
        },
        workers=({"DEVICE": "0"}, {"DEVICE": "1"}),
    )
    assert len(done.results) == 11
    assert {case.verdict for case in done.results[1:]} == {"passed"}
    if done.results[0].verdict == "failed":
        assert done.notes == ("GPU fault: DEVICE=0: HIP error: unspecified launch failure",)


def test_a_worker_that_crashed_on_its_device_is_replaced_by_one_that_asks_it_first(tmp_path):
    source = (
        USES
        + """
def test_1(): pass
def test_2():
    open("dead-0", "w").close()
    os._exit(3)
def test_3(): pass
"""
    )
    done = with_torch(tmp_path, {"torch.py": TORCH, "test_a.py": source}, workers=({"DEVICE": "0"},))
    fault = "GPU fault: DEVICE=0: HIP error: unspecified launch failure"
    assert verdicts(done) == {"test_1": "passed", "test_2": "crashed", "test_3": "error"}
    assert done.results[2].message == fault
    assert done.notes == (fault,)

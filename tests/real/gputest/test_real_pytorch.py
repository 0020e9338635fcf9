"""PyTorch's own tests on a real torch: each verdict is that of plain pytest, whatever happens beside it."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import pytest

from real.gputest import faults

# 493 tests: views, shapes and DLPack whole; of autograd one that fails here, since it compiles an extension
# against headers that are not there, and one that PyTorch itself expects to fail.
FILES = (
    "test_view_ops.py",
    "test_shape_ops.py",
    "test_dlpack.py",
    "test_autograd.py::TestAutograd::test_multi_grad_all_hooks",
    "test_autograd.py::TestAutograd::test_naughty_anomaly_access",
)
COUNTED = {"passed": 462, "skipped": 29, "failed": 1, "xfailed": 1}


@pytest.fixture(scope="module")
def plain(desk):
    """What plain pytest says: verdicts by node id, read from its own JUnit file by hand."""
    desk.root.joinpath("plain").mkdir()
    desk.newcomer.own(desk.root / "plain")
    junit = desk.root / "plain" / "junit.xml"
    done = desk.pytest(*FILES, f"--junit-xml={junit}")
    assert done.returncode == 1, done.stdout[-3000:]
    found = {}
    for case in ElementTree.parse(junit).iter("testcase"):
        # PyTorch's pytest.ini stands above the directory of its tests.
        _, file, *classes = case.get("classname").split(".")
        name = "::".join([f"{file}.py", *classes, case.get("name")])
        outcome = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        if outcome is None:
            verdict = "passed"
        elif outcome.tag == "skipped":
            verdict = "xfailed" if outcome.get("type") == "pytest.xfail" else "skipped"
        else:
            verdict = {"failure": "failed", "error": "error"}[outcome.tag]
        assert name not in found
        found[name] = verdict
    assert {verdict: list(found.values()).count(verdict) for verdict in found.values()} == COUNTED
    return found


@pytest.fixture(scope="module")
def whole(desk):
    """The same through `rocwright test units`, in two workers."""
    words = [word for file in FILES for word in ("--suite-files", file)]
    return desk.units(*words, "--workers", "2")


def test_every_verdict_is_that_of_plain_pytest(plain, whole):
    assert whole.verdicts == plain
    assert whole.done.returncode == 1
    assert whole.record.get("complete", True) and whole.record["worker_starts"] == 2
    assert whole.record["ran"]["torch"] == "2.6.0+debian"


def test_a_failure_keeps_what_pytorch_said_of_it(whole):
    failed = whole.result("::test_multi_grad_all_hooks")
    assert failed["message"].startswith("RuntimeError: Error building extension")
    assert "torch/extension.h" in failed["detail"], "the compiler's own words"


def test_faults_inside_a_real_file_cost_one_test_each(plain, desk):
    """Of PyTorch's own classes, made for each device: their other tests come out as they do without them."""
    text = (desk.tests / "test_shape_ops.py").read_text()
    head = "class TestShapeOps(TestCase):\n"
    assert text.count(head) == 1
    chosen = {one.name: one for one in faults.FAULTS if one.name in ("segfault", "os_exit")}
    # By name one comes before all other tests, one between them.
    bodies = {"test_a_segfault": chosen["segfault"].body, "test_flip_os_exit": chosen["os_exit"].body}
    added = "".join(f"    def {name}(self, device):\n        {body}\n\n" for name, body in bodies.items())
    file = desk.tests / "test_shape_ops_with_faults.py"
    file.write_text("import os\nimport numpy\n" + text.replace(head, head + added))
    ran = desk.units("--suite-files", file.name)
    lost = {f"{file.name}::TestShapeOpsCPU::{name}_cpu": "crashed" for name in bodies}
    usual = {
        name.replace("test_shape_ops.py", file.name): verdict
        for name, verdict in plain.items()
        if name.startswith("test_shape_ops.py")
    }
    assert len(usual) == 95
    assert ran.verdicts == usual | lost
    assert ran.record["worker_starts"] == 3
    assert "in test_a_segfault" in ran.result("::test_a_segfault_cpu")["detail"], "where it was"

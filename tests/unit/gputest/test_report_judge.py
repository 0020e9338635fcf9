"""Runs, causes and verdicts: silence is never a pass, and one cause is one group."""

from __future__ import annotations

import pytest
from gputest_reporting import TABLE, case, report

from rocwright.gputest.report.judge import judge, normalised, shard_state, signature, variant_free
from rocwright.gputest.report.values import Expected, Judged, Report
from rocwright.model.testing import CaseResult, Ran

CUT = "b.xml: it breaks off"
PROGRAM = "subprocess.CalledProcessError: Command '[PosixPath('{}')]' {}."
SEGV = """Fatal Python error: Segmentation fault

Thread 0x00007adf2ede06c0 (most recent call first):
  <no Python frame>

Current thread 0x{thread} (most recent call first):
  File "/__w/_tool/{python}/x64/lib/{python}/site-packages/torch/nn/functional.py", line {line} in conv2d
  File "/__w/pytorch/test/test_nn.py", line 12 in test_a

Extension modules: numpy (total: 1)"""


def judged(
    *found: Report, expected: list[Expected] | None = None, previous: list[Report] | None = None
) -> Judged:
    return judge(expected, found, previous, table=TABLE)


@pytest.mark.parametrize(
    ("given", "state", "why"),
    [
        (report(case("a")), "passed", ""),
        (report(case("a"), case("b", "flaky", "x")), "passed", "1 flaky"),
        (report(case("a", "xfailed")), "passed", ""),
        (report(case("a"), case("b", "failed", "x")), "failed", "1 of 2 tests failed"),
        (report(case("a"), complete=False), "failed", "it was stopped before its end"),
        (report(), "failed", "no test ran"),
        (report(case("a", "skipped"), case("b", "skipped")), "failed", "no test ran; 2 were skipped"),
        (Report("x", Ran(""), empty=True), "no report", "there is no file of results"),
        (Report("x", Ran(""), (case("a"),), problems=(CUT,)), "no report", CUT),
        (
            Report("x", Ran(""), (case("a", "failed"),), problems=(CUT,)),
            "no report",
            "b.xml: it breaks off; what can be read of it has 1 failed",
        ),
    ],
)  # fmt: skip
def test_a_run_passed_only_where_a_whole_report_shows_it(given: Report, state: str, why: str) -> None:
    found = shard_state(given)
    assert (found.state, found.why) == (state, why)


def test_nothing_at_all_is_no_report_and_no_pass() -> None:
    assert judged().state == "no report"
    assert judged(expected=[Expected("units-default-gfx942-1of1")]).state == "no report"


def test_shards_that_are_counted_and_missing_are_said_for_each_python() -> None:
    found = judged(
        report(case("a"), name="py312", shard=1, shards=2, python="3.12"),
        report(case("a"), name="x-2of2", shard=2, shards=2, python="3.12"),
        report(case("a"), name="py313-1of2", shard=1, shards=2, python="3.13"),
    )
    assert [(one.name, one.state) for one in found.shards if one.state != "passed"] == [
        ("py313-2of2", "no report")
    ]


def test_an_expected_run_is_known_by_its_id_or_by_all_that_is_known_of_it() -> None:
    one = report(case("a"), shard=2, shards=6)
    for wanted in (
        Expected("units-default-gfx942-2of6"),
        Expected("other", config="default", shard=2, shards=6),
        Expected("other", suite="units", config="default", target="gfx942", shard=2),
    ):
        assert judged(one, expected=[wanted]).state == "passed", wanted
    for wanted in (
        Expected("units-default-gfx942-3of6"),
        Expected("other", config="default", shard=2, shards=5),
        Expected("other", config="default", target="gfx1151", shard=2, shards=6),
        Expected("other", config="default"),
    ):
        found = judged(one, expected=[wanted])
        assert found.state == "no report", wanted
        assert [state.expected for state in found.shards if state.ran] == [False]


def test_one_signal_in_rocminfo_over_twenty_jobs_is_one_group() -> None:
    # ROCm/TheRock#5779: five Pythons, four branches, several runners; one cause.
    test = "rocm_sdk/tests/core_test.py::ROCmCoreTest::testConsoleScripts"
    found = judged(
        *(
            report(
                case(
                    test,
                    "error",
                    PROGRAM.format(
                        f"/__w/{runner}/.venv/lib/python3.{minor}/site-packages/_rocm_sdk_core/bin/rocminfo",
                        "died with <Signals.SIGSEGV: 11>",
                    ),
                ),
                name=f"gfx1151-{minor}-{torch}",
                target="gfx1151",
                python=f"3.{minor}",
                torch=torch,
            )
            for minor in range(10, 15)
            for runner, torch in enumerate(("2.9", "2.10", "2.12", "2.13"))
        )
    )
    [group] = found.groups
    assert (len(group.cases), len(group.shards), group.tests) == (20, 20, (test,))
    assert "rocminfo" in group.signature and "SIGSEGV" in group.signature


def test_one_exit_status_of_amd_smi_over_the_matrix_is_one_group_and_another_program_is_another() -> None:
    # ROCm/TheRock#2860 and #2207: the same test, another program with another status.
    def ended(place: str, program: str, status: int) -> CaseResult:
        message = PROGRAM.format(f"{place}/bin/{program}", f"returned non-zero exit status {status}")
        return case("rocm_sdk/tests/core_test.py::T::testConsoleScripts", "error", message)

    jobs = [
        (target, python) for target in ("gfx1151", "gfx950", "gfx1201") for python in ("3.11", "3.12", "3.13")
    ]
    smi = [
        report(ended(f"/w/{number}/.venv", "amd-smi", 1), name=f"a{number}", target=target, python=python)
        for number, (target, python) in enumerate(jobs)
    ]
    info = report(ended("/w/x/.venv", "rocminfo", 8), name="b", target="gfx1100")
    found = judged(*smi, info)
    assert [(len(group.cases), group.signature.split("/")[1][:8]) for group in found.groups] == [
        (9, "amd-smi'"),
        (1, "rocminfo"),
    ]


def test_seven_jobs_with_two_programs_that_fail_in_one_test_are_one_cause() -> None:
    # ROCm/TheRock#2354: amd-smi and rocminfo are parts of one test; a report of it has one result.
    test = "rocm_sdk/tests/core_test.py::ROCmCoreTest::testConsoleScripts"
    message = PROGRAM.format("/w/{}/bin/amd-smi", "returned non-zero exit status 255")
    found = judged(
        *(
            report(case(test, "error", message.format(job)), name=f"job{job}", target="gfx1201")
            for job in range(7)
        )
    )
    assert [(len(group.cases), len(group.shards)) for group in found.groups] == [(7, 7)]


def test_memory_of_the_machine_no_device_and_true_failures_are_three_groups() -> None:
    # ROCm/TheRock#5047, #2805: sorted by hand there.
    killed = [
        "ended by SIGKILL (Killed)",
        "Process completed with exit code 137",
        "ended by SIGKILL (Killed)",
    ]
    absent = ["RuntimeError: No HIP GPUs are available", "HIP error: no ROCm-capable device is detected"]
    crashes = [
        SEGV.format(thread=f"00007ae25cc28b8{n}", python=f"python3.{n + 11}", line=400 + n) for n in range(3)
    ]
    found = judged(
        *(report(case(f"test_a.py::t{n}", "crashed", text), name=f"k{n}") for n, text in enumerate(killed)),
        *(report(case(f"test_b.py::t{n}", "error", text), name=f"d{n}") for n, text in enumerate(absent)),
        *(
            report(
                case(f"test_c.py::t{n}", "crashed", "ended by SIGSEGV (Segmentation fault)", detail=text),
                name=f"c{n}",
            )
            for n, text in enumerate(crashes)
        ),
    )
    assert [(group.finding, group.infra, len(group.cases)) for group in found.groups] == [
        ("NEW", "", 3),
        ("INFRA", "out of memory of the machine", 3),
        ("INFRA", "no device", 2),
    ]
    assert (
        found.groups[0].signature
        == "crashed: ended by SIGSEGV (Segmentation fault) in torch/nn/functional.py conv2d"
    )


def test_a_gpu_fault_is_found_in_what_a_dying_process_printed_but_not_in_what_a_test_printed() -> None:
    printed = "HW Exception by GPU node-1 (Agent handle: 0x58) reason :GPU Hang\nFatal Python error: Aborted"
    died = case("test_nn.py::a", "crashed", "ended by SIGABRT (Aborted)", detail=printed)
    assert signature(died, TABLE).infra == "GPU fault"
    failed = case("test_nn.py::a", "failed", "AssertionError: 1 != 2", detail=printed)
    assert signature(failed, TABLE).infra == ""


def test_out_of_memory_of_the_gpu_is_one_cause_in_all_tests_and_none_of_the_machine() -> None:
    # ROCm/TheRock#2118.
    text = (
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate {} MiB. GPU 0 has a total capacity of "
        "{} GiB of which {} GiB is free."
    )
    results = [
        case(f"test_autograd.py::T::test_{n}_cuda", "failed", text.format(n + 2.0, 23.41, 21 + n))
        for n in range(3)
    ]
    [group] = judged(report(*results)).groups
    assert (group.finding, len(group.tests)) == ("NEW", 3)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("RuntimeError: at 0x7f01aa in pid 4242", "RuntimeError: at 0x7fff00 in pid 17"),
        ("OSError: /tmp/pytest-of-a/x1/f.so: bad", "OSError: /tmp/tmpabc123/g.so: bad"),
        ("E: C:\\Users\\a\\AppData\\Local\\Temp\\x1\\f.dll bad", "E: D:\\b\\Temp\\y\\g.dll bad"),
        ("RuntimeError: bad on cuda:0", "RuntimeError: bad on cuda:3"),
        ("E: [GPU 2] 2026-11-22T12:00:01.123Z down", "E: [GPU 11] 2026-01-02 03:04:05 down"),
        ("ValueError: shape [2, 3, 4] is bad", "ValueError: shape [8, 1] is bad"),
        ("E: job 123e4567-e89b-12d3-a456-426614174000", "E: job 00000000-e89b-12d3-a456-42661417aaaa"),
        ("E: file.py:12: bad, line 14", "E: file.py:4: bad, line 99"),
        ("E: no kernel for gfx942:sramecc+:xnack-", "E: no kernel for gfx1151"),
        ("E: 2.00 MiB of 23.41 GiB, 1.2e-05", "E: 512.5 KiB of 1 GB, 3"),
        ("\x1b[31mE: bad\x1b[0m", "E:  bad"),
    ],
)
def test_what_differs_from_run_to_run_is_no_part_of_a_signature(one: str, other: str) -> None:
    assert normalised(one) == normalised(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Command '/a/rocminfo' failed", "Command '/a/amd-smi' failed"),
        ("returned non-zero exit status 1", "returned non-zero exit status 8"),
        ("died with <Signals.SIGSEGV: 11>", "died with <Signals.SIGABRT: 6>"),
        ("HIP error: invalid device function", "HIP error: out of memory"),
        ("expected float16 but got float32", "expected float16 but got float64"),
        ("error code -5", "error code 5"),
    ],
)
def test_what_tells_causes_apart_stays(one: str, other: str) -> None:
    assert normalised(one) != normalised(other)


def test_a_failed_assertion_is_told_apart_by_the_test_not_by_data_types() -> None:
    text = "AssertionError: Tensor-likes are not close!"
    found = judged(
        report(
            case("test_nn.py::TestNNDeviceTypeCUDA::test_add_cuda_float16", "failed", text),
            case("test_nn.py::TestNNDeviceTypeCUDA::test_add_cuda_bfloat16", "failed", text),
            case("test_nn.py::TestNNDeviceTypeCUDA::test_mul_cuda_float16", "failed", text),
        )
    )
    assert [len(group.cases) for group in found.groups] == [2, 1]
    assert variant_free("test_a.py::TestX::test_int8", TABLE) == "test_a.py::TestX::test_int8"


def test_verdicts_against_the_set_before() -> None:
    before = report(
        case("t.py::same", "failed", "E: one"),
        case("t.py::other", "failed", "E: one"),
        case("t.py::fixed", "crashed", "ended by SIGSEGV"),
        case("t.py::gone", "failed", "E: one"),
        case("t.py::machine", "failed", "RuntimeError: No HIP GPUs are available"),
        case("t.py::skipped", "failed", "E: one"),
    )
    now = report(
        case("t.py::same", "failed", "E: one"),
        # It fails in another way now: something else broke.
        case("t.py::other", "failed", "E: two"),
        case("t.py::fixed"),
        # The machine was at fault then; whether the test works was not known.
        case("t.py::machine", "failed", "E: three"),
        case("t.py::skipped", "skipped"),
        case("t.py::entry", "failed", "E: four", entry="known-1"),
        case("t.py::unexpected", "xpassed", "[XPASS(strict)]", entry="known-2"),
        case("t.py::flaky", "flaky", "E: five"),
        python="3.13",
    )
    found = judge(None, [now], [before], table=TABLE, issues={"known-1": "https://example.org/1"})
    verdicts = {one.test[6:]: one.finding for group in found.groups for one in group.cases}
    assert verdicts == {
        "same": "KNOWN",
        "other": "NEW",
        "machine": "NEW",
        "entry": "KNOWN",
        "unexpected": "NEW",
        "flaky": "FLAKY",
    }
    assert [one.test for one in found.fixed] == ["t.py::fixed"]
    assert [group.issues for group in found.groups if group.issues] == [("https://example.org/1",)]


def test_another_gpu_that_failed_before_makes_nothing_known_and_a_shard_that_still_fails_fixes_nothing() -> (
    None
):
    bad = case("t.py::a", "failed", "E: one")
    found = judged(report(bad, target="gfx1151"), previous=[report(bad)])
    assert found.groups[0].finding == "NEW"
    # Python 3.12 passes, 3.13 still fails.
    two = [report(case("t.py::a"), name="a", python="3.12"), report(bad, name="b", python="3.13")]
    assert judged(*two, previous=[report(bad)]).fixed == ()


def test_hangs_of_two_files_below_a_temporary_directory_are_two_causes() -> None:
    def hang(file: str, root: str) -> CaseResult:
        stack = (
            f'Current thread 0x7f01 (most recent call first):\n  File "{root}/{file}", line 7 in test_wait\n'
        )
        return case(f"{file}::test_wait", "hung", "did not end within 5 s", detail=stack)

    one, other = "test_a.py", "sub/test_b.py"
    found = judged(
        report(hang(one, "/tmp/x1/checkout/test"), hang(other, "/tmp/x1/checkout/test"), name="first"),
        report(hang(one, "/var/tmp/y2/test"), hang(other, "C:\\Users\\u\\AppData\\Temp\\z"), name="second"),
    )
    assert sorted((group.tests, len(group.cases)) for group in found.groups) == [
        (("sub/test_b.py::test_wait",), 2),
        (("test_a.py::test_wait",), 2),
    ]

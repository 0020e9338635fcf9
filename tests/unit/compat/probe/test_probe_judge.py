"""Claims against answers made by hand: a torch with ROCm on a GPU, without one, and a torch for CUDA."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import msgspec
import pytest

from rocwright.cli.compat.probe import show_probe
from rocwright.compat.probe.judge import judge
from rocwright.compat.probe.page import html_page, verdict
from rocwright.compat.probe.values import Exercised, HeldLibrary, Probe, Step
from unit.compat.probe.probe_answers import KERNELS, LIB, MAPPED, TABLE, answers, exercised

LINKED = {"hipBLAS", "hipFFT", "hipRAND", "hipSOLVER", "hipSPARSE", "MIOpen", "RCCL"}
UNREACHED = {"hipTensor", "MIGraphX", "MIVisionX", "rocAL", "rocDecode", "rocJPEG", "RPP", "rocWMMA"}


def libraries(report: Probe) -> dict[str, tuple[str, str]]:
    return {row.name: (row.found, row.outcome) for row in report.libraries}


def test_on_a_gpu_a_library_works_where_it_is_mapped_and_its_functions_work() -> None:
    report = judge(answers(), TABLE)
    assert libraries(report) == {
        **dict.fromkeys(LINKED | {"hipBLASLt"}, ("works", "as claimed")),
        # Templates: a kernel of rocPRIM ran, which is what hipCUB is on ROCm, none of the other two.
        "hipCUB": ("works", "as claimed"),
        "rocThrust": ("not seen", "open"),
        "Composable Kernel": ("not seen", "open"),
        "hipSPARSELt": ("not in this process", "open"),
        **dict.fromkeys(UNREACHED, ("not reached by torch", "as claimed")),
    }
    assert report.failed == ()
    rows = {row.name: row for row in report.libraries}
    assert (rows["hipBLAS"].since, rows["hipBLAS"].files) == ("import", (f"{LIB}/libhipblas.so.3",))
    # Loaded when it was needed.
    assert rows["hipBLASLt"].since == "blaslt"
    assert rows["hipCUB"].kernels == (KERNELS[0],)


def test_what_torch_needs_is_said_by_its_own_files() -> None:
    held = (
        HeldLibrary("lib/libtorch_hip.so", 1, needed=("libhipblas.so.3", "libhipblaslt.so.1", "libc.so.6")),
        HeldLibrary("lib/libtorch_cpu.so", 1, needed=("libc.so.6",)),
    )
    rows = {row.name: row for row in judge(answers(), TABLE, held).libraries}
    assert rows["hipBLAS"].needed_by == rows["hipBLASLt"].needed_by == ("lib/libtorch_hip.so",)
    assert rows["hipFFT"].needed_by == ()


def test_templates_are_compiled_in_where_torch_holds_their_names() -> None:
    held = (HeldLibrary("lib/libtorch_hip.so", 1, marks=("rocThrust", "rocWMMA")),)
    found = libraries(judge(answers(), TABLE, held))
    assert found["rocThrust"] == ("compiled in", "as claimed")
    assert found["rocWMMA"] == ("compiled in", "more"), "nobody says that torch uses it"
    # Kernels say more than names do, and nothing less.
    assert found["hipCUB"] == ("works", "as claimed")
    assert found["Composable Kernel"] == ("not seen", "open")
    assert libraries(judge(answers(device="cpu"), TABLE, held))["rocThrust"] == ("compiled in", "open")


@pytest.mark.parametrize(
    ("changed", "why"),
    [
        (
            exercised("call:fft", steps=(Step("fft", "failed", "RuntimeError: rocFFT error"), Step("rfft2"))),
            "fft fails: fft: RuntimeError: rocFFT error",
        ),
        (
            exercised(
                "call:fft",
                state="crashed",
                step="rfft2",
                error="the process ended by signal SIGSEGV",
                steps=(),
            ),
            "fft crashes: in rfft2: the process ended by signal SIGSEGV",
        ),
        (
            exercised("call:fft", state="hung", step="fft", error="not done after 120 seconds", steps=()),
            "fft hangs: in fft: not done after 120 seconds",
        ),
        (
            exercised("call:fft", state="not run", steps=()),
            "fft not run: the process could not be started again",
        ),
    ],
)
def test_a_library_whose_functions_fail_is_less_than_claimed(changed: Exercised, why: str) -> None:
    report = judge(answers(changed), TABLE)
    (row,) = (row for row in report.libraries if row.name == "hipFFT")
    assert (row.found, row.outcome, row.detail) == ("fails", "less", why)
    assert report.failed == ("hipFFT",)


def test_a_profiler_that_is_lost_says_nothing_about_the_functions() -> None:
    lost = exercised("call:fft", state="crashed", step="kernels", error="the process ended by signal SIGSEGV")
    report = judge(answers(lost), TABLE)
    assert libraries(report)["hipFFT"] == ("works", "as claimed")
    assert report.failed == ()
    assert [one.id for one in report.lost] == ["call:fft"], "it is told all the same"


def test_a_library_that_is_claimed_and_not_mapped() -> None:
    without = msgspec.structs.replace(answers(), mapped=tuple(one for one in MAPPED if "rccl" not in one))
    report = judge(without, TABLE)
    assert libraries(report)["RCCL"] == ("not in this process", "less")
    assert report.failed == ("RCCL",)


def test_a_library_that_nobody_expects_is_more_than_claimed() -> None:
    more = msgspec.structs.replace(answers(), mapped=(*MAPPED, f"{LIB}/libhiptensor.so.0.1"))
    report = judge(more, TABLE)
    assert libraries(report)["hipTensor"] == ("mapped", "more")
    assert report.failed == ()


def test_without_a_gpu_what_is_mapped_is_all_that_can_be_said() -> None:
    found = libraries(judge(answers(device="cpu"), TABLE))
    assert found["hipBLAS"] == ("mapped", "open")
    assert found["hipCUB"] == found["rocThrust"] == ("not seen", "open")
    assert found["MIGraphX"] == ("not reached by torch", "as claimed")


@pytest.mark.parametrize("cuda", ["13.0", ""])
def test_a_torch_without_rocm_is_not_said_to_reach_any_of_its_libraries(cuda: str) -> None:
    wrong = exercised("call:fft", steps=(Step("fft", "failed", "RuntimeError: cuFFT error"),))
    report = judge(answers(wrong, hip="", cuda=cuda), TABLE)
    assert set(libraries(report).values()) == {("not a ROCm torch", "not claimed")}
    assert {row.claim for row in report.libraries} == {""}
    assert report.failed == ()
    # Its functions are told nevertheless.
    assert {row.name: row.found for row in report.calls}["fft"] == "fails"


def test_a_flag_that_makes_a_difference() -> None:
    name = "flag:torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction"

    def found(*steps: Step) -> tuple[str, str, dict[str, str]]:
        (row,) = (
            row for row in judge(answers(exercised(name, steps=steps)), TABLE).flags if row.name in name
        )
        return row.found, row.value, row.off

    read, write = Step("readable", value="True"), Step("settable", value="False, True")
    off = {"False": "0.01", "True": "0.5"}
    differ = Step("differs", value={"differ": True, "off": off})
    assert found(read, write, differ) == ("works", "True", off)
    same = Step("differs", value={"differ": False, "off": off})
    assert found(read, write, same) == ("no difference", "True", off)
    assert found(read, Step("settable", "failed", "RuntimeError: no")) == ("not settable", "True", {})
    assert found(read, write, Step("differs", "skipped", "no GPU")) == ("not compared", "True", {})


class _Page(HTMLParser):
    """Addresses that a page names, and its words."""

    def __init__(self) -> None:
        super().__init__()
        self.named: list[str] = []
        self.tags: set[str] = set()
        self.words: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.named += [value or "" for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.words.append(data.strip())


def test_the_page_holds_every_row_and_asks_nobody() -> None:
    bad = exercised(
        "dtype:float16",
        state="crashed",
        step="matmul",
        error="<b>gone</b>",
        output="<script>alert(1)</script>",
    )
    text = html_page(judge(answers(bad), TABLE, (HeldLibrary("lib/libtorch_hip.so", 5, problem="<i>"),)))
    page = _Page()
    page.feed(text)
    assert page.named == ["data:,"]
    assert not page.tags & {"script", "b ", "i", "img"}
    assert "<script>alert(1)</script>" in page.words
    gpu = "AMD Instinct MI300X (gfx942:sramecc+:xnack-)"
    assert f"✗ Less than claimed: torch.float16; ROCm 7.1.0, on {gpu}" in page.words
    for row in (*TABLE.dtype, *TABLE.library, *TABLE.exercise, *TABLE.flag):
        assert any(row.name in word for word in page.words), row.name


@pytest.mark.parametrize(
    ("told", "headline"),
    [
        (
            {},
            "✓ Nothing is less than claimed: ROCm 7.1.0, on AMD Instinct MI300X (gfx942:sramecc+:xnack-); "
            "3 of 42 claims could not be shown",
        ),
        (
            {"device": "cpu"},
            "? Not tried on a GPU: ROCm 7.1.0, on the CPU; this shows only that its libraries are present",
        ),
        (
            {"hip": "", "device": "cpu"},
            "? Not a ROCm torch: CPU only, on the CPU; it says nothing about what is claimed for PyTorch on "
            "ROCm",
        ),
        (
            {"hip": "", "cuda": "13.0"},
            "? Not a ROCm torch: CUDA 13.0, on AMD Instinct MI300X (gfx942:sramecc+:xnack-); "
            "it says nothing about what is claimed for PyTorch on ROCm",
        ),
    ],
)
def test_the_headline_says_which_torch_was_tried_on_what(told: dict[str, str], headline: str) -> None:
    report = judge(answers(**told), TABLE)  # type: ignore[arg-type]
    assert verdict(report)[1] == headline
    assert headline in html_page(report)


def test_libraries_of_rocm_are_not_listed_for_another_torch() -> None:
    text = html_page(judge(answers(hip="", device="cpu"), TABLE))
    assert "none of the 20 libraries that PyTorch on ROCm uses is expected in it" in text
    assert "libraries as claimed" not in text and "MIGraphX" not in text


@pytest.mark.parametrize(
    ("name", "failing", "shown"),
    [
        ("float8_e4m3fn", ("elementwise", "matmul"), ("in part", "")),
        # More is not claimed of it.
        ("uint16", ("elementwise", "matmul"), ("in part", "as claimed")),
        ("complex32", ("matmul",), ("works", "as claimed")),
    ],
)
def test_a_type_that_torch_does_not_compute_with_works_in_part(
    name: str, failing: tuple[str, ...], shown: tuple[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("create", "to device", "to host", "convert", "elementwise", "matmul")
    steps = tuple(
        Step(one, "failed", f"RuntimeError: no {one}") if one in failing else Step(one) for one in words
    )
    report = judge(answers(exercised(f"dtype:{name}", steps=steps)), TABLE)
    # Its JSON says what it needs to work, and that it does.
    assert [row.found for row in report.dtypes if row.name == name] == ["works"]
    show_probe(report)
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith(f"{name} "))
    assert re.split("  +", line)[2:] == [*filter(None, shown), f"not {', '.join(failing)}"]
    (row,) = re.findall(rf"<tr><td><code>{name}\b.*?</tr>", html_page(report))
    found = re.sub("<[^>]+>", "|", row)
    assert ("~ in part" in found, "✓ works" in found) == ("in part" in shown, "works" in shown)
    assert found.count("✗") == len(failing) and f"{failing[0]}: RuntimeError: no {failing[0]}" in found

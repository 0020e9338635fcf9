"""The page of a report in a real browser: light and dark, small screens, the keyboard, the picture of it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from real.browser import MOST_BYTES, asked, barriers, chromium
from rocwright.cli import main
from rocwright.gputest.record import write_record
from rocwright.gputest.report.values import Report
from rocwright.model.sets import new_set, set_id
from rocwright.model.testing import CaseResult, Ran, RunRecord
from rocwright.pipeline.tested import keep_reports
from rocwright.store.objects.local import LocalStore
from rocwright.store.pool import describe_files
from rocwright.store.sets.stage import record_set
from wheels import write_wheel

# Where `make screenshots` wants the picture of the documentation.
PICTURES = os.environ.get("ROCWRIGHT_PICTURES")
NIGHTS = 14
ANY = "py3-none-any"
CRASH = """Fatal Python error: Segmentation fault

Current thread 0x00007f2b6c8a1740 (most recent call first):
  File "/venv/lib/python3.12/site-packages/torch/nn/functional.py", line 3021 in conv2d
  File "/pytorch/test/test_nn.py", line 88 in test_Conv2d_depthwise
"""
FILES = {
    1: ("test_nn.py",),
    2: ("test_torch.py",),
    3: ("test_unary_ufuncs.py", "test_binary_ufuncs.py"),
    4: ("test_autograd.py", "test_cuda.py"),
}


@dataclass(frozen=True)
class Made:
    """A page of a made-up matrix, and its file."""

    path: Path

    @property
    def url(self) -> str:
        return self.path.as_uri()


def results(night: int, target: str, shard: int) -> Iterator[CaseResult]:
    """What a shard showed one night: mostly passes, a few causes that come and go."""
    for at, file in enumerate(FILES[shard]):
        for number in range(200):
            seconds = round(0.2 + (number * 7 + at * 3 + night) % 11 / 5 + night * 0.01, 3)
            name = f"{file}::TestOps::test_op{number:03}"
            yield CaseResult(name, "skipped" if number % 17 == 0 else "passed", seconds)
    if shard == 1 and (night in (4, 5) or night == NIGHTS - 1):
        for kind in ("float16", "bfloat16"):
            test = f"test_nn.py::TestNNDeviceTypeCUDA::test_Conv2d_depthwise_cuda_{kind}"
            yield CaseResult(test, "crashed", 12.0, "ended by SIGSEGV (Segmentation fault)", CRASH)
    if shard == 2 and target == "gfx1151" and night > 8:
        for number in range(6):
            message = f"torch.OutOfMemoryError: HIP out of memory. Tried to allocate {number + 2}.00 GiB."
            test = f"test_torch.py::TestTorchDeviceTypeCUDA::test_large_{number}_cuda"
            fixed = night == NIGHTS - 1 and number > 3
            yield CaseResult(test, "passed" if fixed else "failed", 1.5, "" if fixed else message)
    if shard == 4:
        message = "RuntimeError: HIP error: operation not permitted when stream is capturing"
        yield CaseResult("test_cuda.py::TestCuda::test_graph", "flaky", 4.0, message, attempts=2)
        if target == "gfx1201" and night == NIGHTS - 1:
            yield CaseResult("test_cuda.py", "error", 1.0, "RuntimeError: No HIP GPUs are available")


def records(night: int, version: str) -> Iterator[RunRecord]:
    for target in ("gfx942", "gfx1151", "gfx1201"):
        for shard in FILES:
            if night == NIGHTS - 1 and (target, shard) == ("gfx1201", 3):
                continue
            ran = Ran("units", target=target, torch=version, python="3.12", shard=shard, shards=4)
            found = tuple(results(night, target, shard))
            yield RunRecord(ran, found, seconds=sum(one.seconds for one in found))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """Fourteen nights in a store, and the report of the last one by the command."""
    root = tmp_path_factory.mktemp("report")
    store = LocalStore(root / "store")
    for night in range(NIGHTS):
        now = datetime(2026, 11, 8, 3, tzinfo=timezone.utc) + timedelta(days=night)
        version = f"2.10.0+rocm7.11.0a{now:%Y%m%d}"
        wheel = write_wheel(root / f"n{night}", "torch", version, {"torch/__init__.py": ""}, tag=ANY)
        manifest = new_set(
            family="gfx-all",
            targets=("gfx942", "gfx1151", "gfx1201"),
            platform="linux",
            files=describe_files([wheel]),
            sources={},
        )
        record_set(store, manifest, {wheel.name: wheel}, (), now)
        if night < NIGHTS - 1:
            found = (
                Report(one.ran.key, one.ran, one.results, one.seconds) for one in records(night, version)
            )
            keep_reports(store, set_id(manifest), found)
    folder = root / "reports"
    for record in records(NIGHTS - 1, version):
        write_record(record, folder / record.ran.key)
    page = root / "report.html"
    words = ["--reports-dir", str(folder), "--html", str(page), "--store", str(root / "store")]
    words += ["--set", set_id(manifest), "--suite", "units", "--pytorch-git-ref", "release/2.10"]
    words += ["--title", f"Tests of torch {version}"]
    words += ["--package-index-url", "https://packages.example.org/rocm/v2-staging/gfx-all/"]
    with pytest.raises(SystemExit) as ended:
        main(["test", "report", *words])
    assert not ended.value.code
    return Made(page)


@pytest.fixture
def browser() -> Iterator[webdriver.Chrome]:
    with chromium(1200, 1250) as found:
        yield found


def test_the_page_says_what_happened_and_asks_nobody(browser: webdriver.Chrome, made: Made) -> None:
    browser.get(made.url)
    assert browser.get_log("browser") == []
    assert asked(browser) == {made.url}
    assert made.path.stat().st_size <= MOST_BYTES
    assert barriers(browser) == []
    tiles = [tile.text.split("\n") for tile in browser.find_elements(By.CSS_SELECTOR, "ul.tiles li")]
    assert dict(reversed(tile) for tile in tiles) == {
        "runs passed": "6 / 12",
        "tests": "3,216",
        "new failures": "6",
        "known failures": "4",
        "failures of machines": "1",
        "flaky": "3",
        "fixed": "2",
        "skipped": "192",
    }
    summaries = [one.text for one in browser.find_elements(By.CSS_SELECTOR, "details.group summary")]
    assert summaries[0] == (
        "NEW crashed: ended by SIGSEGV (Segmentation fault) in torch/nn/functional.py conv2d "
        "6 failures, 2 tests, 3 runs"
    )


def test_everything_opens_with_the_keyboard(browser: webdriver.Chrome, made: Made) -> None:
    browser.get(made.url)
    group = browser.find_element(By.CSS_SELECTOR, "details.group")
    group.find_element(By.TAG_NAME, "summary").send_keys(Keys.ENTER)
    assert "line 3021 in conv2d" in group.find_element(By.TAG_NAME, "pre").text
    assert len(group.find_elements(By.TAG_NAME, "li")) == 6
    # What scrolls can be reached.
    regions = browser.find_elements(By.CSS_SELECTOR, "[tabindex]")
    assert regions and all(region.accessible_name for region in regions if region.is_displayed())


def test_plots_say_their_numbers_in_words(browser: webdriver.Chrome, made: Made) -> None:
    browser.get(made.url)
    plots = browser.find_elements(By.CSS_SELECTOR, "figure svg")
    assert [plot.accessible_name.split(":")[0] for plot in plots] == ["Tests that passed", "Time of all runs"]
    assert all(plot.accessible_name.endswith(f"over {NIGHTS} sets") for plot in plots)
    # Each label stands inside of its plot, and none on another.
    for plot in plots:
        box = plot.rect
        texts = [text.rect for text in plot.find_elements(By.TAG_NAME, "text") if text.text]
        low = box["y"] + box["height"] * 0.8
        below = sorted((one["x"], one["x"] + one["width"]) for one in texts if one["y"] > low)
        assert all(left >= box["x"] - 1 and right <= box["x"] + box["width"] + 1 for left, right in below)
        assert all(one[1] < other[0] for one, other in pairwise(below))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def test_text_has_contrast_in_light_and_dark(browser: webdriver.Chrome, made: Made) -> None:
    browser.get(made.url)
    for scheme in ("light", "dark"):
        emulated = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", emulated)
        names = ["page", "text", "quiet", "block", "accent", "good", "bad", "warn", "info"]
        colours = browser.execute_script(
            "const s = getComputedStyle(document.documentElement);"
            "return Object.fromEntries(arguments[0].map(n => [n, s.getPropertyValue('--' + n).trim()]))",
            names,
        )
        for front in ("text", "quiet", "accent", "good", "bad", "warn", "info"):
            low, high = sorted((luminance(colours[front]), luminance(colours["page"])))
            # WCAG 2.2 AA asks for 4.5.
            assert (high + 0.05) / (low + 0.05) >= 4.5, (scheme, front)


def test_nothing_is_cut_off_on_a_screen_of_320_pixels(browser: webdriver.Chrome, made: Made) -> None:
    metrics = {"width": 320, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(made.url)
    for summary in browser.find_elements(By.CSS_SELECTOR, "summary"):
        browser.execute_script("arguments[0].parentElement.open = true", summary)
    assert browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]") == [320, 320]


def test_the_picture_in_the_documentation_is_of_this_page(
    browser: webdriver.Chrome, made: Made, tmp_path: Path
) -> None:
    browser.get(made.url)
    picture = Path(PICTURES or tmp_path) / "test-report.png"
    assert browser.save_screenshot(str(picture))
    assert 10_000 < picture.stat().st_size < 300_000

"""The page of a probe in a real browser: it asks nobody and fits small screens."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from real.browser import MOST_BYTES, asked, barriers, chromium
from rocwright.compat.probe.judge import judge
from rocwright.compat.probe.page import html_page
from rocwright.compat.probe.values import HeldLibrary, Step
from unit.compat.probe.probe_answers import TABLE, answers, exercised


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A made-up torch on ROCm: one library fails, and one data type crashes."""
    changed = (
        exercised(
            "dtype:complex32", state="crashed", step="matmul", error="the process ended by signal SIGSEGV"
        ),
        exercised(
            "call:linalg",
            steps=(
                Step("solve"),
                Step("eig", "failed", "RuntimeError: MAGMA was not compiled in" + "_" * 300),
            ),
        ),
    )
    held = (HeldLibrary("lib/libtorch_hip.so", 812_000_000, ("libhipblas.so.3",), ("gfx942",), "inside"),)
    path = tmp_path_factory.mktemp("probe") / "probe.html"
    path.write_text(html_page(judge(answers(*changed), TABLE, held)), encoding="utf-8")
    assert path.stat().st_size <= MOST_BYTES
    return path.as_uri()


@pytest.fixture
def browser() -> Iterator[webdriver.Chrome]:
    with chromium(1200, 1250) as found:
        yield found


def test_the_page_says_what_is_less_than_claimed_and_asks_nobody(
    browser: webdriver.Chrome, page: str
) -> None:
    browser.get(page)
    assert browser.get_log("browser") == []
    assert asked(browser) == {page}
    assert barriers(browser) == []
    state = browser.find_element(By.CSS_SELECTOR, "p.state").text
    gpu = "AMD Instinct MI300X (gfx942:sramecc+:xnack-)"
    assert state == f"✗ Less than claimed: torch.complex32, hipSOLVER; ROCm 7.1.0, on {gpu}"
    tiles = [tile.text.split("\n") for tile in browser.find_elements(By.CSS_SELECTOR, "ul.tiles li")]
    assert dict(reversed(tile) for tile in tiles) == {
        "data types work": "21 / 22",
        "data types in part": "0",
        "libraries as claimed": "16 / 20",
        "groups of functions work": "14 / 15",
        "less than claimed": "2",
        "processes lost": "0",
    }
    regions = browser.find_elements(By.CSS_SELECTOR, "[tabindex]")
    assert regions and all(region.accessible_name for region in regions)


def test_nothing_is_cut_off_on_a_screen_of_320_pixels(browser: webdriver.Chrome, page: str) -> None:
    metrics = {"width": 320, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(page)
    for summary in browser.find_elements(By.CSS_SELECTOR, "summary"):
        browser.execute_script("arguments[0].parentElement.open = true", summary)
    assert browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]") == [320, 320]

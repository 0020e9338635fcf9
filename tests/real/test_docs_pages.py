"""Pages of the documentation in a real browser: anybody can use them, nothing is cut off, and a picture."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from real.browser import MOST_BYTES, asked, barriers, chromium

ROOT = Path(__file__).resolve().parents[2]
# Where `make screenshots` wants the picture of the documentation.
PICTURES = os.environ.get("ROCWRIGHT_PICTURES")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The documentation, just built."""
    out = tmp_path_factory.mktemp("site")
    command = [
        sys.executable,
        "-m",
        "sphinx",
        "-W",
        "-q",
        "-b",
        "html",
        "-d",
        out / "trees",
        ROOT / "docs",
        out,
    ]
    subprocess.run(command, check=True)
    return out


@pytest.fixture
def page(site: Path) -> str:
    """The address of the page of what is supported."""
    return (site / "reference" / "compatibility.html").as_uri()


@pytest.fixture
def browser() -> Iterator[webdriver.Chrome]:
    with chromium(1400, 1300) as found:
        yield found


@pytest.mark.parametrize("name", ["index", "reference/compatibility"])
def test_a_page_asks_nobody_is_light_and_keeps_nobody_out(browser, site: Path, name: str) -> None:
    browser.get((site / f"{name}.html").as_uri())
    files = [Path(url2pathname(urlsplit(url).path)) for url in asked(browser)]
    assert len(files) > 5 and all(site in file.parents for file in files)
    assert sum(file.stat().st_size for file in files) <= MOST_BYTES
    assert barriers(browser) == []


def test_on_a_phone_the_first_page_is_as_wide_as_the_screen(browser, site: Path) -> None:
    metrics = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get((site / "index.html").as_uri())
    assert browser.execute_script("return document.documentElement.scrollWidth") == 400
    assert barriers(browser) == []


def test_no_table_is_cut_off_on_a_desk(browser, page: str) -> None:
    browser.get(page)
    cut = browser.execute_script(
        "return [...document.querySelectorAll('.table-wrapper')]"
        ".filter(box => box.scrollWidth > box.clientWidth + 1).map(box => box.innerText.slice(0, 40))"
    )
    assert cut == []


def test_the_page_shows_every_row(browser, page: str) -> None:
    browser.get(page)
    rows = {
        name: len(browser.find_elements(By.CSS_SELECTOR, f"#{name} table tbody tr"))
        for name in ("key-rocm-libraries-for-pytorch", "where-sources-contradict-each-other")
    }
    # Three places in which sources disagree, with three, two and two statements.
    assert rows == {"key-rocm-libraries-for-pytorch": 20, "where-sources-contradict-each-other": 5}


def test_the_picture_in_the_documentation_is_of_this_page(browser, page: str, tmp_path: Path) -> None:
    browser.set_window_size(1320, 900)
    browser.get(page)
    browser.execute_script(
        "document.documentElement.style.scrollBehavior = 'auto';"
        "document.getElementById('features-by-gpu-version-and-platform').scrollIntoView()"
    )
    picture = Path(PICTURES or tmp_path) / "compatibility.png"
    assert browser.save_screenshot(str(picture))
    assert 10_000 < picture.stat().st_size < 300_000

"""The compatibility page of the documentation in a real browser: nothing is cut off, and its picture."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By

from real.browser import chromium

ROOT = Path(__file__).resolve().parents[3]
# Where `make screenshots` wants the picture of the documentation.
PICTURES = os.environ.get("ROCWRIGHT_PICTURES")


@pytest.fixture(scope="module")
def page(tmp_path_factory) -> str:
    """The address of the page in documentation that was just built."""
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
    return (out / "reference" / "compatibility.html").as_uri()


@pytest.fixture
def browser() -> Iterator[webdriver.Chrome]:
    with chromium(1400, 1300) as found:
        yield found


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

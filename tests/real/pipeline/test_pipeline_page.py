"""The page of a run in a real browser: what it says and draws, whom it asks, small screens, its picture."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from real.browser import MOST_BYTES, asked, barriers, chromium
from rocwright.cli import main
from rocwright.cli.pipeline.options import PlaceOptions, PlanOptions
from rocwright.model.plan import Cell, Plan
from rocwright.pipeline.records import CellOutput, Record, record_plan, write_record
from rocwright.store.objects.local import LocalStore

# Where `make screenshots` wants the picture of the documentation.
PICTURES = os.environ.get("ROCWRIGHT_PICTURES")
HOME = "https://packages.example.org/"
GATE = {"promote": True, "rule": "bypassed", "reason": "every suite passed, or is lifted until 2026-12-31"}


def told(cell: Cell, number: int) -> Record:
    """A made-up record of a cell that is done."""
    kind = "python" if cell.kind == "upload-rocm" else "pytorch"
    prefix = f"4711-{cell.platform}/{kind}/{cell.group}/"
    values: dict[str, object] = {
        "gate": {"decision": GATE},
        "upload-rocm": {"prefix": prefix, "find_links": f"{HOME}{prefix}index.html"},
        "upload-pytorch": {"prefix": prefix, "find_links": f"{HOME}{prefix}index.html"},
    }
    value = msgspec.Raw(msgspec.json.encode(values.get(cell.kind, {})))
    chance = random.Random(number)
    seconds = round(chance.uniform(2, 20) * (60 if cell.kind == "build-torch" else 1), 1)
    output = CellOutput(f"dist/{cell.kind}", "key", "0" * 64, chance.randrange(1 << 20, 1 << 29))
    return Record(1, cell.id, "1" * 64, "done", value, (output,), cell.kind, seconds, f"node{number % 3}")


def made(root: Path, options: PlanOptions, done: float) -> tuple[Plan, Path]:
    """A run in a store, of which the first part is done, and its page by the command."""
    plan = options.plan(PlaceOptions(run_id="4711"))
    store = LocalStore(root / "store")
    record_plan(store, plan)
    for number, cell in enumerate(plan.cells[: round(len(plan.cells) * done)]):
        if not cell.skip:
            write_record(store, "4711", told(cell, number))
    page = root / "run.html"
    with pytest.raises(SystemExit) as ended:
        main(["pipeline", "show", "--store", str(root / "store"), "--run-id", "4711", "--html", str(page)])
    assert not ended.value.code
    return plan, page


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path]:
    """A run of CI that is done."""
    return made(tmp_path_factory.mktemp("whole"), PlanOptions(profile="ci", sources="miniature"), 1)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> tuple[Plan, Path]:
    """The release matrix of one Python, at work."""
    few: dict[str, tuple[str, ...]] = {"python_versions": ("3.12",), "pytorch_git_refs": ("release/2.13",)}
    options = PlanOptions(profile="release", grouping="family", **few)
    return made(tmp_path_factory.mktemp("many"), options, 0.7)


@pytest.fixture
def browser() -> Iterator[webdriver.Chrome]:
    with chromium(1560, 1150) as found:
        yield found


def test_the_page_says_how_the_run_stands_and_asks_nobody(
    browser: webdriver.Chrome, whole: tuple[Plan, Path]
) -> None:
    plan, page = whole
    browser.get(page.as_uri())
    assert browser.get_log("browser") == []
    assert asked(browser) == {page.as_uri()}
    tiles = dict(
        reversed(tile.text.split("\n")) for tile in browser.find_elements(By.CSS_SELECTOR, "ul.tiles li")
    )
    left = sum(bool(cell.skip) for cell in plan.cells)
    assert (tiles["done"], tiles["failed"]) == (str(len(plan.cells) - left), "0")
    assert browser.find_element(By.CSS_SELECTOR, "header .state").text == "✓ Everything is done"
    assert "stand-ins under the real names" in browser.find_element(By.TAG_NAME, "header").text
    rows = browser.find_elements(By.CSS_SELECTOR, "tbody tr td:first-child code")
    assert {row.text for row in rows} >= {cell.id for cell in plan.cells}


@pytest.mark.parametrize("which", ["whole", "many"])
def test_every_text_of_the_picture_stands_in_its_box_and_no_box_on_another(
    browser: webdriver.Chrome, which: str, request: pytest.FixtureRequest
) -> None:
    _, page = request.getfixturevalue(which)
    browser.get(page.as_uri())
    found = browser.execute_script(
        "return [...document.querySelectorAll('svg.jobs g.box')].map(g => {"
        "const at = e => { const r = e.getBoundingClientRect(); return [r.left, r.top, r.right, r.bottom] };"
        "return [g.querySelector('title').textContent, at(g.querySelector('rect')),"
        "[...g.querySelectorAll('text')].filter(t => t.textContent).map(at)] })"
    )
    assert 5 < len(found) <= 40
    for title, box, texts in found:
        for text in texts:
            assert box[0] < text[0] and text[2] < box[2], title
            assert box[1] < text[1] and text[3] < box[3], title
    for at, (title, one, _) in enumerate(found):
        for other, two, _ in found[:at]:
            apart = one[2] <= two[0] or two[2] <= one[0] or one[3] <= two[1] or two[3] <= one[1]
            assert apart, (title, other)


@pytest.mark.parametrize("which", ["whole", "many"])
def test_the_picture_is_not_cut_off_on_a_screen_of_1280_pixels(
    browser: webdriver.Chrome, which: str, request: pytest.FixtureRequest
) -> None:
    metrics = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(request.getfixturevalue(which)[1].as_uri())
    wide, seen = browser.execute_script(
        "const at = document.querySelector('.picture'); return [at.scrollWidth, at.clientWidth]"
    )
    assert wide <= seen


def test_a_large_run_is_folded_and_opens_with_the_keyboard(
    browser: webdriver.Chrome, many: tuple[Plan, Path]
) -> None:
    plan, page = many
    assert len(plan.cells) > 300 and page.stat().st_size <= MOST_BYTES
    browser.get(page.as_uri())
    family = browser.find_element(By.CSS_SELECTOR, "details.family")
    assert not family.find_element(By.TAG_NAME, "table").is_displayed()
    family.find_element(By.TAG_NAME, "summary").send_keys(Keys.ENTER)
    heads = family.find_elements(By.CSS_SELECTOR, "thead th")
    assert {"build-torch", "test-pytorch", "promote"} <= {head.text.replace("\n", "") for head in heads}
    marks = {cell.text for cell in family.find_elements(By.CSS_SELECTOR, "tbody td")}
    assert marks <= {"✓", "…", "–", ""} and "✓" in marks


@pytest.mark.parametrize("which", ["whole", "many"])
def test_nothing_keeps_anybody_from_using_the_page(
    browser: webdriver.Chrome, which: str, request: pytest.FixtureRequest
) -> None:
    browser.get(request.getfixturevalue(which)[1].as_uri())
    assert barriers(browser) == []


def test_nothing_is_cut_off_on_a_screen_of_320_pixels(
    browser: webdriver.Chrome, whole: tuple[Plan, Path]
) -> None:
    metrics = {"width": 320, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(whole[1].as_uri())
    assert browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]") == [320, 320]
    # What scrolls can be reached, and has a name.
    regions = browser.find_elements(By.CSS_SELECTOR, "[tabindex]")
    assert len(regions) >= 3 and all(region.accessible_name for region in regions)


def test_the_picture_in_the_documentation_is_of_this_page(
    browser: webdriver.Chrome, whole: tuple[Plan, Path], tmp_path: Path
) -> None:
    browser.get(whole[1].as_uri())
    picture = Path(PICTURES or tmp_path) / "pipeline-run.png"
    assert browser.save_screenshot(str(picture))
    assert 10_000 < picture.stat().st_size < 400_000

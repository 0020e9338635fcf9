"""The page of a run: a release of ten thousand steps, what failed first, folds, lines of the picture."""

from __future__ import annotations

import random
import re
from html.parser import HTMLParser

import msgspec
import pytest
from told import cell, plan, record

from rocwright.model.plan import Plan
from rocwright.pipeline.records import Record
from rocwright.pipeline.tell.jobs import boxes, picture
from rocwright.pipeline.tell.page import run_page
from rocwright.pipeline.tell.state import run_state

BUILDS = "build-torch build-torchaudio build-torchvision split check upload-pytorch test-pip stage"
KINDS = (*BUILDS.split(), "gate", "promote")
REFS = ("release/2.11", "release/2.12", "release/2.13", "release/2.14", "release/2.15", "nightly")
PYTHONS = ("3.10", "3.11", "3.12", "3.13", "3.14")
OPEN = {"decision": {"promote": True, "rule": "passed", "reason": "all suites passed"}}


def id_of(kind: str, platform: str, group: int, python: str, ref: str) -> str:
    return f"{kind}/{platform}/cp{python.replace('.', '')}/{ref.replace('/', '-')}/gfx{group}"


@pytest.fixture(scope="module")
def release() -> tuple[Plan, dict[str, Record]]:
    """10,800 steps, all of them done."""
    cells = []
    for platform in ("linux", "windows"):
        for group in range(18):
            for python in PYTHONS:
                for ref in REFS:
                    place = {"platform": platform, "group": f"gfx{group}", "python": python, "ref": ref}
                    needs = ""
                    for kind in KINDS:
                        id_ = id_of(kind, platform, group, python, ref)
                        made = cell(kind, kind if kind in ("gate", "promote") else "build", place, needs)
                        cells.append(msgspec.structs.replace(made, id=id_))
                        needs = id_
    return plan(tuple(cells)), {one.id: record(one.id, OPEN, size=1000) for one in cells}


def failed(records: dict[str, Record], why: str, *place: object) -> None:
    """A build of torch failed, and nothing after it was done."""
    for kind in KINDS:
        del records[id_of(kind, *place)]  # type: ignore[arg-type]
    id_ = id_of("build-torch", *place)  # type: ignore[arg-type]
    records[id_] = record(id_, state="failed", why=why)


class Folds(HTMLParser):
    """The words of each fold's line, how deep it is, and whether it is open."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[tuple[int, bool, str]] = []
        self.stack: list[bool] = []
        self.words: list[str] | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "details":
            self.stack.append(any(name == "open" for name, _ in attrs))
        elif tag == "summary":
            self.words = []

    def handle_endtag(self, tag: str) -> None:
        if tag == "summary" and self.words is not None:
            self.found.append((len(self.stack), self.stack[-1], " ".join("".join(self.words).split())))
            self.words = None
        elif tag == "details":
            self.stack.pop()

    def handle_data(self, data: str) -> None:
        if self.words is not None:
            self.words.append(data)


def test_a_release_of_ten_thousand_steps_is_a_page_of_less_than_300_kb(
    release: tuple[Plan, dict[str, Record]],
) -> None:
    whole, records = release
    assert len(whole.cells) == 10_800
    for there in (records, {}):
        page = run_page(whole, run_state(whole, there))
        assert len(page.encode()) < 300_000
    # No two rows of marks alike.
    chance = random.Random(1)
    some = {id_: one for id_, one in records.items() if chance.random() < 0.5}
    assert len(run_page(whole, run_state(whole, some, set(list(records)[::3]))).encode()) < 300_000
    # Nothing alike at all, which no release is: each step that failed did so in its own way, at length.
    words = "".join(chr(ord("a") + number % 26) + " " for number in range(3000))
    bad = {
        one.id: record(one.id, state="failed", why=f"{one.id} {words}")
        for one in whole.cells
        if one.kind == "build-torch"
    }
    assert len(run_page(whole, run_state(whole, bad)).encode()) < 300_000


def test_steps_are_folded_by_platform_and_family_and_the_worst_stand_first(
    release: tuple[Plan, dict[str, Record]],
) -> None:
    whole, records = release[0], dict(release[1])
    failed(records, "no memory", "linux", 5, "3.12", "nightly")
    folds = Folds(run_page(whole, run_state(whole, records))).found
    assert folds[0] == (1, True, "linux ✗ 1 failed ⊘ 9 blocked ✓ 5,390 done 1 h 29 min")
    assert folds[1] == (2, False, "gfx5 ✗ 1 failed ⊘ 9 blocked ✓ 290 done 4 min 51 s")
    assert folds[2] == (2, False, "gfx0 ✓ 300 done 5 min 00 s")
    assert folds[19] == (1, True, "windows ✓ 5,400 done 1 h 30 min")
    assert len(folds) == 2 * 19


def test_each_step_of_a_family_has_a_mark_and_equal_rows_are_one(
    release: tuple[Plan, dict[str, Record]],
) -> None:
    whole, records = release[0], dict(release[1])
    for python in ("3.12", "3.13"):
        failed(records, "no memory", "linux", 5, python, "nightly")
    page = run_page(whole, run_state(whole, records))
    (marks,) = re.findall(
        r"<b>gfx5</b>.*?\n<tbody>\n(.*?)</tbody>", page.partition("<b>windows</b>")[0], re.DOTALL
    )
    rows = [
        (re.sub("<br>", "; ", name), "".join(re.findall(r"<td[^>]*>(.*?)</td>", row)))
        for name, row in re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', marks)
    ]
    assert rows == [
        ("3.12, 3.13: nightly", "✗⊘⊘⊘⊘⊘⊘⊘⊘⊘"),
        ("3.10, 3.11, 3.14: all; 3.12, 3.13: all but nightly", "✓✓✓✓✓✓✓✓✓✓"),
    ]


def test_what_failed_alike_is_one_cause_and_says_what_waits_for_it(
    release: tuple[Plan, dict[str, Record]],
) -> None:
    whole, records = release[0], dict(release[1])
    failed(records, "a syntax error", "windows", 1, "3.12", "nightly")
    failed(records, "no memory: 61 GiB of 64 GiB are used", "linux", 2, "3.12", "nightly")
    failed(records, "no memory: 63 GiB of 64 GiB are used", "linux", 3, "3.10", "release/2.11")
    page = run_page(whole, run_state(whole, records))
    assert "✗ Steps failed: 3 failed of 10,800 steps, 27 blocked</p>" in page
    assert "<h2>What failed (3, 2 causes)</h2>" in page
    heads = [re.sub("<[^>]+>", "", head) for head in re.findall("<h3>(.*?)</h3>", page)]
    assert heads == [
        "build-torch 2 steps, 18 steps wait for it",
        "build-torch/windows/cp312/nightly/gfx1 9 steps wait for it",
    ]
    assert re.findall("<h2>(.*?)<", page)[:2] == ["What failed (3, 2 causes)", "Jobs"]
    for place in (("linux", 2, "3.12", "nightly"), ("linux", 3, "3.10", "release/2.11")):
        assert f"<li><code>{id_of('build-torch', *place)}</code></li>" in page


def test_gates_that_decided_alike_are_one_row_and_closed_ones_stand_first(
    release: tuple[Plan, dict[str, Record]],
) -> None:
    whole, records = release[0], dict(release[1])
    closed = id_of("gate", "windows", 17, "3.14", "nightly")
    said = {"decision": {"promote": False, "rule": "untested", "reason": "no result for gfx17"}}
    records[closed] = record(closed, said)
    page = run_page(whole, run_state(whole, records)).partition("<h2>The gate</h2>")[2]
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in re.findall("<tr>(.*?)</tr>", page)][1:3]
    assert rows[0] == ["✗ closed", "1", "untested", "no result for gfx17", f"<code>{closed}</code>"]
    assert rows[1][:4] == ["✓ open", "1,079", "passed", "all suites passed"]
    assert rows[1][4].endswith("and 1,076 more")


def test_a_page_of_packages_stands_once_however_many_steps_name_it() -> None:
    url = "https://packages.example.org/4711-linux/pytorch/gfx9/index.html"
    places = [
        {"platform": "linux", "group": "gfx9", "python": python, "ref": "nightly"} for python in PYTHONS
    ]
    cells = tuple(
        msgspec.structs.replace(cell("upload-pytorch", "build", place), id=f"u{place['python']}")
        for place in places
    )
    page = run_page(
        plan(cells), run_state(plan(cells), {one.id: record(one.id, {"find_links": url}) for one in cells})
    )
    assert page.count(f'href="{url}"') == 1
    assert "<td>linux</td><td>gfx9</td><td>PyTorch</td><td>this run</td>" in page


def test_a_line_to_a_later_layer_goes_beside_the_boxes_between() -> None:
    kinds = (("a", ""), ("b", "a"), ("c", "b"), ("d", "c"), ("e", "a"), ("f", "d e"))
    many = plan(tuple(cell(name, f"job_{name}", needs=needs) for name, needs in kinds))
    svg = picture(boxes(many, {one.id: one for one in run_state(many, {}).cells}))
    at = [
        (int(x), int(x) + int(wide)) for x, wide in re.findall(r'<rect x="(\d+)" y="\S+" width="(\d+)"', svg)
    ]
    # From e in the second layer to f in the fifth.
    (far,) = re.findall(r'd="M[^"]* (\d+) \d+ V', svg)
    assert len(at) == 6 and not any(left <= int(far) <= right for left, right in at)


def test_more_steps_than_a_page_holds_are_counted() -> None:
    cells = tuple(
        msgspec.structs.replace(
            cell("check", "build", {"platform": "linux", "group": f"gfx{at % 7}"}), id=f"c{at}"
        )
        for at in range(12_005)
    )
    many = plan(cells)
    page = run_page(many, run_state(many, {"c3": record("c3")}))
    assert len(page.encode()) < 300_000
    assert "12,005 more: <code>rocwright pipeline show --json</code>" in page
    assert (2, False, "gfx3 … 1,714 waiting ✓ 1 done 1 s") in Folds(page).found

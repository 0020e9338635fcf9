"""What the tests of pages rely on: a page that some people cannot use is found out."""

from __future__ import annotations

from pathlib import Path

from real.browser import asked, barriers, chromium

PAGE = """<!DOCTYPE html>
<html lang="en"><head><title>A page</title><style>
p.pale { color: #999; background: #fff }
@media (prefers-color-scheme: dark) { p.deep { color: #333; background: #000 } }
a.bare:focus { outline: none }
</style></head><body><main>
<h1>One</h1><h3>Three</h3>
<p class="pale">pale</p><p class="deep">deep</p>
<details><summary>more</summary><img src="data:,"></details>
<input id="nameless">
<a class="bare" href="#one">unseen</a>
<p><label><input type="radio" name="a" style="opacity:0">drawn by its label</label></p>
<div tabindex="0" onkeydown="if (event.key === 'Tab') event.preventDefault()"><p>a trap</p></div>
<a href="#two">never met</a>
</main></body></html>
"""


def test_each_fault_of_a_page_is_found_and_named(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(PAGE, encoding="utf-8")
    with chromium(800, 600) as browser:
        browser.get(page.as_uri())
        found = barriers(browser)
        assert asked(browser) == {page.as_uri()}
    named = {": ".join(line.split(": ")[:2]) for line in found}
    assert named == {
        "light: color-contrast",
        "dark: color-contrast",
        *("light: heading-order", "dark: heading-order"),
        *("light: image-alt", "dark: image-alt"),
        *("light: label", "dark: label"),
        'keyboard: focus is not seen on <a class="bare" href="#one">unseen</a>',
        'keyboard: focus is not seen on <input type="radio" name="a" style="opacity:0">',
        'keyboard: Tab does not come to <a href="#two">never met</a>',
    }
    assert any(line.startswith("dark: color-contrast: .deep") for line in found)
    assert not any(line.startswith("light: color-contrast: .deep") for line in found)

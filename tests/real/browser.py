"""A real Chromium without a screen, for the tests that look at pages as people do."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.keys import Keys

# What a page may weigh, with all that it loads, for a whole release.
MOST_BYTES = 300_000


@contextmanager
def chromium(width: int, height: int, *, scripts: bool = True) -> Iterator[webdriver.Chrome]:
    """The browser with a window of this size in pixels; it keeps a log of what pages ask for."""
    program, driver = shutil.which("chromium"), shutil.which("chromedriver")
    assert program and driver, "install chromium and chromium-driver (Debian)"
    options = webdriver.ChromeOptions()
    options.binary_location = program
    for word in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "hide-scrollbars"):
        options.add_argument(f"--{word}")
    options.add_argument(f"--window-size={width},{height}")
    if not scripts:
        options.add_experimental_option("prefs", {"profile.managed_default_content_settings.javascript": 2})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        yield browser
    finally:
        browser.quit()


def asked(browser: webdriver.Chrome) -> set[str]:
    """Every address that the page asked for."""
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    found = {
        one["params"]["request"]["url"] for one in events if one["method"] == "Network.requestWillBeSent"
    }
    return {url for url in found if not url.startswith(("data:", "chrome:"))}


_AXE = Path(__file__).with_name("axe")
# Those for the size of what fingers meet are off until asked for.
_JUDGE = """
const done = arguments[arguments.length - 1];
const rules = { "target-size": { enabled: true } };
axe.run(document, { preload: false, resultTypes: ["violations"], rules })
  .then(found => done(found.violations.flatMap(rule =>
    rule.nodes.map(node => `${rule.id}: ${node.target}: ${node.failureSummary || rule.help}`))))
  .catch(error => done([`axe-core failed: ${error}`]));
"""
# What the Tab key must come to: one of the radio buttons of a group is enough.
_STOPS = """
const kinds = "a[href], button, input, select, textarea, summary, [tabindex]:not([tabindex='-1'])";
const groups = new Set();
window.stops = [...document.querySelectorAll(kinds)].filter(one => {
  if (one.matches(":disabled") || !one.checkVisibility({ visibilityProperty: true })) return false;
  if (one.type !== "radio") return one.type !== "hidden" && one.tabIndex >= 0;
  const first = !groups.has(one.name);
  groups.add(one.name);
  return first;
});
window.met = [];
const group = one => one.type === "radio" ? one.name : one;
document.addEventListener("focusin", event => {
  const around = [event.target, event.target.closest("label")].filter(Boolean);
  const seen = around.some(one =>
    one.checkVisibility({ opacityProperty: true }) && getComputedStyle(one).outlineStyle !== "none");
  window.met.push([group(event.target), seen]);
});
window.unmet = () => {
  const met = new Map(window.met);
  const fault = one => met.has(group(one)) ? "focus is not seen on" : "Tab does not come to";
  return window.stops.filter(one => !met.get(group(one))).map(one =>
    `keyboard: ${fault(one)} ${one.outerHTML.slice(0, 120)}`);
};
// What had the focus before is where Tab would go on from.
const start = document.createElement("span");
start.tabIndex = -1;
document.body.prepend(start);
start.focus();
window.met.length = 0;
return window.stops.length;
"""


@cache
def _axe() -> str:
    """The script of axe-core, at the version and digest that the lock file beside this has."""
    assert shutil.which("npm"), "install npm (Debian)"
    with tempfile.TemporaryDirectory() as folder:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(_AXE / name, folder)
        subprocess.run(["npm", "ci", "--silent", "--no-audit", "--no-fund"], cwd=folder, check=True)
        return Path(folder, "node_modules/axe-core/axe.min.js").read_text(encoding="utf-8")


def barriers(browser: webdriver.Chrome) -> list[str]:
    """What keeps people from using the page that is open, with all its parts unfolded; empty is good.

    axe-core judges it in light and in dark; then the Tab key must come to everything that can be used, and be
    seen there. The page is loaded again before the test goes on with it.
    """
    browser.execute_script("document.querySelectorAll('details').forEach(one => { one.open = true })")
    browser.execute_script(_axe())
    found = []
    for scheme in ("light", "dark"):
        dress(browser, scheme)
        found += [f"{scheme}: {one}" for one in browser.execute_async_script(_JUDGE)]
    # The browser itself stops at what scrolls, too.
    keys = Keys.TAB * (browser.execute_script(_STOPS) + 20)
    webdriver.ActionChains(browser).send_keys(keys).perform()
    found += browser.execute_script("return window.unmet()")
    dress(browser, "light")
    browser.refresh()
    return found


def dress(browser: webdriver.Chrome, scheme: str) -> None:
    """The page as somebody sees it who prefers this scheme: `light` or `dark`."""
    emulated = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", emulated)

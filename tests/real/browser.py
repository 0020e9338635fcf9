"""A real Chromium without a screen, for the tests that look at pages as people do."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from selenium import webdriver


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

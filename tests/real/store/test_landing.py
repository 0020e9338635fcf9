"""The landing page in a real browser, over a served store of miniature wheels, and its lines run."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from real.browser import MOST_BYTES, asked, barriers, chromium
from rocwright.data import load_table
from rocwright.model.channels import Channels
from rocwright.model.gpu import Families
from rocwright.model.sets import PROMOTION, FileEntry, about_set, new_set
from rocwright.store.index.landing import landing_pages, write_landing
from rocwright.store.index.listed import ListedSet
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.serve import serving
from rocwright.store.pool import describe_files
from rocwright.store.publish import list_set
from rocwright.store.sets.stage import record_set
from wheels import write_wheel

CHANNELS = load_table("channels", Channels)
HERE = f"{sys.version_info.major}.{sys.version_info.minor}"
THIS = f"cp{HERE.replace('.', '')}"
# Pythons that this machine need not have.
OTHERS = ("cp310", "cp314") if THIS not in ("cp310", "cp314") else ("cp311", "cp312")
# Where `make screenshots` wants the picture of the documentation.
PICTURES = os.environ.get("ROCWRIGHT_PICTURES")


# What a set of the page went without when it came here.
LIFTED = {
    "to": "release",
    "rule": "bypassed",
    "bypasses": [
        {
            "required": {"suite": "smoke-gpu", "family": "gfx94X-dcgpu", "target": "gfx942"},
            "reason": "no such machine until March",
            "expires": "2027-02-18",
            "by": "ada",
            "at": "2026-11-20",
        }
    ],
}


def wheel(folder: Path, name: str, version: str, tag: str, **options: Any) -> Path:
    """A wheel of one line of Python, the same bytes for the same arguments."""
    files = {f"{name}/__init__.py": f"version = {version!r}\n"}
    return write_wheel(folder, name, version, files, tag=tag, python=">=3.10", **options)


def wheels(
    folder: Path,
    day: str,
    pythons: tuple[str, ...],
    *,
    devices: tuple[str, ...] = (),
    system: str = "linux_x86_64",
) -> list[Path]:
    """A family of wheels of one night, with a device wheel for each of `devices`."""
    rocm = f"7.11.0a{day}"
    version, vision = f"2.10.0+rocm{rocm}", f"0.25.0+rocm{rocm}"
    found = [
        wheel(folder, "rocm_sdk_core", rocm, f"py3-none-{system}"),
        wheel(folder, "rocm", rocm, "py3-none-any", requires=[f"rocm-sdk-core=={rocm}"]),
    ]
    needs = [f"rocm=={rocm}"]
    for target in devices:
        found.append(wheel(folder, f"amd_torch_device_{target}", version, f"py3-none-{system}"))
        needs.append(f'amd-torch-device-{target}=={version}; extra == "device-{target}"')
    extras = [f"device-{target}" for target in devices]
    for python in pythons:
        tag = f"{python}-{python}-{system}"
        found.append(wheel(folder, "torch", version, tag, requires=needs, extras=extras))
        for name, number in (("torchvision", vision), ("torchaudio", version)):
            found.append(wheel(folder, name, number, tag, requires=[f"torch=={version}"]))
    return found


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Iterator[Site]:
    root = tmp_path_factory.mktemp("landing")
    store = LocalStore(root / "store")
    plan = [
        ("gfx110X-dgpu", ("gfx1100", "gfx1101", "gfx1102"), "20261119", (THIS, *OTHERS), "linux"),
        ("gfx110X-dgpu", ("gfx1100", "gfx1101", "gfx1102"), "20261120", (THIS, OTHERS[0]), "linux"),
        ("gfx110X-dgpu", ("gfx1100", "gfx1101", "gfx1102"), "20261120", (THIS,), "windows"),
        ("gfx94X-dcgpu", ("gfx942",), "20261120", (THIS, *OTHERS), "linux"),
        ("gfx120X-all", ("gfx1200", "gfx1201"), "20261120", (OTHERS[0],), "linux"),
        ("multi-arch", ("gfx1100", "gfx90a"), "20261120", (THIS,), "linux"),
    ]
    for number, (family, targets, day, pythons, system) in enumerate(plan):
        files = wheels(
            root / f"dist{number}",
            day,
            pythons,
            devices=targets if family == "multi-arch" else (),
            system={"linux": "linux_x86_64", "windows": "win_amd64"}[system],
        )
        # A wheel for every system belongs to several sets, with the same bytes.
        manifest = new_set(
            family=family, targets=targets, platform=system, files=describe_files(files), sources={}
        )
        now = datetime(2026, 11, int(day[-2:]), 3, tzinfo=timezone.utc)
        said = [about_set(manifest, PROMOTION, LIFTED)] if family == "gfx94X-dcgpu" else []
        record_set(store, manifest, {path.name: path for path in files}, said, now)
        list_set(store, f"v2/{family}/", manifest, at="2026-11-20T03:00:00Z")
    requests: list[str] = []
    with serving(store, requests=requests) as url:
        # An address of another day: the page shows the one that it is read at.
        write_landing(store, CHANNELS.named("release"), base="https://packages.example.org/rocm/")
        yield Site(url, requests, root)


@dataclass
class Site:
    """A served store, and what was asked of it."""

    url: str
    requests: list[str]
    root: Path

    @property
    def page(self) -> str:
        return f"{self.url}v2/"


@pytest.fixture
def browser(request) -> Iterator[webdriver.Chrome]:
    """A real Chromium without a screen; JavaScript is off where the test asks for that."""
    with chromium(1100, 980, scripts=getattr(request, "param", None) != "no script") as found:
        yield found


def pick(browser: webdriver.Chrome, gpu: str) -> None:
    Select(browser.find_element(By.ID, "gpu")).select_by_visible_text(gpu)


def radio(browser: webdriver.Chrome, group: str, value: str):
    return browser.find_element(By.CSS_SELECTOR, f"#{group} input[value='{value}']")


def text(browser: webdriver.Chrome, name: str) -> str:
    return browser.find_element(By.ID, name).text


def test_a_gpu_by_name_gives_the_line_and_nothing_leaves_the_page(browser, site: Site) -> None:
    browser.get(site.page)
    pick(browser, "Radeon RX 7900 XTX")
    radio(browser, "python", HERE).find_element(By.XPATH, "..").click()
    assert text(browser, "pip") == (
        f"pip install --index-url {site.url}v2/gfx110X-dgpu/ --pre torch==2.10.0+rocm7.11.0a20261120 "
        "torchvision==0.25.0+rocm7.11.0a20261120 torchaudio==2.10.0+rocm7.11.0a20261120"
    )
    assert text(browser, "uv").startswith(
        f"uv pip install --default-index {site.url}v2/gfx110X-dgpu/ --prerelease allow torch==2.10.0+rocm"
    )
    assert text(browser, "for").startswith("torch 2.10.0+rocm7.11.0a20261120 for gfx1100 on Linux, x86-64")
    assert browser.get_log("browser") == []
    assert {url.partition("#")[0] for url in asked(browser)} == {site.page}


def test_before_a_choice_there_is_the_choice_of_the_gpu_and_nothing_is_struck_through(
    browser, site: Site
) -> None:
    def struck() -> list[str]:
        return browser.execute_script(
            "return [...document.querySelectorAll('body *')].filter(one => one.checkVisibility()"
            " && getComputedStyle(one).textDecorationLine === 'line-through').map(one => one.innerText)"
        )

    browser.get(site.page)
    controls = browser.find_elements(By.CSS_SELECTOR, "select, input, button")
    assert [one.get_attribute("id") for one in controls if one.is_displayed()] == ["gpu"]
    assert text(browser, "hint").startswith("Choose your GPU to see the lines")
    assert struck() == []
    # What it does not have is seen once it is known.
    pick(browser, "Radeon RX 9070 XT")
    assert f"3.{OTHERS[1][3:]}" in struck()
    assert text(browser, "hint") == ""


def test_a_set_that_was_not_tested_says_so_and_leads_to_its_pages(browser, site: Site) -> None:
    browser.get(site.page)
    [line] = browser.find_elements(By.CSS_SELECTOR, "#bypassed ~ ul > li")
    link = line.find_element(By.TAG_NAME, "a")
    without = "without smoke-gpu on gfx942: no such machine until March (until 2027-02-18, by ada)"
    assert line.is_displayed() and line.text == f"Set {link.text}, {without}"
    with urllib.request.urlopen(link.get_attribute("href")) as page:
        assert page.status == 200
    # It stands below what people come for.
    assert line.location["y"] > browser.find_element(By.ID, "picker").location["y"]


def test_what_no_set_offers_cannot_be_chosen(browser, site: Site) -> None:
    browser.get(site.page)
    pick(browser, "Radeon RX 9070 XT")
    enabled = {
        group: [
            box.get_attribute("value")
            for box in browser.find_elements(By.CSS_SELECTOR, f"#{group} input")
            if box.is_enabled()
        ]
        for group in ("platform", "python", "family")
    }
    only = f"3.{OTHERS[0][3:]}"
    assert enabled == {"platform": ["linux-x86_64"], "python": [only], "family": ["gfx120X-all"]}
    names = [option.text for option in Select(browser.find_element(By.ID, "gpu")).options]
    assert "Instinct MI300X" in names
    assert "Instinct MI100" not in names
    # The second Python is in the older set only: choosing that set brings it, the newer one takes it away.
    pick(browser, "Radeon RX 7900 XTX")
    last = f"3.{OTHERS[1][3:]}"
    assert not radio(browser, "python", last).is_enabled()
    Select(browser.find_element(By.ID, "version")).select_by_visible_text("torch 2.10.0+rocm7.11.0a20261119")
    assert radio(browser, "python", last).is_enabled()
    radio(browser, "python", last).find_element(By.XPATH, "..").click()
    assert "a20261119" in text(browser, "pip")
    Select(browser.find_element(By.ID, "version")).select_by_index(0)
    assert not radio(browser, "python", last).is_enabled()
    assert "a20261120" in text(browser, "pip")


def test_multi_arch_lines_carry_the_device_of_the_chosen_gpu(browser, site: Site) -> None:
    browser.get(site.page)
    pick(browser, "Radeon RX 7900 XTX")
    radio(browser, "python", HERE).find_element(By.XPATH, "..").click()
    radio(browser, "family", "multi-arch").find_element(By.XPATH, "..").click()
    assert '"torch[device-gfx1100]==2.10.0+rocm7.11.0a20261120"' in text(browser, "pip")
    pick(browser, "Instinct MI250X")
    assert '"torch[device-gfx90a]==2.10.0+rocm7.11.0a20261120"' in text(browser, "pip")
    # A choice can be passed on as an address.
    address = browser.current_url
    browser.get("about:blank")
    browser.get(address)
    assert '"torch[device-gfx90a]==' in text(browser, "pip")


def test_everything_works_with_the_keyboard_alone(browser, site: Site) -> None:
    browser.get(site.page)

    def focused() -> str:
        return browser.execute_script("return document.activeElement.id || document.activeElement.name")

    def press(*keys: str) -> None:
        webdriver.ActionChains(browser).send_keys(*keys).perform()

    press(Keys.TAB)
    assert focused() == "gpu"
    press("Instinct MI300X")
    assert "for gfx942" in text(browser, "for")
    press(Keys.TAB)
    assert focused() == "version"
    press(Keys.TAB)
    assert focused() == "platform"
    press(Keys.TAB)
    assert focused() == "python"
    before = browser.find_element(By.CSS_SELECTOR, "#python input:checked").get_attribute("value")
    press(Keys.ARROW_RIGHT)
    after = browser.find_element(By.CSS_SELECTOR, "#python input:checked").get_attribute("value")
    assert after != before
    assert f"Python {after}" in text(browser, "for")
    press(Keys.TAB)
    assert browser.switch_to.active_element.accessible_name == "Copy the line for pip"


@pytest.mark.parametrize("gpu", ["", "Radeon RX 7900 XTX"])
def test_nothing_keeps_anybody_from_using_the_page(browser, site: Site, gpu: str) -> None:
    browser.get(site.page)
    if gpu:
        pick(browser, gpu)
    assert barriers(browser) == []


def entry(name: str, *depends: str) -> FileEntry:
    """A file of a set, of which the page needs no more than what it is."""
    project, version = name.split("-")[:2]
    digest = hashlib.sha256(name.encode()).hexdigest()
    return FileEntry(name, digest, 1, project.replace("_", "-"), version, None, None, tuple(sorted(depends)))


def build(family: str, targets: tuple[str, ...], torch: str, vision: str, system: str) -> ListedSet:
    """The set of one build for five Pythons; that of all targets has a device package for each."""
    end = f"{system}.whl"
    devices = targets if family == "multi-arch" else ()
    needs = ["rocm", *(f"amd-torch-device-{target}" for target in devices)]
    files = [entry("rocm-7.11.0-py3-none-any.whl")]
    files += [entry(f"amd_torch_device_{target}-{torch}-py3-none-{end}") for target in devices]
    for python in ("cp310", "cp311", "cp312", "cp313", "cp314"):
        files.append(entry(f"torch-{torch}-{python}-{python}-{end}", *needs))
        for name, version in (("torchvision", vision), ("torchaudio", torch)):
            files.append(entry(f"{name}-{version}-{python}-{python}-{end}", "torch"))
    manifest = new_set(family=family, targets=targets, platform=system, files=files, sources={})
    return ListedSet(manifest, "2026-11-20T03:00:00Z")


@pytest.fixture(scope="module")
def release(tmp_path_factory) -> Path:
    """The page of a release: 16 families (one of all targets), in 4 versions, for 5 Pythons and 2 systems."""
    families = dict(list(load_table("families", Families).families.items())[:15])
    targets = dict.fromkeys(target for some in families.values() for target in some)
    families["multi-arch"] = tuple(targets)
    versions = [("2.7.1", "0.22.1"), ("2.8.0", "0.23.0"), ("2.9.1", "0.24.1"), ("2.10.0", "0.25.0")]
    local = "+rocm7.11.0"
    sets = {
        family: [
            build(family, targets, torch + local, vision + local, system)
            for torch, vision in versions
            for system in ("linux_x86_64", "win_amd64")
        ]
        for family, targets in families.items()
    }
    pages = landing_pages(CHANNELS.named("release"), sets, "https://packages.example.org/rocm/")
    path = tmp_path_factory.mktemp("release") / "index.html"
    path.write_bytes(pages["v2/index.html"])
    return path


def test_a_whole_release_is_one_light_file_that_everybody_can_use(browser, release: Path) -> None:
    browser.get(release.as_uri())
    assert "128 sets for 16 families" in browser.find_element(By.TAG_NAME, "header").text
    assert asked(browser) == {release.as_uri()}
    assert release.stat().st_size <= MOST_BYTES
    pick(browser, "Instinct MI300X")
    assert barriers(browser) == []


def test_on_a_phone_the_lines_are_in_sight(browser, release: Path) -> None:
    metrics = {"width": 400, "height": 800, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(release.as_uri())
    # Before a choice the whole page is: no list is in the way of what follows.
    assert browser.execute_script("return document.documentElement.scrollHeight") == 800
    for gpu in ("Radeon RX 7900 XTX", "Instinct MI300X"):
        pick(browser, gpu)
        for tool in ("pip", "uv"):
            box = browser.find_element(By.ID, tool).rect
            assert box["y"] > 0 and box["y"] + box["height"] <= 800, (gpu, tool)
    assert browser.execute_script("return scrollY") == 0


def test_nothing_is_cut_off_on_a_screen_of_320_pixels(browser, site: Site) -> None:
    metrics = {"width": 320, "height": 700, "deviceScaleFactor": 1, "mobile": True}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    browser.get(site.page)
    pick(browser, "Radeon RX 7900 XTX")
    assert browser.execute_script("return [document.documentElement.scrollWidth, innerWidth]") == [320, 320]


@pytest.mark.parametrize("browser", ["no script"], indirect=True)
def test_without_javascript_there_is_a_table_with_the_same_lines(browser, site: Site) -> None:
    browser.get(site.page)
    assert not browser.find_element(By.ID, "picker").is_displayed()
    rows = [row.text for row in browser.find_elements(By.CSS_SELECTOR, "[data-family]")]
    lines = [code.text for code in browser.find_elements(By.CSS_SELECTOR, "code.pip") if code.is_displayed()]
    base = "https://packages.example.org/rocm/v2"
    assert sum("Radeon RX 7900 XTX" in row for row in rows) >= 2
    assert (
        f"pip install --index-url {base}/gfx110X-dgpu/ --pre torch==2.10.0+rocm7.11.0a20261120 "
        "torchvision==0.25.0+rocm7.11.0a20261120 torchaudio==2.10.0+rocm7.11.0a20261120"
    ) in lines
    assert sum(f"{base}/multi-arch/" in line and "torch[device-gfx90a]==" in line for line in lines) == 1
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("tool", ["pip", "uv"])
@pytest.mark.parametrize("family", ["gfx110X-dgpu", "multi-arch"])
def test_the_line_shown_installs_as_it_stands(
    browser, site: Site, family: str, tool: str, tmp_path: Path
) -> None:
    browser.get(site.page)
    pick(browser, "Radeon RX 7900 XTX")
    radio(browser, "python", HERE).find_element(By.XPATH, "..").click()
    radio(browser, "family", family).find_element(By.XPATH, "..").click()
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    tools = Path(sys.executable).parent
    where = {
        "PATH": f"{environment / 'bin'}:{tools}:/usr/bin:/bin",
        "VIRTUAL_ENV": str(environment),
        "HOME": str(tmp_path),
        "PIP_CONFIG_FILE": "/dev/null",
        "UV_NO_CONFIG": "1",
    }
    done = subprocess.run(
        ["/bin/sh", "-c", text(browser, tool)], env=where, capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    found = {
        path.name.partition("-")[0]
        for path in (environment / "lib" / f"python{HERE}" / "site-packages").glob("*.dist-info")
    } - {"pip", "setuptools"}
    expected = {"torch", "torchvision", "torchaudio", "rocm", "rocm_sdk_core"}
    assert found == expected | ({"amd_torch_device_gfx1100"} if family == "multi-arch" else set())


# Below the store: what is asked for, and which of its indexes answers for which projects.
ASKED = [
    ("v2/", "gfx1101", "gfx110X-dgpu", "torch torchvision torchaudio rocm rocm-sdk-core"),
    ("v2/", "gfx942", "gfx94X-dcgpu", "torch torchvision torchaudio rocm rocm-sdk-core"),
    ("v2/gfx110X-dgpu/", "gfx1102", "gfx110X-dgpu", "torch torchvision torchaudio rocm rocm-sdk-core"),
    (
        *("v2/multi-arch/", "gfx1100,gfx90a", "multi-arch"),
        "torch torchvision torchaudio rocm rocm-sdk-core amd-torch-device-gfx1100 amd-torch-device-gfx90a",
    ),
]


@pytest.mark.parametrize("where", ["http", "file"])
@pytest.mark.parametrize(("below", "targets", "family", "projects"), ASKED, ids=lambda value: value[:16])
def test_every_line_of_detect_resolves(
    site: Site, below: str, targets: str, family: str, projects: str, where: str, tmp_path: Path
) -> None:
    base = site.url if where == "http" else f"{(site.root / 'store').as_uri()}/"
    index = f"{base}{below}"
    tools = Path(sys.executable).parent
    site.requests.clear()
    done = subprocess.run(
        [tools / "rocwright", "detect", "--target", targets, "--index", index, "--json"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["asked"]["requests"] == len(site.requests) <= 12
    (one,) = report["install"]
    assert one["index"] == f"{base}v2/{family}/"
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", environment], check=True)
    around = {
        "PATH": f"{environment / 'bin'}:{tools}:/usr/bin:/bin",
        "VIRTUAL_ENV": str(environment),
        "HOME": str(tmp_path),
        "PIP_CONFIG_FILE": "/dev/null",
        "UV_NO_CONFIG": "1",
    }
    for tool, found in (("pip", r"Would install (.*)"), ("uv", r"^ \+ (\S+)==")):
        line = one[tool].replace(" install ", " install --dry-run ", 1)
        ran = subprocess.run(["/bin/sh", "-c", line], env=around, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        said = " ".join(re.findall(found, ran.stdout + ran.stderr, re.MULTILINE))
        # pip says name-version, one behind the other.
        names = {re.sub(r"-[0-9][0-9.]*[+a0-9].*", "", word).replace("_", "-") for word in said.split()}
        assert names == set(projects.split()), (tool, said)


def test_detect_says_which_pythons_a_family_has(site: Site) -> None:
    """There is torch for gfx1201, but for another Python than this one."""
    words = ["detect", "--target", "gfx1201", "--index", f"{site.url}v2/"]
    rocwright = Path(sys.executable).with_name("rocwright")
    done = subprocess.run([rocwright, *words], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (3, "0  gfx1201\n")
    other = f"3.{OTHERS[0][3:]}"
    assert (
        f"no wheel of torch for Python {HERE} on Linux, x86_64; it has some for Python {other}" in done.stderr
    )
    done = subprocess.run([rocwright, *words, "--python", other], capture_output=True, text=True)
    assert (done.returncode, f"{site.url}v2/gfx120X-all/" in done.stdout) == (0, True)


def test_every_link_of_the_page_leads_somewhere(browser, site: Site) -> None:
    browser.get(site.page)
    links = {link.get_attribute("href") for link in browser.find_elements(By.CSS_SELECTOR, "a")}
    assert len(links) > 10
    for link in sorted(links):
        with urllib.request.urlopen(link) as answer:
            assert answer.status == 200, link


def test_the_picture_in_the_documentation_is_of_this_page(browser, site: Site, tmp_path: Path) -> None:
    # Read as a file, the page keeps the address that it was written for.
    browser.get((site.root / "store" / "v2" / "index.html").as_uri())
    pick(browser, "Radeon RX 7900 XTX")
    assert "--index-url https://packages.example.org/rocm/v2/gfx110X-dgpu/" in text(browser, "pip")
    browser.execute_script("document.activeElement.blur()")
    picture = Path(PICTURES or tmp_path) / "landing.png"
    assert browser.save_screenshot(str(picture))
    assert 10_000 < picture.stat().st_size < 200_000

"""uv installs from a view that `rocwright-detect` makes of a published index, for every target of the table.

A machine is what AMD's variables make of it; both detectors obey them.
"""

from __future__ import annotations

import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from real.store.clients import PIPS, Client, Shop
from rocwright.data import load_table
from rocwright.model.gpu import Families
from rocwright.pipeline.variants import with_selectors
from rocwright.store.objects.serve import serving
from wheels import ANY, write_wheel

ROOT = Path(__file__).resolve().parents[3]
VERSION, SELECTOR = "2.9.0+rocm7.1", "amd-torch-device"
PLAIN = {"torch", SELECTOR}
PREVIEW = ("--preview-features", "wheel-variants")
PUBLISHED = "v2/fam/"
# By hand: that a target of the table has no cell here shall show.
EVERY = (
    *("gfx900", "gfx906", "gfx908", "gfx90a", "gfx90c", "gfx942", "gfx950", "gfx1010", "gfx1011", "gfx1012"),
    *("gfx1030", "gfx1031", "gfx1032", "gfx1033", "gfx1034", "gfx1035", "gfx1036", "gfx1100", "gfx1101"),
    *("gfx1102", "gfx1103", "gfx1150", "gfx1151", "gfx1152", "gfx1153", "gfx1200", "gfx1201", "gfx1250"),
)
# By what the machine says, its GPUs in their order: the targets whose device packages uv shall install.
MACHINES = {
    **{target: {target} for target in EVERY},
    "gfx1250-strict": {"gfx1250"},
    "gfx1100,gfx942": {"gfx1100", "gfx942"},
    "gfx942,gfx942": {"gfx942"},
}


def published(shop: Shop, folder: Path, version: str = VERSION) -> None:
    """Put torch with device wheels for every target, and what chooses among these, into the index."""
    needs = [f'{SELECTOR}-{one}=={version} ; extra == "device-{one}"' for one in EVERY]
    extras = [f"device-{one}" for one in EVERY]
    write_wheel(folder, "torch", version, {"torch/__init__.py": ""}, tag=ANY, extras=extras, requires=needs)
    for one in EVERY:
        files = {f"torch/{one}.txt": one}
        write_wheel(folder, f"{SELECTOR}-{one}", version, files, tag=ANY, requires=[f"torch=={version}"])
    shop.record(*with_selectors([folder], folder / "made", lambda _: None), targets=EVERY)
    shop.publish(PUBLISHED)


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    shop = Shop(tmp_path_factory.mktemp("shop"))
    published(shop, tmp_path_factory.mktemp("wheels"))
    return shop


@pytest.fixture(scope="module")
def index(shop: Shop) -> Iterator[str]:
    with serving(shop.root) as url:
        yield url + PUBLISHED


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The detector, laid out as its wheel is."""
    directory = tmp_path_factory.mktemp("site")
    inside = directory / "rocwright_detect"
    shutil.copytree(ROOT / "runtime/detect/src/rocwright_detect", inside)
    shutil.copy(ROOT / "runtime/rocm/src/rocm_sdk/_detect.py", inside)
    return directory


def view_of(index: str, machine: str, site: Path, place: Path) -> subprocess.CompletedProcess[str]:
    """`rocwright-detect view` on such a machine; without a word about GPUs, on one that has none."""
    words = ["-m", "rocwright_detect", "view", index, "--directory", str(place), "--json"]
    seen = (
        {"ROCM_BOOTSTRAP_FORCE_GFX_ARCH": machine} if machine else {"ROCM_BOOTSTRAP_DISABLE_DETECTION": "1"}
    )
    environment = {"PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1", **seen}
    return subprocess.run([sys.executable, *words], env=environment, capture_output=True, text=True)


def test_every_target_of_the_table_has_a_cell() -> None:
    table = load_table("families", Families)
    named = {one for row in table.family for one in table.families.get(row.name, (row.name,))}
    assert named == set(EVERY)
    assert set(table.owners) <= set(MACHINES)


@pytest.mark.parametrize("machine", MACHINES)
def test_uv_takes_the_right_device_from_a_view(
    clients: dict[str, Client], index: str, site: Path, tmp_path: Path, machine: str
) -> None:
    """By the very line that is printed, which names no GPU, but the second of two different ones."""
    done = view_of(index, machine, site, tmp_path / "view")
    assert done.returncode == 0, done.stderr
    program, group, verb, *line = shlex.split(json.loads(done.stdout)["view"]["uv"])
    assert (program, group, verb) == ("uv", "pip", "install")
    second = ["torch[device-gfx942]"] if machine == "gfx1100,gfx942" else ["torch"]
    assert line == [*PREVIEW, "--index", (tmp_path / "view").as_uri(), *second]
    found = clients["uv"].install(tmp_path / "with", *line)
    targets = MACHINES[machine]
    assert found == dict.fromkeys({*PLAIN, *(f"{SELECTOR}-{one}" for one in targets)}, VERSION)
    assert {path.stem for path in (tmp_path / "with/torch").glob("*.txt")} == targets


def test_who_speaks_no_variants_takes_the_plain_wheels_of_a_view(
    clients: dict[str, Client], index: str, site: Path, tmp_path: Path
) -> None:
    assert view_of(index, "gfx1151", site, tmp_path / "view").returncode == 0
    address = (tmp_path / "view").as_uri()
    for name in (f"pip-{PIPS[0]}", f"pip-{PIPS[-1]}", "uv"):
        assert set(clients[name].install(tmp_path / name, "--index-url", address, "torch")) == PLAIN


def test_without_a_gpu_there_is_no_view_and_the_index_itself_does(
    clients: dict[str, Client], index: str, site: Path, tmp_path: Path
) -> None:
    assert view_of(index, "", site, tmp_path / "view").returncode == 1
    assert not (tmp_path / "view").exists()
    assert set(clients["uv"].install(tmp_path / "with", *PREVIEW, "--index-url", index, "torch")) == PLAIN


def test_a_name_of_the_view_comes_from_nowhere_else(
    clients: dict[str, Client], index: str, site: Path, tmp_path: Path
) -> None:
    """Elsewhere there are newer ones of each project, and uv asks there for what the view has not."""
    assert view_of(index, "gfx1151", site, tmp_path / "view").returncode == 0
    other = Shop(tmp_path / "shop")
    published(other, tmp_path / "wheels", "99.0")
    requests: list[str] = []
    with serving(other.root, requests=requests) as url:
        indexes = ("--index", (tmp_path / "view").as_uri(), "--default-index", url + PUBLISHED)
        found = clients["uv"].install(tmp_path / "with", *PREVIEW, *indexes, "torch")
        assert requests == []
        done = clients["uv"].try_install(tmp_path / "more", *PREVIEW, *indexes, "torch", "filelock")
    assert found == dict.fromkeys({*PLAIN, f"{SELECTOR}-gfx1151"}, VERSION)
    assert done.returncode != 0
    assert requests == [f"/{PUBLISHED}filelock/"]


def test_a_file_that_was_changed_at_its_origin_is_refused(
    clients: dict[str, Client], site: Path, tmp_path: Path
) -> None:
    shop = Shop(tmp_path / "shop")
    published(shop, tmp_path / "wheels")
    with serving(shop.root) as url:
        assert view_of(url + PUBLISHED, "gfx1151", site, tmp_path / "view").returncode == 0
        [selector] = shop.root.rglob(f"amd_torch_device-{VERSION}-*-gfx1151.whl")
        with selector.open("ab") as stream:
            stream.write(b"\0")
        done = clients["uv"].try_install(
            tmp_path / "with", *PREVIEW, "--index", (tmp_path / "view").as_uri(), "torch"
        )
    assert done.returncode != 0
    assert "Hash mismatch" in done.stderr


def test_a_newer_set_comes_with_the_next_view(clients: dict[str, Client], site: Path, tmp_path: Path) -> None:
    shop, line = Shop(tmp_path / "shop"), (*PREVIEW, "--index", (tmp_path / "view").as_uri(), "torch")
    published(shop, tmp_path / "wheels")
    with serving(shop.root) as url:
        for version, again in ((VERSION, False), ("2.10.0+rocm7.2", True)):
            if again:
                published(shop, tmp_path / version, version)
                # What is published does not reach into a view that was made before.
                assert clients["uv"].install(tmp_path / "old", *line)["torch"] == VERSION
            assert view_of(url + PUBLISHED, "gfx1151", site, tmp_path / "view").returncode == 0
            found = clients["uv"].install(tmp_path / f"with-{version}", *line)
            assert found == dict.fromkeys({*PLAIN, f"{SELECTOR}-gfx1151"}, version)

"""What a set publishes for itself: its index, pins, a snippet for uv, locks; pip and uv take them."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest

from real.store.clients import PIPS, Client, Shop, files_asked, versions_in, wheel
from rocwright.store.index.set_pages import publish_set_pages
from rocwright.store.layout import set_prefix
from rocwright.store.objects.serve import serving
from rocwright.system.venv import uv_command

# pip reads locks since 26.1.
NEW_PIP = f"pip-{PIPS[-1]}"
CANDIDATE = "7.2.0rc1"
EXPECTED = {"torch": "2.9.0+rocm7.2.0rc1", "rocm": CANDIDATE, "rocm-sdk-device-gfx90a": CANDIDATE}


@pytest.fixture
def requests() -> list[str]:
    return []


@pytest.fixture
def shop(tmp_path: Path, requests: list[str]) -> Iterator[Shop]:
    """A set of a release candidate for two targets, whose torch pins its rocm; it is served."""
    (tmp_path / "shop").mkdir()
    with serving(tmp_path / "shop", requests=requests) as url:
        shop = Shop(tmp_path / "shop", public=url.rstrip("/"))
        record(shop, tmp_path / "wheels")
        yield shop


def record(shop: Shop, folder: Path) -> None:
    shop.record(
        wheel(folder, "torch", EXPECTED["torch"], requires=[f"rocm=={CANDIDATE}"]),
        wheel(folder, "rocm", CANDIDATE),
        *(wheel(folder, f"rocm_sdk_device_{target}", CANDIDATE) for target in ("gfx90a", "gfx942")),
        targets=("gfx90a", "gfx942"),
    )


def pages_of(shop: Shop) -> tuple[str, str]:
    """The URL of the set's own pages, and their place in the store."""
    prefix = set_prefix(shop.id)
    return f"{shop.public}/{prefix}", prefix


def digests(shop: Shop) -> dict[str, str]:
    return {entry.name: entry.sha256 for entry in shop.sets[0].manifest.files}


@pytest.mark.parametrize("name", [NEW_PIP, "uv"])
@pytest.mark.parametrize("fetched", ["by the installer", "before"])
def test_a_lock_installs_one_target(
    clients: dict[str, Client], name: str, fetched: str, shop: Shop, requests: list[str], tmp_path: Path
) -> None:
    url, prefix = pages_of(shop)
    lock = f"{url}pylock.gfx90a.toml"
    if fetched == "before":
        local = tmp_path / "pylock.gfx90a.toml"
        local.write_bytes(shop.store.read(f"{prefix}pylock.gfx90a.toml"))
        lock = str(local)
    assert clients[name].install(tmp_path / "t", "-r", lock) == EXPECTED
    names = [unquote(path) for path in files_asked(requests)]
    assert names == sorted(name for name in digests(shop) if "gfx942" not in name)


@pytest.mark.parametrize("name", [NEW_PIP, "uv"])
def test_a_lock_refuses_other_bytes(
    clients: dict[str, Client], name: str, shop: Shop, tmp_path: Path
) -> None:
    url, _ = pages_of(shop)
    [stored] = [
        one.key for one in shop.store.list("files/") if "/rocm-7" in one.key and one.key.endswith(".whl")
    ]
    shop.store.delete(stored)
    changed = wheel(tmp_path / "changed", "rocm", CANDIDATE, members={"evil.py": b""})
    shop.store.put_file(changed, stored)
    done = clients[name].try_install(tmp_path / "t", "-r", f"{url}pylock.gfx90a.toml")
    assert done.returncode != 0
    # uv sees the size first.
    assert any(word in (done.stdout + done.stderr).lower() for word in ("hash", "size mismatch"))
    assert not (tmp_path / "t" / "evil.py").exists()


def test_a_lock_replayed_without_the_store_gives_the_same_files(
    clients: dict[str, Client], shop: Shop, requests: list[str], tmp_path: Path
) -> None:
    """From what pip kept: the store is not asked any more, and the digests are those of the set."""
    pip = clients[NEW_PIP]
    _, prefix = pages_of(shop)
    lock = tmp_path / "pylock.gfx90a.toml"
    lock.write_bytes(shop.store.read(f"{prefix}pylock.gfx90a.toml"))
    kept = tmp_path / "kept"
    done = pip.run("download", "--no-deps", "-d", kept, "-r", lock)
    assert done.returncode == 0, done.stderr
    wanted = {name: sha for name, sha in digests(shop).items() if "gfx942" not in name}
    assert {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in kept.iterdir()} == wanted
    constraints = tmp_path / "constraints.txt"
    constraints.write_bytes(shop.store.read(f"{prefix}constraints.txt"))
    asked = ["--no-index", "--find-links", kept, "-c", constraints, "torch", "rocm-sdk-device-gfx90a"]
    before = len(requests)
    for client in clients.values():
        assert client.install(tmp_path / client.name, *asked) == EXPECTED
    assert len(requests) == before


def test_uv_replays_a_lock_offline_from_its_cache(
    clients: dict[str, Client], shop: Shop, requests: list[str], tmp_path: Path
) -> None:
    uv = clients["uv"]
    _, prefix = pages_of(shop)
    lock = tmp_path / "pylock.gfx942.toml"
    lock.write_bytes(shop.store.read(f"{prefix}pylock.gfx942.toml"))
    first = uv.install(tmp_path / "a", "-r", lock)
    before = len(requests)
    assert uv.install(tmp_path / "b", "--offline", "-r", lock) == first
    assert len(requests) == before
    assert first.keys() == {"torch", "rocm", "rocm-sdk-device-gfx942"}


def test_constraints_pin_a_candidate(clients: dict[str, Client], shop: Shop, tmp_path: Path) -> None:
    """Pre-releases are taken because the constraints name them exactly; nobody asks for others."""
    url, _ = pages_of(shop)
    for client in clients.values():
        asked = ["--index-url", url, "-c", f"{url}constraints.txt", "torch", "rocm-sdk-device-gfx90a"]
        assert client.install(tmp_path / client.name, *asked) == EXPECTED


def test_the_snippet_makes_uv_take_the_set_from_nowhere_else(
    clients: dict[str, Client], shop: Shop, tmp_path: Path
) -> None:
    """Also what torch requires and the project does not name; another index offers 99.0 of both."""
    uv, other = clients["uv"], Shop(tmp_path / "other")
    folder = tmp_path / "other-wheels"
    other.record(
        wheel(folder, "torch", "99.0"), wheel(folder, "rocm", "99.0"), wheel(folder, "filelock", "3")
    )
    other.publish("simple/all/")
    project = tmp_path / "project"
    project.mkdir()
    _, prefix = pages_of(shop)
    with serving(other.root) as elsewhere:
        table = '[project]\nname = "p"\nversion = "1"\nrequires-python = ">=3.10"\n'
        table += 'dependencies = ["torch", "filelock"]\n\n'
        snippet = shop.store.read(f"{prefix}uv.toml").decode()
        (project / "pyproject.toml").write_text(table + snippet)
        words = ["--project", project, "--default-index", f"{elsewhere}simple/all/", "--no-install-project"]
        done = Client("uv", (uv_command(),), uv.home).run("sync", *words, cwd=project)
        assert done.returncode == 0, done.stderr
    [site] = (project / ".venv" / "lib").glob("python*/site-packages")
    assert versions_in(site) == {
        "torch": EXPECTED["torch"],
        "rocm": CANDIDATE,
        "filelock": "3",
    }


@pytest.mark.parametrize("place", ["", "_json/"])
def test_the_index_of_a_set_is_whole(
    clients: dict[str, Client], place: str, shop: Shop, tmp_path: Path
) -> None:
    url, _ = pages_of(shop)
    for client in clients.values():
        asked = ["--pre"] if client.name != "uv" else ["--prerelease", "allow"]
        asked += ["--index-url", url + place, "torch", "rocm-sdk-device-gfx90a"]
        assert client.install(tmp_path / client.name, *asked) == EXPECTED


@pytest.mark.parametrize("name", [NEW_PIP, "uv"])
def test_a_lock_of_a_folder_goes_with_the_folder(
    clients: dict[str, Client], name: str, tmp_path: Path
) -> None:
    """Without a public address nothing says where the store lies on this machine."""
    shop = Shop(tmp_path / "shop")
    record(shop, tmp_path / "wheels")
    lock = shop.root.rename(tmp_path / "moved") / set_prefix(shop.id) / "pylock.gfx90a.toml"
    assert str(tmp_path) not in lock.read_text()
    assert clients[name].install(tmp_path / "t", "-r", lock) == EXPECTED


def test_pages_of_a_set_are_written_once(shop: Shop) -> None:
    _, prefix = pages_of(shop)
    before = {one.key: one.modified for one in shop.store.list(prefix)}
    assert publish_set_pages(shop.store, shop.sets[0], base_url="http://elsewhere/") == ()
    assert {one.key: one.modified for one in shop.store.list(prefix)} == before
    gone = f"{prefix}pylock.gfx942.toml"
    kept = shop.store.read(gone)
    shop.store.delete(gone)
    assert publish_set_pages(shop.store, shop.sets[0]) == (gone,)
    assert shop.store.read(gone) == kept
    names = json.loads(shop.store.read(f"{prefix}_json/index.html"))["projects"]
    assert [one["name"] for one in names] == [
        "rocm",
        "rocm-sdk-device-gfx90a",
        "rocm-sdk-device-gfx942",
        "torch",
    ]


@pytest.mark.parametrize("name", [NEW_PIP, "uv"])
def test_a_lock_with_everything_installs_from_nothing_else(
    clients: dict[str, Client], name: str, tmp_path: Path
) -> None:
    """What the set requires comes from the index that is named, and its login stays out of the lock."""
    other, folder = Shop(tmp_path / "other"), tmp_path / "other-wheels"
    other.record(
        wheel(folder, "sympy", "1.14", requires=["mpmath<2"]),
        wheel(folder, "mpmath", "1.3"),
        wheel(folder, "rocm", "99.0"),
    )
    other.publish("simple/all/")
    shop, ours = Shop(tmp_path / "shop"), tmp_path / "wheels"
    shop.record(
        wheel(ours, "torch", "2.9+r", requires=["rocm==7.1", "sympy>=1.13"]), wheel(ours, "rocm", "7.1")
    )
    with serving(other.root) as elsewhere:
        words = ["set", "lock", shop.id, "--store", shop.root, "--target", "gfx90a", "-o", tmp_path]
        words += ["--index", f"{elsewhere}simple/all/".replace("://", "://someone:hunter2@")]
        command = [Path(sys.executable).with_name("rocwright"), *words]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        lock = tmp_path / "pylock.gfx90a.toml"
        assert "hunter2" not in lock.read_text() + done.stdout + done.stderr
        found = clients[name].install(tmp_path / "t", "-r", lock)
    assert found == {"torch": "2.9+r", "rocm": "7.1", "sympy": "1.14", "mpmath": "1.3"}

"""pip and uv install from what is published, over HTTP, and take nothing else."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from real.store.clients import PIPS, Client, Shop, files_asked, pip_report, wheel
from rocwright.store.objects.serve import serving

HTML, BOTH, FLAT, JSON = "html/fam/", "v2/fam/", "v2/fam/_flat/index.html", "v2/fam/_json/"
ODD = "1!2.0.post1+rocm7.1.g0"


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("wheels")
    made = [
        wheel(folder, "torch", "2.9.0+rocm7.1", requires=["rocm==7.1", f"odd-name-pkg=={ODD}"]),
        wheel(folder, "rocm", "7.1"),
        wheel(folder, "Odd_Name.pkg", ODD),
        # Newer, but for nobody's Python.
        wheel(folder, "torch", "3.0+rocm8", python=">=4,<5"),
        # Newer, but withdrawn.
        wheel(folder, "torch", "2.9.5+rocm7.1"),
    ]
    return {path.name: path for path in made}


@pytest.fixture(scope="module")
def shop(wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Shop:
    shop = Shop(tmp_path_factory.mktemp("shop"))
    withdrawn = wheels["torch-2.9.5+rocm7.1-py3-none-any.whl"]
    shop.record(*(path for path in wheels.values() if path != withdrawn))
    shop.record(withdrawn, yanked='miscompiled <kernels> & "more"')
    shop.publish(HTML, json_pages=False)
    shop.publish(BOTH)
    return shop


@pytest.fixture
def served(shop: Shop) -> Iterator[tuple[str, list[str]]]:
    requests: list[str] = []
    with serving(shop.root, requests=requests) as url:
        yield url, requests


EXPECTED = {"torch": "2.9.0+rocm7.1", "rocm": "7.1", "odd-name-pkg": ODD}


def from_place(url: str, place: str) -> list[str]:
    return ["--no-index", "--find-links", url + place] if place == FLAT else ["--index-url", url + place]


def hashed(wheels: dict[str, Path], path: Path, *names: str) -> Path:
    lines = []
    for name in names:
        project, version = name.split("-")[:2]
        lines.append(
            f"{project}=={version} --hash=sha256:{hashlib.sha256(wheels[name].read_bytes()).hexdigest()}"
        )
    path.write_text("\n".join(lines))
    return path


WANTED = (
    "torch-2.9.0+rocm7.1-py3-none-any.whl",
    "rocm-7.1-py3-none-any.whl",
    f"Odd_Name.pkg-{ODD}-py3-none-any.whl",
)


@pytest.mark.parametrize("place", [HTML, BOTH, JSON, FLAT])
def test_a_set_installs_with_hashes_required(
    client: Client, place: str, served: tuple[str, list[str]], wheels: dict[str, Path], tmp_path: Path
) -> None:
    url, requests = served
    locked = hashed(wheels, tmp_path / "requirements.txt", *WANTED)
    found = client.install(tmp_path / "t", *from_place(url, place), "--require-hashes", "-r", locked)
    assert found == EXPECTED
    assert any("%2Brocm7.1" in path for path in requests)
    pages = [path for path in requests if path.endswith("/")]
    assert all("_json" in path for path in pages) or place != JSON


@pytest.mark.parametrize("place", [HTML, JSON, FLAT])
def test_the_newest_that_is_for_this_python_and_not_withdrawn(
    client: Client, place: str, served: tuple[str, list[str]], tmp_path: Path
) -> None:
    assert client.install(tmp_path / "t", *from_place(served[0], place), "torch") == EXPECTED


@pytest.mark.parametrize("place", [HTML, JSON])
def test_who_pins_a_withdrawn_version_gets_it_and_is_told_why(
    client: Client, place: str, served: tuple[str, list[str]], tmp_path: Path
) -> None:
    asked = [*from_place(served[0], place), "torch==2.9.5+rocm7.1"]
    done = client.try_install(tmp_path / "t", *asked)
    assert done.returncode == 0, done.stderr
    assert 'miscompiled <kernels> & "more"' in done.stdout + done.stderr


@pytest.mark.parametrize("place", [HTML, JSON, FLAT])
def test_a_file_with_other_content_is_refused(
    client: Client, place: str, shop: Shop, wheels: dict[str, Path], tmp_path: Path
) -> None:
    other = Shop(tmp_path / "shop")
    other.record(wheels["rocm-7.1-py3-none-any.whl"])
    other.publish(HTML, json_pages=False)
    other.publish(BOTH)
    [stored] = [one.key for one in other.store.list("files/") if one.key.endswith(".whl")]
    other.store.delete(stored)
    changed = wheel(tmp_path / "changed", "rocm", "7.1", members={"rocm_evil.py": b"evil"})
    other.store.put_file(changed, stored)
    with serving(other.root) as url:
        done = client.try_install(tmp_path / "t", *from_place(url, place), "rocm")
    assert done.returncode != 0
    assert "hash" in (done.stdout + done.stderr).lower()
    assert not (tmp_path / "t" / "rocm_evil.py").exists()


@pytest.mark.parametrize("place", [HTML, JSON])
def test_a_resolution_reads_metadata_and_no_wheel(
    client: Client, place: str, served: tuple[str, list[str]], tmp_path: Path
) -> None:
    url, requests = served
    if client.name == "uv":
        done = client.try_install(tmp_path / "t", "--dry-run", *from_place(url, place), "torch")
        assert f"odd-name-pkg=={ODD}" in done.stderr
    else:
        words = ["--dry-run", "--quiet", "--report", "-", *from_place(url, place), "torch"]
        assert set(pip_report(client.try_install(tmp_path / "t", *words))) == {
            "torch",
            "rocm",
            "Odd_Name.pkg",
        }
    asked_metadata = {path.rpartition("/")[2] for path in requests if path.endswith(".metadata")}
    if client.name == "pip-23.0.1":
        # Only promised under a name that this version does not know: it would misread it (PEP 714).
        assert asked_metadata == set()
        return
    assert "rocm-7.1-py3-none-any.whl.metadata" in asked_metadata
    if client.name == "pip-23.2.1":
        # This version downloads what it has resolved even on a dry run.
        return
    assert files_asked(requests) == []


def test_files_that_came_in_later_can_be_left_out(
    clients: dict[str, Client], served: tuple[str, list[str]], tmp_path: Path
) -> None:
    uv, (url, _) = clients["uv"], served
    asked = ["--index-url", url + JSON, "rocm", "--exclude-newer"]
    assert uv.install(tmp_path / "t", *asked, "2026-11-22T08:00:01Z") == {"rocm": "7.1"}
    assert uv.try_install(tmp_path / "u", *asked, "2026-11-22T07:59:59Z").returncode != 0


@pytest.fixture(scope="module")
def intruder(tmp_path_factory: pytest.TempPathFactory) -> Shop:
    """Another index, with higher versions of names of ours."""
    folder = tmp_path_factory.mktemp("intruder")
    shop = Shop(folder / "shop")
    shop.record(
        wheel(folder, "torch", "99.0"), wheel(folder, "rocm", "99.0"), wheel(folder, "filelock", "3.0")
    )
    shop.publish("simple/all/")
    return shop


@pytest.fixture
def both(shop: Shop, intruder: Shop) -> Iterator[tuple[str, str]]:
    with serving(shop.root) as ours, serving(intruder.root) as other:
        yield ours + BOTH, f"{other}simple/all/"


@pytest.mark.parametrize("name", [f"pip-{version}" for version in PIPS])
def test_pip_takes_the_highest_version_of_all_indexes(
    clients: dict[str, Client], name: str, both: tuple[str, str], tmp_path: Path
) -> None:
    """Why no page of ours shows --extra-index-url without exact versions."""
    ours, other = both
    pip = clients[name]
    asked = ["--index-url", ours, "--extra-index-url", other]
    assert pip.install(tmp_path / "a", *asked, "torch") == {"torch": "99.0"}
    assert pip.install(tmp_path / "b", *asked, "torch==2.9.0+rocm7.1") == EXPECTED
    assert pip.install(tmp_path / "c", "--index-url", ours, "torch") == EXPECTED


def test_uv_takes_the_first_index_that_has_the_name(
    clients: dict[str, Client], both: tuple[str, str], tmp_path: Path
) -> None:
    ours, other = both
    uv = clients["uv"]
    asked = ["--index", ours, "--default-index", other, "torch"]
    assert uv.install(tmp_path / "a", *asked) == EXPECTED
    assert uv.install(tmp_path / "b", *asked, "--index-strategy", "unsafe-best-match") == {"torch": "99.0"}
    assert uv.install(tmp_path / "c", "--index-url", ours, "torch") == EXPECTED


SPARSE = 5 << 30


@pytest.fixture(scope="module")
def huge(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel with a member of 5 GiB: zeros, which take 5 MB in it."""
    return sparse_wheel(tmp_path_factory.mktemp("huge"), SPARSE)


def sparse_wheel(folder: Path, size: int) -> Path:
    path = wheel(folder, "rocm_huge", "1")
    piece = bytes(1 << 24)
    with (
        zipfile.ZipFile(path, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(_deflated("rocm_huge.bin"), "w", force_zip64=True) as member,
    ):
        for _ in range(size // len(piece)):
            member.write(piece)
    return path


def _deflated(name: str) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.compress_type = zipfile.ZIP_DEFLATED
    return info


@pytest.fixture
def room(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Directories that are gone at the end, whatever pytest keeps."""
    made = []

    def make(name: str) -> Path:
        made.append(tmp_path / name)
        return made[-1]

    yield make
    for path in made:
        shutil.rmtree(path, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [f"pip-{PIPS[-1]}", "uv"])
def test_a_member_of_five_gibibytes_installs(
    clients: dict[str, Client], name: str, huge: Path, room: Callable[[str], Path]
) -> None:
    shop = Shop(room("shop"))
    shop.record(huge)
    shop.publish(BOTH)
    target = room("target")
    with serving(shop.root) as url:
        found = clients[name].install(target, "--no-cache-dir", "--index-url", url + BOTH, "rocm-huge")
    assert found == {"rocm-huge": "1"}
    assert (target / "rocm_huge.bin").stat().st_size == SPARSE

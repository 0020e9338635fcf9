"""`setup_venv.py`, called as the documents call it, with real pip and uv and packages that come late."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from threading import Event, Thread

import pytest

from index_server import IndexServer, serving, wheel

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "build_tools/setup_venv.py"
INSTALLERS = pytest.mark.parametrize("uv", [(), ("--use-uv",)], ids=["pip", "uv"])
pytestmark = pytest.mark.slow

# A build of `rocm` chooses its requirement where it is installed, as the real one chooses GPUs.
CHOOSER = """
import os, zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name, info = "rocm-7.10.0-py3-none-any.whl", "rocm-7.10.0.dist-info"
    head = "Metadata-Version: 2.1\\nName: rocm\\nVersion: 7.10.0\\n"
    with zipfile.ZipFile(os.path.join(folder, name), "w") as archive:
        archive.writestr(info + "/METADATA", head + "Requires-Dist: device-" + os.environ["CHOICE"] + "\\n")
        archive.writestr(info + "/WHEEL", "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
        archive.writestr(info + "/RECORD", "")
    return name
"""


@pytest.fixture
def call(tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Calls the script in a place with nothing of the caller's settings; more variables by name."""

    # Made in no time, because it has no pip; where that one counts, --clean makes another.
    for name in ("v", "w"):
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / name)], check=True)

    def run(*words: object, **env: str) -> subprocess.CompletedProcess[str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
        kept |= {"HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache"), "LANG": "C.UTF-8"}
        # One answer is enough: the installers' own waiting is not what is tested.
        kept |= {"PIP_RETRIES": "0", "UV_HTTP_RETRIES": "0", **env}
        done = subprocess.run(
            [sys.executable, str(SCRIPT), *map(str, words)],
            cwd=tmp_path,
            env=kept,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert "Traceback" not in done.stderr
        return done

    return run


@pytest.fixture
def rocm(tmp_path: Path) -> Iterator[IndexServer]:
    """An index with ROCm's packages."""
    folder = tmp_path / "rocm"
    wheel(folder, "rocm-sdk-core", "7.10.0", padding=9, tag="py3-none-any")
    with serving(folder) as index:
        yield index


@pytest.fixture
def torch(tmp_path: Path) -> Iterator[IndexServer]:
    """A page with PyTorch's packages, and none of those that they need."""
    folder = tmp_path / "torch"
    needs = ["rocm-sdk-core==7.10.0"]
    wheel(folder, "torch", "2.9.0+rocm7.10.0", requires=needs, padding=9, tag="py3-none-any")
    with serving(folder) as index:
        yield index


TORCH = {"torch": "2.9.0+rocm7.10.0", "rocm-sdk-core": "7.10.0"}


def installed(done: subprocess.CompletedProcess[str]) -> dict[str, str]:
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)["installed"]
    return {name: version for name, version in found.items() if name not in ("pip", "setuptools", "wheel")}


@INSTALLERS
def test_rocm_from_an_index_and_pytorch_from_a_page(
    uv: tuple[str, ...], call: Callable, rocm: IndexServer, torch: IndexServer
) -> None:
    words = ["--index-url", rocm.url(), "--find-links", torch.url("flat.html"), "--packages", "torch"]
    # What the caller has set for other installs counts for nothing.
    evil = {
        "PIP_INDEX_URL": "http://127.0.0.1:9/",
        "UV_DEFAULT_INDEX": "http://127.0.0.1:9/",
        "PIP_TARGET": "/x",
    }
    assert installed(call("v", *words, *uv, "--json", **evil)) == TORCH


@INSTALLERS
def test_pages_beside_the_callers_own_index(
    uv: tuple[str, ...], call: Callable, rocm: IndexServer, torch: IndexServer
) -> None:
    own = {"PIP_INDEX_URL": rocm.url(), "UV_DEFAULT_INDEX": rocm.url(), "PIP_TARGET": "/x", "PIP_USER": "1"}
    done = call("v", "--find-links", torch.url("flat.html"), "--packages", "torch", *uv, "--json", **own)
    assert installed(done) == TORCH
    # What is told, because it holds for both installers.
    assert "newer packages on your own index win" in done.stderr
    wheel(rocm.folder, "torch", "2.9.1", padding=9, tag="py3-none-any")
    done = call("w", "--find-links", torch.url("flat.html"), "--packages", "torch", *uv, "--json", **own)
    assert installed(done) == {"torch": "2.9.1"}


@INSTALLERS
def test_two_pages_and_no_index(
    uv: tuple[str, ...], call: Callable, rocm: IndexServer, torch: IndexServer
) -> None:
    pages = ["--find-links", rocm.url("flat.html"), "--find-links-url", torch.url("flat.html")]
    assert installed(call("v", "--index-url=", *pages, "--packages", "torch", *uv, "--json")) == TORCH
    # Nobody but the pages was asked, and each of them.
    assert {one.path.split("/")[1] for one in rocm.asked + torch.asked} <= {"flat.html", "files"}


@INSTALLERS
def test_a_subdirectory_of_an_index(uv: tuple[str, ...], call: Callable, rocm: IndexServer) -> None:
    words = ["--index-url", rocm.url(""), "--index-subdir", "simple", "--packages", "rocm-sdk-core"]
    assert installed(call("v", *words, *uv, "--json")) == {"rocm-sdk-core": "7.10.0"}


@INSTALLERS
def test_a_package_that_shows_later_is_waited_for(
    uv: tuple[str, ...], call: Callable, tmp_path: Path, rocm: IndexServer, torch: IndexServer
) -> None:
    late = next(torch.folder.glob("torch-*.whl"))
    aside = late.rename(tmp_path / late.name)

    def upload_when_asked() -> None:
        while not any("torch" in one.path for one in rocm.asked):
            pass_time.wait(0.05)
        shutil.copy(aside, rocm.folder / aside.name)

    pass_time = Event()
    uploader = Thread(target=upload_when_asked, daemon=True)
    uploader.start()
    waits = ["--install-retry-timeout-seconds", "60", "--install-retry-wait-between-seconds", "0.5"]
    done = call("v", "--index-url", rocm.url(), "--packages", "torch", *waits, *uv, "--json")
    uploader.join(10)
    assert installed(done) == TORCH
    assert json.loads(done.stdout)["tries"] >= 2
    assert "does not show the packages yet; trying again" in done.stderr


@INSTALLERS
def test_an_index_in_trouble_is_asked_again(uv: tuple[str, ...], call: Callable, rocm: IndexServer) -> None:
    rocm.manner.fails["simple/"] = 2
    waits = ["--install-retry-timeout-seconds", "60", "--install-retry-wait-between-seconds", "0.2"]
    done = call("v", "--index-url", rocm.url(), "--packages", "rocm-sdk-core", *waits, *uv, "--json")
    assert installed(done) == {"rocm-sdk-core": "7.10.0"}
    assert "the index answers with errors of its own; trying again" in done.stderr


@INSTALLERS
@pytest.mark.parametrize("wait", ["0", "0.6"])
def test_what_never_shows_ends_with_what_to_do(
    uv: tuple[str, ...], wait: str, call: Callable, rocm: IndexServer, tmp_path: Path
) -> None:
    waits = ["--install-retry-timeout-seconds", wait, "--install-retry-wait-between-seconds", "0.5"]
    github = tmp_path / "github"
    later = ["--activate-in-future-github-actions-steps"]
    words = ["--index-url", rocm.url(), "--packages", "torch==2.9.0", *waits, *uv, *later]
    done = call("v", *words, GITHUB_PATH=str(github), GITHUB_ENV=str(github))
    assert done.returncode == 7 and done.stdout == ""
    assert "next: not all of torch==2.9.0 can be found" in done.stderr
    assert ("trying again" in done.stderr) is (wait != "0")
    # An environment without what is tested is activated for nobody.
    assert not github.exists()


@INSTALLERS
def test_a_refused_login_is_not_waited_for(uv: tuple[str, ...], call: Callable, rocm: IndexServer) -> None:
    rocm.manner.login = "tester:geheim12"
    done = call("v", "--index-url", rocm.url(), "--packages", "rocm-sdk-core", *uv)
    assert done.returncode == 7 and "wants a login" in done.stderr and "trying again" not in done.stderr
    words = ["--index-url", rocm.url(login="tester:geheim12@"), "--packages", "rocm-sdk-core", *uv, "--json"]
    done = call("v", *words)
    assert installed(done) == {"rocm-sdk-core": "7.10.0"}
    assert "geheim12" not in done.stderr + done.stdout
    assert "geheim12" not in Path(json.loads(done.stdout)["log"]).read_text()


@INSTALLERS
def test_what_is_for_another_python_is_not_waited_for(
    uv: tuple[str, ...], call: Callable, rocm: IndexServer
) -> None:
    wheel(rocm.folder, "newer", "1", python=">=3.40", padding=9, tag="py3-none-any")
    done = call("v", "--index-url", rocm.url(), "--packages", "newer", *uv)
    assert done.returncode == 7 and "trying again" not in done.stderr
    assert "name another one with --python" in done.stderr


@INSTALLERS
def test_a_directory_that_lacks_a_package_is_not_waited_for(
    uv: tuple[str, ...], call: Callable, rocm: IndexServer
) -> None:
    done = call("v", "--index-url=", "--find-links", rocm.folder, "--packages", "torch", *uv)
    assert done.returncode == 7 and "trying again" not in done.stderr


@INSTALLERS
def test_prereleases_are_taken_where_they_are_asked_for(
    uv: tuple[str, ...], call: Callable, rocm: IndexServer
) -> None:
    wheel(rocm.folder, "rocm-sdk-core", "7.11.0a20260427", padding=9, tag="py3-none-any")
    words = ["v", "--index-url", rocm.url(), "--packages", "rocm-sdk-core", *uv, "--json"]
    assert installed(call(*words)) == {"rocm-sdk-core": "7.10.0"}
    assert installed(call("w", *words[1:], "--pre")) == {"rocm-sdk-core": "7.11.0a20260427"}


@INSTALLERS
def test_the_gpus_of_an_earlier_install_are_forgotten(
    uv: tuple[str, ...], call: Callable, tmp_path: Path
) -> None:
    folder = tmp_path / "wheels"
    for one in ("gfx942", "gfx1100"):
        wheel(folder, f"device-{one}", "1", padding=9, tag="py3-none-any")
    members = {
        "PKG-INFO": "Metadata-Version: 2.1\nName: rocm\nVersion: 7.10.0\n",
        "chooser.py": CHOOSER,
        "pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "chooser"\nbackend-path = ["."]\n',
    }
    with tarfile.open(folder / "rocm-7.10.0.tar.gz", "w:gz") as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(f"rocm-7.10.0/{name}")
            member.size = len(text)
            archive.addfile(member, BytesIO(text.encode()))
    for root, choice in (("v", "gfx942"), ("w", "gfx1100")):
        done = call(
            *(root, "--index-url=", "--find-links", folder, "--packages", "rocm", *uv, "--json"),
            CHOICE=choice,
        )
        assert installed(done) == {"rocm": "7.10.0", f"device-{choice}": "1"}


@INSTALLERS
def test_later_steps_of_a_job_run_in_it(uv: tuple[str, ...], call: Callable, tmp_path: Path) -> None:
    files = {name: str(tmp_path / name) for name in ("GITHUB_PATH", "GITHUB_ENV")}
    done = call("v", "--clean", *uv, "--activate-in-future-github-actions-steps", **files)
    assert done.returncode == 0 and "warning" not in done.stderr
    assert Path(files["GITHUB_PATH"]).read_text() == f"{tmp_path}/v/bin\n"
    assert Path(files["GITHUB_ENV"]).read_text() == f"VIRTUAL_ENV={tmp_path}/v\n"
    # pip of the environment, not another one of the machine; with uv there is none.
    assert (tmp_path / "v/bin/pip").exists() is (not uv)
    done = call("v", "--activate-in-future-github-actions-steps", GITHUB_ENV="", GITHUB_PATH="")
    assert done.returncode == 0 and "$GITHUB_PATH is not set" in done.stderr

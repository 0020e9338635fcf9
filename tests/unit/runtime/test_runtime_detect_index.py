"""`rocwright-detect --index` asks the index: which lines it prints, and what it says where there are none."""

from __future__ import annotations

import gzip
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import fake_machine
import pytest

EIGHT = sorted((Path.home() / ".pyenv/versions").glob("3.8*/bin/python"))
PYTHONS = [sys.executable, *map(str, EIGHT[:1])]
LINUX = "linux_x86_64"
ROCM = "7.11.0"


@dataclass
class Site:
    """A server: what it answers by path (status, headers, body), and what it was asked for."""

    url: str = ""
    pages: dict[str, tuple[int, dict[str, str], bytes]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)

    def put(
        self, path: str, body: str | bytes, kind: str = "text/html", status: int = 200, **more: str
    ) -> None:
        data = body.encode() if isinstance(body, str) else body
        headers = {"Content-Type": kind, **{name.replace("_", "-"): value for name, value in more.items()}}
        self.pages[path] = (status, headers, data)

    def project(self, below: str, name: str, files: dict[str, str | None], *, form: str = "html") -> None:
        """A project's page; `files` are names with the METADATA that is offered for them."""
        for file, about in files.items():
            if about is not None:
                self.put(f"{below}{name}/{file.replace('+', '%2B')}.metadata", about)
        if form == "json":
            rows = [
                {
                    "filename": file,
                    "url": file.replace("+", "%2B"),
                    "hashes": {},
                    "core-metadata": about is not None,
                }
                for file, about in files.items()
            ]
            page = {"meta": {"api-version": "1.1"}, "name": name, "files": rows}
            self.put(f"{below}{name}/", json.dumps(page), "application/vnd.pypi.simple.v1+json")
            return
        links = ""
        for file, about in files.items():
            said = " data-core-metadata=true" if about else ""
            links += f'<a href="{file.replace("+", "%2B")}#sha256=0"{said}>{file}</a>\n'
        self.put(f"{below}{name}/", f"<!DOCTYPE html><html><body>{links}</body></html>")

    def root(self, below: str, names: list[str]) -> None:
        links = "".join(f'<a href="{name}/">{name}</a>\n' for name in names)
        self.put(below, f"<!DOCTYPE html><html><body>{links}</body></html>")


@pytest.fixture
def site() -> Iterator[Site]:
    """A server of this machine, at an address of its own."""
    found = Site()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found.asked.append(self.path)
            found.logins.append(self.headers["Authorization"])
            status, headers, body = found.pages.get(self.path, (404, {"Content-Type": "text/html"}, b"no"))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        found.url = f"http://127.0.0.1:{server.server_address[1]}/"
        yield found
        server.shutdown()
        thread.join()


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_machine.package(tmp_path_factory.mktemp("site"))


@pytest.fixture
def detect(package: Path) -> Run:
    def run(*words: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [python, "-S", "-W", "error", "-m", "rocwright_detect", *words],
            env={"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert "Traceback" not in done.stderr
        return done

    return run


def about(name: str, version: str, *lines: str) -> str:
    return "\n".join(
        ["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}", *lines, "", "words", ""]
    )


def split(name: str, version: str, *needs: str, targets: tuple[str, ...] = ("gfx942", "gfx1100")) -> str:
    """METADATA of a wheel whose device code lies in packages of their own."""
    extras = [
        line
        for target in targets
        for line in (
            f"Provides-Extra: device-{target}",
            f'Requires-Dist: amd-{name}-device-{target}=={version}; extra == "device-{target}"',
        )
    ]
    return about(name, version, *(f"Requires-Dist: {need}" for need in needs), *extras)


def multi_arch(
    site: Site, *, form: str = "html", vision: bool = True, pythons: tuple[str, ...] = ("311", "312")
) -> None:
    """An index with an extra for each target, in two versions of torch; below /whl/."""
    own = f"+rocm{ROCM}"
    torch = {}
    for version in (f"2.9.0{own}", f"2.10.0{own}"):
        needs = (
            f"rocm[libraries]=={ROCM}",
            f"triton==3.5.0{own}; platform_system == 'Linux'",
            "filelock",
            "numpy; extra == 'opt'",
        )
        for python in pythons:
            torch[f"torch-{version}-cp{python}-cp{python}-{LINUX}.whl"] = split("torch", version, *needs)
    site.project("/whl/", "torch", torch, form=form)
    names = ["torch", "rocm", "rocm-sdk-core", "rocm-sdk-libraries", "triton", "filelock"]
    for target in ("gfx942", "gfx1100"):
        names += [f"amd-torch-device-{target}", f"rocm-sdk-device-{target}"]
        files = {
            f"amd_torch_device_{target}-{version}{own}-py3-none-{LINUX}.whl": None
            for version in ("2.9.0", "2.10.0")
        }
        site.project("/whl/", f"amd-torch-device-{target}", files, form=form)
    site.project("/whl/", "rocm", {f"rocm-{ROCM}.tar.gz": None}, form=form)
    triton = {f"triton-3.5.0{own}-cp{python}-cp{python}-{LINUX}.whl": None for python in pythons}
    site.project("/whl/", "triton", triton, form=form)
    if vision:
        names.append("torchvision")
        files = {}
        for number, needed in (("0.24.0", "2.9.0"), ("0.25.0", "2.10.0")):
            text = about("torchvision", number + own, f"Requires-Dist: torch=={needed}{own}")
            files |= {
                f"torchvision-{number}{own}-cp{python}-cp{python}-{LINUX}.whl": text for python in pythons
            }
        site.project("/whl/", "torchvision", files, form=form)
    site.root("/whl/", names)


@pytest.mark.parametrize("form", ["html", "json"])
@pytest.mark.parametrize("python", PYTHONS)
def test_only_what_is_there_stands_in_the_lines(detect: Run, site: Site, python: str, form: str) -> None:
    """No torchaudio, which is not there; torchvision without an extra, which it has none of."""
    multi_arch(site, form=form)
    index = f"{site.url}whl/"
    done = detect("--target", "gfx942", "--index", index.rstrip("/"), "--python", "3.12", python=python)
    assert done.returncode == 0, done.stderr
    words = f'"torch[device-gfx942]==2.10.0+rocm{ROCM}" torchvision==0.25.0+rocm{ROCM}'
    assert done.stdout.splitlines()[2:4] == [
        f"pip install --index-url {index} {words}",
        f"uv pip install --default-index {index} {words}",
    ]
    assert "torchaudio" not in done.stdout
    assert done.stderr.splitlines() == [
        "torchaudio is left out: there is none for Python 3.12 on Linux, x86_64",
        f"checked against the index ({len(site.asked)} requests); torch is there for Python 3.11 3.12",
    ]
    assert len(site.asked) == len(set(site.asked)) <= 10


def test_two_gpus_share_a_line_where_one_index_has_both(detect: Run, site: Site) -> None:
    multi_arch(site)
    done = detect("--target", "gfx942,gfx1100", "--index", f"{site.url}whl/", "--python", "3.11", "--json")
    report = json.loads(done.stdout)
    (one,) = report["install"]
    assert f'"torch[device-gfx942,device-gfx1100]==2.10.0+rocm{ROCM}"' in one["pip"]
    assert one["for"] == ["gfx942", "gfx1100"]
    assert report["asked"] == {
        "index": f"{site.url}whl/",
        "requests": len(site.asked),
        "problem": None,
        "targets": ["gfx942", "gfx1100"],
        "families": [],
        "pythons": ["3.11", "3.12"],
    }
    # uv takes all of these from the index, and what is not of ROCm from elsewhere.
    for name in (
        "torch",
        "triton",
        "rocm",
        "rocm-sdk-core",
        "rocm-sdk-device-gfx942",
        "amd-torch-device-gfx1100",
    ):
        assert f'{name} = {{ index = "rocm" }}' in one["pyproject"]
    assert "filelock" not in one["pyproject"]


def test_a_gpu_that_the_index_lacks_is_3_with_what_it_has(detect: Run, site: Site) -> None:
    multi_arch(site)
    done = detect("--target", "gfx1201", "--index", f"{site.url}whl/", "--python", "3.12")
    assert (done.returncode, done.stdout) == (3, "0  gfx1201\n")
    assert f"{site.url}whl/ has no device code for gfx1201; it has: gfx942 gfx1100\n" in done.stderr
    done = detect("--target", "gfx1201,gfx942", "--index", f"{site.url}whl/", "--python", "3.12")
    assert done.returncode == 3
    assert f'"torch[device-gfx942]==2.10.0+rocm{ROCM}"' in done.stdout
    assert "has nothing for gfx1201" in done.stderr


def test_a_version_that_is_not_there_is_3_with_those_that_are(detect: Run, site: Site) -> None:
    multi_arch(site)
    words = ("--target", "gfx942", "--index", f"{site.url}whl/", "--python", "3.12")
    done = detect(*words, "--torch", "2.8")
    assert (done.returncode, done.stdout) == (3, "0  gfx942\n")
    assert f"has no torch 2.8.*; it has: 2.10.0+rocm{ROCM} 2.9.0+rocm{ROCM}\n" in done.stderr
    done = detect(*words, "--torch", "2.9")
    assert done.returncode == 0
    assert f'"torch[device-gfx942]==2.9.0+rocm{ROCM}" torchvision==0.24.0+rocm{ROCM}\n' in done.stdout


def test_a_python_without_a_wheel_is_3_with_those_that_have_one(detect: Run, site: Site) -> None:
    multi_arch(site)
    done = detect("--target", "gfx942", "--index", f"{site.url}whl/", "--python", "3.14")
    assert (done.returncode, done.stdout) == (3, "0  gfx942\n")
    assert (
        "no wheel of torch for Python 3.14 on Linux, x86_64; it has some for Python 3.11 3.12" in done.stderr
    )


def test_wheels_of_the_stable_abi_without_the_lock(detect: Run, site: Site) -> None:
    """PEP 803: such a wheel is for 3.15t and later ones without the lock, and for no other."""
    multi_arch(site, pythons=("315",))
    words = ("--target", "gfx942", "--index", f"{site.url}whl/", "--python")
    assert detect(*words, "3.15").returncode == 0
    version = f"2.10.0+rocm{ROCM}"
    wheel = {f"torch-{version}-cp315-abi3t-{LINUX}.whl": split("torch", version)}
    site.project("/whl/", "torch", wheel)
    done = detect(*words, "3.15")
    assert "no wheel of torch for Python 3.15 on Linux, x86_64; it has some for Python 3.15t+" in done.stderr
    assert detect(*words, "3.15t").returncode == 0


def test_a_platform_without_a_wheel_is_3(detect: Run, site: Site, tmp_path: Path) -> None:
    multi_arch(site)
    file = tmp_path / "gpus.txt"
    file.write_text(r"PCI\VEN_1002&DEV_744C&SUBSYS_0&REV_C8\1")
    done = detect("--from-windows", str(file), "--index", f"{site.url}whl/", "--python", "3.12")
    assert done.returncode == 3
    assert "has no wheel of torch for Windows, x86_64" in done.stderr


def test_torchvision_for_another_torch_is_left_out(detect: Run, site: Site) -> None:
    multi_arch(site, vision=False)
    name = f"torchvision-0.24.0+rocm{ROCM}-cp312-cp312-{LINUX}.whl"
    text = about("torchvision", f"0.24.0+rocm{ROCM}", f"Requires-Dist: torch (==2.9.0+rocm{ROCM})")
    site.project("/whl/", "torchvision", {name: text})
    done = detect("--target", "gfx942", "--index", f"{site.url}whl/", "--python", "3.12")
    assert "torchvision" not in done.stdout
    assert (
        f"torchvision is left out: torchvision 0.24.0+rocm{ROCM} needs torch==2.9.0+rocm{ROCM}\n"
        in done.stderr
    )


def test_a_torch_whose_rocm_is_not_there_is_passed_over(detect: Run, site: Site) -> None:
    """The newest needs a triton that nobody uploaded; the one before is whole."""
    multi_arch(site)
    own = f"+rocm{ROCM}"
    files = {
        f"torch-{version}{own}-cp312-cp312-{LINUX}.whl": split(
            "torch", version + own, f"triton=={triton}{own}"
        )
        for version, triton in (("2.10.0", "3.6.0"), ("2.9.0", "3.5.0"))
    }
    site.project("/whl/", "torch", files)
    done = detect("--target", "gfx942", "--index", f"{site.url}whl/", "--python", "3.12")
    assert done.returncode == 0, done.stderr
    assert f'"torch[device-gfx942]==2.9.0{own}" torchvision==0.24.0{own}\n' in done.stdout


def test_a_gpu_that_only_an_earlier_torch_has_gets_that_one(detect: Run, site: Site) -> None:
    multi_arch(site)
    own = f"+rocm{ROCM}"
    files = {
        f"torch-{version}{own}-cp312-cp312-{LINUX}.whl": split("torch", version + own, targets=targets)
        for version, targets in (("2.10.0", ("gfx942",)), ("2.9.0", ("gfx942", "gfx90a")))
    }
    site.project("/whl/", "torch", files)
    name = f"amd_torch_device_gfx90a-2.9.0{own}-py3-none-{LINUX}.whl"
    site.project("/whl/", "amd-torch-device-gfx90a", {name: None})
    done = detect("--target", "gfx90a", "--index", f"{site.url}whl/", "--python", "3.12")
    assert done.returncode == 0, done.stderr
    assert f'"torch[device-gfx90a]==2.9.0{own}" torchvision==0.24.0{own}\n' in done.stdout


def test_an_extra_whose_package_is_not_there_is_3(detect: Run, site: Site) -> None:
    multi_arch(site)
    del site.pages["/whl/amd-torch-device-gfx1100/"]
    done = detect("--target", "gfx1100", "--index", f"{site.url}whl/", "--python", "3.12")
    assert (done.returncode, done.stdout) == (3, "0  gfx1100\n")
    assert f"needs amd-torch-device-gfx1100==2.10.0+rocm{ROCM}, which is not there\n" in done.stderr


def test_what_is_needed_from_elsewhere_is_said(detect: Run, site: Site) -> None:
    multi_arch(site)
    site.root("/whl/", ["torch", "rocm", "triton", "torchvision"])
    done = detect("--target", "gfx942", "--index", f"{site.url}whl/", "--python", "3.12")
    assert done.returncode == 0
    assert "not on this index, and needed: install them first: pip install filelock\n" in done.stderr
    assert "numpy" not in done.stderr


def test_prereleases_are_told_to_installers(detect: Run, site: Site) -> None:
    own = "+rocm7.11.0a20261120"
    files = {f"torch-2.10.0a0{own}-cp312-cp312-{LINUX}.whl": split("torch", f"2.10.0a0{own}")}
    site.project("/whl/", "torch", files)
    site.project(
        "/whl/", "amd-torch-device-gfx942", {f"amd_torch_device_gfx942-2.10.0a0{own}-py3-none-any.whl": None}
    )
    done = detect("--target", "gfx942", "--index", f"{site.url}whl/", "--python", "3.12")
    line = f'--index-url {site.url}whl/ --pre "torch[device-gfx942]==2.10.0a0{own}"'
    assert f"pip install {line}\n" in done.stdout
    assert 'prerelease = "allow"' in done.stdout


def test_without_metadata_the_names_of_device_packages_decide(detect: Run, site: Site) -> None:
    own = f"+rocm{ROCM}"
    site.project("/whl/", "torch", {f"torch-2.9.0{own}-cp312-cp312-{LINUX}.whl": None})
    site.project(
        "/whl/", "amd-torch-device-gfx942", {f"amd_torch_device_gfx942-2.9.0{own}-py3-none-any.whl": None}
    )
    site.root("/whl/", ["torch", "amd-torch-device-gfx942"])
    done = detect("--target", "gfx942", "--index", f"{site.url}whl/", "--python", "3.12")
    assert (done.returncode, f'"torch[device-gfx942]==2.9.0{own}"\n' in done.stdout) == (0, True)
    assert "(no METADATA beside them): not looked at" in done.stderr
    done = detect("--target", "gfx90a", "--index", f"{site.url}whl/", "--python", "3.12")
    assert done.returncode == 3
    assert "has no device code for gfx90a; it has: gfx942" in done.stderr


def families(site: Site, *names: str) -> None:
    """A directory for each family, below /v2/; torch needs nothing but ROCm."""
    for name in names:
        below = f"/v2/{name}/"
        for project, version in (("torch", "2.9.0"), ("torchvision", "0.24.0"), ("torchaudio", "2.9.0")):
            need = "rocm==7.1.0" if project == "torch" else "torch==2.9.0+rocm7.1.0"
            text = about(project, f"{version}+rocm7.1.0", f"Requires-Dist: {need}")
            site.project(below, project, {f"{project}-{version}+rocm7.1.0-cp312-cp312-{LINUX}.whl": text})
        site.project(below, "rocm", {"rocm-7.1.0.tar.gz": None})
        site.root(below, ["torch", "torchvision", "torchaudio", "rocm"])


WORDS = "torch==2.9.0+rocm7.1.0 torchvision==0.24.0+rocm7.1.0 torchaudio==2.9.0+rocm7.1.0"


@pytest.mark.parametrize("listed", [True, False], ids=["listed", "not listed"])
def test_a_directory_for_each_family_is_found_out(detect: Run, site: Site, listed: bool) -> None:
    families(site, "gfx110X-all", "gfx94X-dcgpu")
    if listed:
        site.root("/v2/", ["gfx110X-all", "gfx94X-dcgpu"])
    done = detect("--target", "gfx1101,gfx942", "--index", f"{site.url}v2/", "--python", "3.12")
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line.startswith("pip")] == [
        f"pip install --index-url {site.url}v2/gfx110X-all/ {WORDS}",
        f"pip install --index-url {site.url}v2/gfx94X-dcgpu/ {WORDS}",
    ]


def test_a_family_that_is_not_there_is_3_with_those_that_are(detect: Run, site: Site) -> None:
    families(site, "gfx110X-all")
    site.root("/v2/", ["gfx110X-all"])
    done = detect("--target", "gfx942", "--index", f"{site.url}v2/", "--python", "3.12")
    assert (done.returncode, done.stdout) == (3, "0  gfx942\n")
    said = "has no family with gfx942; it has: gfx110X-all (gfx1100 gfx1101 gfx1102 gfx1103)\n"
    assert f"{site.url}v2/ {said}" in done.stderr


def test_the_index_of_one_family_serves_its_targets_alone(detect: Run, site: Site) -> None:
    families(site, "gfx110X-all")
    index = f"{site.url}v2/gfx110X-all/"
    done = detect("--target", "gfx1103", "--index", index, "--python", "3.12")
    assert (done.returncode, f"pip install --index-url {index} {WORDS}\n" in done.stdout) == (0, True)
    done = detect("--target", "gfx942", "--index", index, "--python", "3.12")
    assert done.returncode == 3
    assert f"{index} is for gfx1100 gfx1101 gfx1102 gfx1103, not for gfx942\n" in done.stderr


def test_an_index_that_does_not_say_for_which_gpus_it_is_is_3(detect: Run, site: Site) -> None:
    families(site, "somewhere")
    done = detect("--target", "gfx942", "--index", f"{site.url}v2/somewhere/", "--python", "3.12")
    assert done.returncode == 3
    assert f"pip install --index-url {site.url}v2/somewhere/ {WORDS}\n" in done.stdout
    assert "does not say whether it is for gfx942" in done.stderr


def test_the_library_packages_name_the_family(detect: Run, site: Site) -> None:
    families(site, "somewhere")
    site.root(
        "/v2/somewhere/", ["torch", "torchvision", "torchaudio", "rocm", "rocm-sdk-libraries-gfx94x-dcgpu"]
    )
    words = ("--index", f"{site.url}v2/somewhere/", "--python", "3.12")
    assert detect("--target", "gfx942", *words).returncode == 0
    assert "is for gfx942, not for gfx1100" in detect("--target", "gfx1100", *words).stderr


# ---- dead and foreign ----


def problem(done: subprocess.CompletedProcess[str]) -> str:
    assert (done.returncode, done.stdout) == (5, "0  gfx942\n")
    return done.stderr.splitlines()[-1]


def test_nobody_answers(detect: Run) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        said = problem(detect("--target", "gfx942", "--index", url))
    assert said == f"{url}torch/ cannot be reached: Connection refused (1 request)"


def test_a_server_that_says_nothing_is_given_up(package: Path) -> None:
    """Its silence is waited for shorter here than for people."""
    code = (
        "from rocwright_detect import _fetch; _fetch.SILENT = 0.2\n"
        "from rocwright_detect._cli import main; import sys; sys.exit(main())"
    )
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/"
        done = subprocess.run(
            [sys.executable, "-c", code, "--target", "gfx942", "--index", url],
            env={"PYTHONPATH": str(package), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert "timed out" in problem(done)


@pytest.mark.parametrize("status", [404, 403])
def test_an_address_with_nothing(detect: Run, site: Site, status: int) -> None:
    for path in ("/x/", "/x/torch/", "/x/gfx94X-dcgpu/torch/"):
        site.put(path, "no", status=status)
    said = problem(detect("--target", "gfx942", "--index", f"{site.url}x/"))
    assert said.startswith(
        f"{site.url}x/ is no index of PyTorch for AMD GPUs: it has no torch, and no directory"
    )


def test_a_broken_server(detect: Run, site: Site) -> None:
    site.put("/x/torch/", "oh", status=503)
    assert "answers 503" in problem(detect("--target", "gfx942", "--index", f"{site.url}x/"))


FOREIGN = (
    "<!doctype html><title>Shop</title><a href='/cart'>cart</a><a href='https://a.example/login'>log in</a>"
)


@pytest.mark.parametrize(
    "page",
    [
        FOREIGN,
        "",
        "\x00\x01\x02",
        "<a href",
        "<![endif",
        "<a href='http://[::1'>x</a>",
        "<" * 5000,
        "plain text",
    ],
)
def test_a_page_that_is_no_index(detect: Run, site: Site, page: str) -> None:
    """It answers everything with the same page, as some sites do."""
    for path in ("/x/", "/x/torch/", "/x/gfx94X-dcgpu/torch/", "/x/_landing.json"):
        site.put(path, page)
    said = problem(detect("--target", "gfx942", "--index", f"{site.url}x/"))
    assert "is no index of PyTorch for AMD GPUs" in said
    if page == FOREIGN:
        assert "; it leads to: cart login (" in said


def test_another_index(detect: Run, site: Site) -> None:
    site.root("/x/", ["numpy", "scipy"])
    said = problem(detect("--target", "gfx942", "--index", f"{site.url}x/"))
    assert "it has no torch, and no directory of a family of GPUs; it leads to: numpy scipy (" in said


@pytest.mark.parametrize(
    "text", ["{", "[]", '"files"', '{"files": 3}', "[" * 100_000, '{"files": [{"url": 1}, 2]}']
)
def test_json_that_is_no_page(detect: Run, site: Site, text: str) -> None:
    for path in ("/x/", "/x/torch/"):
        site.put(path, text, "application/vnd.pypi.simple.v1+json")
    assert "no " in problem(detect("--target", "gfx942", "--index", f"{site.url}x/"))


def test_a_page_without_an_end(detect: Run, site: Site) -> None:
    site.put("/x/torch/", b" " * ((16 << 20) + 1))
    assert "is larger than 16 MiB" in problem(detect("--target", "gfx942", "--index", f"{site.url}x/"))
    site.put("/x/torch/", gzip.compress(b" " * ((16 << 20) + 1)), Content_Encoding="gzip")
    assert "is larger than 16 MiB" in problem(detect("--target", "gfx942", "--index", f"{site.url}x/"))


def test_names_of_files_are_no_commands(detect: Run, site: Site) -> None:
    """A version that a shell would obey is none, and what a terminal would obey is not printed."""
    site.put("/x/torch/", '<a href="torch-2.9.0%60id%60-cp312-cp312-linux_x86_64.whl">x</a>')
    site.put("/x/", '<a href="a%1b%5b31mb/">x</a>')
    said = problem(detect("--target", "gfx942", "--index", f"{site.url}x/", "--python", "3.12"))
    assert "it leads to: a?[31mb (" in said


def test_redirects_are_followed_but_not_to_files(detect: Run, site: Site) -> None:
    multi_arch(site)
    site.put("/x/torch/", "", status=301, Location=f"{site.url}whl/torch/")
    site.put("/x/", "", status=302, Location="/whl/")
    for name in ("amd-torch-device-gfx942", "rocm", "triton", "torchvision", "torchaudio"):
        site.put(f"/x/{name}/", "", status=308, Location=f"../../whl/{name}/")
    words = ("--target", "gfx942", "--index", f"{site.url}x/", "--python", "3.12")
    done = detect(*words)
    assert (done.returncode, f"--index-url {site.url}x/ " in done.stdout) == (0, True), done.stderr
    assert f"checked against the index ({len(site.asked)} requests)" in done.stderr
    site.put("/x/torch/", "", status=301, Location="file:///etc/passwd")
    assert "'file:///etc/passwd' is not allowed" in problem(detect(*words))
    site.put("/x/torch/", "", status=301, Location="/x/torch/")
    assert "torch/ answers 301" in problem(detect(*words))


def test_a_login_reaches_its_server_no_message_and_no_other_server(detect: Run, site: Site) -> None:
    address = site.url.replace("//", "//me:secret@")
    said = problem(detect("--target", "gfx942", "--index", f"{address}x/"))
    assert "secret" not in said
    # me:secret in base64.
    assert set(site.logins) == {"Basic bWU6c2VjcmV0"}
    # The same server under another name.
    site.put("/x/torch/", "", status=301, Location=site.url.replace("127.0.0.1", "localhost") + "x/")
    site.put("/x/", "")
    site.logins.clear()
    problem(detect("--target", "gfx942", "--index", f"{address}x/"))
    assert site.logins[:2] == ["Basic bWU6c2VjcmV0", None]


def test_a_compressed_page(detect: Run, site: Site) -> None:
    multi_arch(site)
    _, headers, body = site.pages["/whl/torch/"]
    site.put("/whl/torch/", gzip.compress(body), **{**headers, "Content_Encoding": "gzip"})
    done = detect("--target", "gfx942", "--index", f"{site.url}whl/", "--python", "3.12")
    assert done.returncode == 0, done.stderr


# ---- directories ----


def test_a_directory_of_this_machine(detect: Run, tmp_path: Path) -> None:
    folder = tmp_path / "whl" / "torch"
    folder.mkdir(parents=True)
    name = f"torch-2.9.0-cp312-cp312-{LINUX}.whl"
    (folder / "index.html").write_text(f'<a href="{name}" data-core-metadata="true">{name}</a>')
    (folder / f"{name}.metadata").write_text(about("torch", "2.9.0"))
    (tmp_path / "whl" / "index.html").write_text(
        '<a href="torch/">torch</a><a href="rocm-sdk-libraries-gfx90a/">rocm-sdk-libraries-gfx90a</a>'
    )
    for index in (str(tmp_path / "whl"), f"{(tmp_path / 'whl').as_uri()}/"):
        done = detect("--target", "gfx90a", "--index", index, "--python", "3.12")
        assert done.returncode == 0, done.stderr
        assert f"pip install --index-url {(tmp_path / 'whl').as_uri()}/ torch==2.9.0\n" in done.stdout
        assert "checked against the index (0 requests)" in done.stderr
    done = detect("--target", "gfx90a", "--index", str(tmp_path))
    assert (done.returncode, "is no index of PyTorch" in done.stderr) == (5, True)

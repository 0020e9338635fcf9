"""`rocwright-detect` at its door: what it prints, its exit codes; with Python 3.8 where there is one."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import fake_machine
import pytest
from fake_machine import Machine, row

from rocwright.data.toml import plain

INDEX = "https://packages.example.org/rocm/"
STABLE = "https://stable.repo.amd.com/rocm/whl-next/"
UNCHECKED = "not checked against the index: what it really has shows when you install\n"
EIGHT = sorted((Path.home() / ".pyenv/versions").glob("3.8*/bin/python"))
PYTHONS = [sys.executable, *map(str, EIGHT[:1])]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_machine.package(tmp_path_factory.mktemp("site"))


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path / "root")


@pytest.fixture
def detect(site: Path, machine: Machine):
    """Runs the command on the machine, without site-packages: the standard library has to do."""

    def run(*words: str, python: str = sys.executable, **more: object) -> subprocess.CompletedProcess[str]:
        verb, rest = (words[:1], words[1:]) if words[:1] == ("view",) else ((), words)
        root = ("--root", str(machine.root))
        done = subprocess.run(
            [python, "-S", "-W", "error", "-m", "rocwright_detect", *verb, *root, *rest],
            env={"PATH": os.environ["PATH"], "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"},
            capture_output=True,
            text=True,
            timeout=60,
            **more,
        )
        assert "Traceback" not in done.stderr
        return done

    return run


@pytest.mark.parametrize("python", PYTHONS)
def test_gpus_in_lines(detect, machine: Machine, python: str) -> None:
    machine.gpu(row("164e"))
    machine.gpu(row("744c"))
    done = detect(python=python)
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "0  gfx1036  AMD Radeon 610M  0000:03:00.0",
        "1  gfx1100  AMD Radeon RX 7900 XTX  0000:04:00.0",
    ]
    extras = "[device-gfx1036,device-gfx1100]"
    assert done.stderr.splitlines() == [
        "to install PyTorch, not checked (--index-name stable asks the index):",
        f'  pip install --index-url {STABLE} "torch{extras}" "torchvision{extras}" torchaudio',
    ]


def test_an_index_by_its_name(detect, machine: Machine) -> None:
    machine.gpu(row("1586"))
    for name, address in (("stable", STABLE), ("nightly", "https://nightly.repo.amd.com/rocm/whl-next/")):
        done = detect("--index-name", name, "--offline")
        assert (done.returncode, done.stderr) == (0, UNCHECKED)
        line = f'pip install --index-url {address} "torch[device-gfx1151]" "torchvision[device-gfx1151]"'
        assert f"{line} torchaudio" in done.stdout.splitlines()


@pytest.mark.parametrize("python", PYTHONS)
def test_the_lines_for_an_index_with_an_extra_for_each_target(detect, machine: Machine, python: str) -> None:
    machine.gpu(row("744c"))
    machine.gpu(row("744c"))
    machine.gpu(row("7550"))
    done = detect("--index", INDEX, "--offline", "--torch", "2.9.0", python=python)
    assert (done.returncode, done.stderr) == (0, UNCHECKED)
    extras = "[device-gfx1100,device-gfx1201]"
    words = f'"torch{extras}==2.9.0" "torchvision{extras}" torchaudio'
    assert done.stdout.splitlines()[3:7] == [
        "",
        f"pip install --index-url {INDEX} {words}",
        f"uv pip install --default-index {INDEX} {words}",
        "",
    ]


def test_the_snippet_for_uv_takes_everything_of_rocm_from_the_index(detect, machine: Machine) -> None:
    machine.gpu(row("74a1"))
    (one,) = json.loads(detect("--index", INDEX, "--offline", "--json").stdout)["install"]
    snippet = plain(one["pyproject"], where="pyproject.toml")
    assert snippet["project"]["dependencies"] == [
        "torch[device-gfx942]",
        "torchvision[device-gfx942]",
        "torchaudio",
    ]
    (index,) = snippet["tool"]["uv"]["index"]
    assert index == {"name": "rocm", "url": INDEX, "explicit": True}
    sources = snippet["tool"]["uv"]["sources"]
    assert set(sources) == {
        *("torch", "torchvision", "torchaudio", "triton"),
        *("rocm", "rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-device-gfx942"),
        *("amd-torch-device-gfx942", "amd-torchvision-device-gfx942"),
    }
    # Without a version uv 0.13 takes no notice of a constraint.
    assert set(snippet["tool"]["uv"]["constraint-dependencies"]) == {f"{name}>=0" for name in sources}
    assert "prerelease" not in snippet["tool"]["uv"]


def test_the_lines_for_an_index_with_a_directory_for_each_family(detect, machine: Machine) -> None:
    """One environment holds one family; so there is a line for each."""
    machine.gpu(row("744c"))
    machine.gpu(row("15bf"))
    machine.gpu(row("7590"))
    done = detect("--index", INDEX.rstrip("/"), "--kind", "family", "--pre", "--offline")
    assert done.returncode == 0
    lines = [line for line in done.stdout.splitlines() if line.startswith("pip")]
    assert lines == [
        f"pip install --index-url {INDEX}gfx110X-all/ --pre torch torchvision torchaudio",
        f"pip install --index-url {INDEX}gfx120X-all/ --pre torch torchvision torchaudio",
    ]
    assert done.stderr.splitlines() == [
        UNCHECKED.strip(),
        "one environment holds one family; for gfx1100 gfx1103:",
        "one environment holds one family; for gfx1200:",
    ]
    assert 'prerelease = "allow"' in done.stdout
    assert '    "rocm-sdk-libraries-gfx120x-all>=0",' in done.stdout


@pytest.mark.parametrize(
    ("version", "pin", "before"),
    [
        ("2.9", "==2.9.*", ""),
        ("2.9.0", "==2.9.0", ""),
        ("2.10.0a0+rocm7.10.0", "==2.10.0a0+rocm7.10.0", "--pre "),
    ],
)
def test_versions_of_torch(detect, version: str, pin: str, before: str) -> None:
    done = detect("--target", "gfx90a", "--index", INDEX, "--kind", "family", "--torch", version, "--offline")
    word = f'"torch{pin}"' if "*" in pin else f"torch{pin}"
    wanted = f"pip install --index-url {INDEX}gfx90a/ {before}{word} torchvision torchaudio"
    assert done.stdout.splitlines()[2] == wanted


def test_no_gpu_is_1(detect) -> None:
    done = detect("--index", INDEX)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "no AMD GPU is visible here\n")


def test_an_unknown_gpu_is_3_and_the_known_one_keeps_its_line(detect, machine: Machine) -> None:
    machine.pci("744c", "c8")
    machine.pci("759f", "c0")
    done = detect("--index", INDEX, "--offline")
    assert done.returncode == 3
    assert done.stdout.splitlines()[1] == "1  unknown  0x759f  0000:04:00.0"
    assert '"torch[device-gfx1100]"' in done.stdout
    assert (
        "PCI id 1002:759f is not in the table, so its target is not known; "
        "ids beside it are of: gfx1200. If you know it: --target\n"
    ) in done.stderr


def test_gpus_that_could_not_be_looked_at_are_3_and_not_none(detect, machine: Machine) -> None:
    (machine.nodes / "1/properties").mkdir(parents=True)
    done = detect()
    assert (done.returncode, done.stdout) == (3, "")
    assert "1/properties: Is a directory" in done.stderr


def test_a_gpu_without_packages_is_3_with_what_is_near(detect, machine: Machine) -> None:
    machine.gpu(row("67df"))
    assert detect().returncode == 0
    done = detect("--index", INDEX, "--offline")
    assert done.returncode == 3
    assert done.stdout == "0  gfx803  AMD Radeon RX 580 Series  0000:03:00.0\n"
    assert done.stderr.startswith(
        "no packages are published for gfx803 on Linux; there are some for: gfx1010 "
    )


def test_packages_of_windows_are_those_of_windows(detect, tmp_path: Path) -> None:
    """There is no Instinct below Windows: its families are built for Linux alone."""
    file = tmp_path / "gpus.txt"
    file.write_text(r"PCI\VEN_1002&DEV_74A1&SUBSYS_74A11002&REV_00\1")
    done = detect("--from-windows", str(file), "--index", INDEX, "--offline")
    assert done.returncode == 3
    assert "no packages are published for gfx942 on Windows" in done.stderr


def test_standard_input_in_place_of_a_file(detect) -> None:
    done = detect("--from-windows", "-", input=r"PCI\VEN_1002&DEV_150E&SUBSYS_51081043&REV_D1\4&1")
    assert (done.returncode, done.stdout) == (0, "0  gfx1150  AMD Radeon 890M Graphics\n")


def test_targets_that_somebody_names(detect, machine: Machine) -> None:
    machine.gpu(row("744c"))
    done = detect("--target", "GFX942,gfx90a:xnack+", "--target", "gfx942", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["targets"], report["source"]) == (0, ["gfx942", "gfx90a"], "asked")
    done = detect("--target", "gfx1109")
    assert done.returncode == 3
    assert done.stderr == "gfx1109 is no known target; near it are: gfx1100 gfx1101 gfx1102 gfx1103\n"


def test_a_target_whose_code_is_in_anothers_packages(detect) -> None:
    done = detect("--target", "gfx1250-strict", "--index", INDEX, "--offline", "--json")
    report = json.loads(done.stdout)
    assert (done.returncode, report["targets"], report["unserved"]) == (0, ["gfx1250-strict"], [])
    assert '"torch[device-gfx1250]"' in report["install"][0]["pip"]
    assert "code for gfx1250-strict comes in the packages for gfx1250" in report["notes"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--torch", "2.9"), "give --index or --index-name, too"),
        (("--kind", "family"), "give --index or --index-name, too"),
        (("--offline",), "give --index or --index-name, too"),
        (("--index", INDEX, "--python", "2.7"), "is no Python; give one like 3.12"),
        (("--index", INDEX, "--kind", "both"), "invalid choice"),
        (("--index-name", "nightlies"), "invalid choice"),
        (("--index-name", "stable", "--index", INDEX), "both say where packages are"),
        (("--index", "https://x.example/ a;rm"), "is no address of an index"),
        (("--index", INDEX, "--torch", "new;rm"), "is not a version of torch"),
        (("--from-windows", "/no/such/file"), "No such file"),
        (("--from-windows", "-", "--target", "gfx90a"), "give one of them"),
        (("--index", ""), "is no address of an index"),
        (("--target", ","), "--target names none"),
        (("--root", "/no/such/directory"), "there is no directory /no/such/directory"),
        (("--no-such-option",), "unrecognized arguments"),
    ],
)
def test_options_that_make_no_sense_are_2(detect, words: tuple[str, ...], said: str) -> None:
    done = detect(*words, input="")
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert "usage: rocwright-detect" in done.stderr


def test_a_reader_that_goes_away_is_no_error(site: Path, machine: Machine) -> None:
    machine.gpu(row("744c"))
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-S", "-m", "rocwright_detect", "--root", str(machine.root)],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"},
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    os.close(write)
    assert done.returncode == 0
    assert "Error" not in done.stderr


def test_json_says_all_that_people_read(detect, machine: Machine) -> None:
    machine.driver(device_file=False)
    address = machine.gpu(row("744c"))
    report = json.loads(detect("--json").stdout)
    assert report == {
        "platform": "linux",
        "source": "kfd",
        "gpus": [
            {
                "index": 0,
                "target": "gfx1100",
                "name": "AMD Radeon RX 7900 XTX",
                "chip": "Navi 31",
                "integrated": False,
                "device_id": "0x744c",
                "revision": "c8",
                "location": address,
                "near": [],
            }
        ],
        "problems": [],
        "notes": [
            "there is no /dev/kfd, so nothing can compute: start the container with "
            "--device=/dev/kfd --device=/dev/dri"
        ],
        "targets": ["gfx1100"],
        "unserved": [],
        "install": [],
        "suggested": report["suggested"],
        "asked": None,
        "exit_status": 0,
    }
    (suggested,) = report["suggested"]
    assert (suggested["for"], suggested["index"]) == (["gfx1100"], STABLE)
    assert suggested["pip"] in detect().stderr


def test_every_call_in_the_documentation_is_understood(detect, tmp_path: Path) -> None:
    names = ("docs/how-to/detect-gpu.md", "docs/how-to/install-variants.md", "runtime/detect/README.md")
    pages = [fake_machine.ROOT / name for name in names]
    lines = [line for page in pages for line in page.read_text(encoding="utf-8").splitlines()]
    calls = [shlex.split(line)[2:] for line in lines if line.startswith("$ rocwright-detect")]
    assert len(calls) >= 4
    (tmp_path / "gpus.txt").touch()
    for words in calls:
        # Nobody answers at the addresses of the documentation.
        words += ["--offline"] if "--index" in words and "--offline" not in words else []
        assert detect(*words, cwd=tmp_path).returncode != 2, words

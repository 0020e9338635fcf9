"""The miniature family built with a real HIP compiler against real ROCm, at the command's door."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
from collections import Counter
from pathlib import Path

import pytest

from rocwright.errors import MissingTool
from rocwright.system.interpreters import Interpreter, find_interpreter

# What a machine of a ROCm user says, and what a build must not hear.
HOSTILE = {
    "ROCM_HOME": "/opt/rocm-of-the-caller",
    "ROCM_PATH": "/opt/rocm-of-the-caller",
    "HIP_PATH": "/opt/rocm-of-the-caller",
    "HIP_PLATFORM": "nvidia",
    "CMAKE_PREFIX_PATH": "/opt/rocm-of-the-caller",
    "LD_LIBRARY_PATH": "/opt/rocm-of-the-caller/lib",
    "PYTHONPATH": "/opt/rocm-of-the-caller/python",
}


def pythons() -> list[Interpreter]:
    found = []
    for text in ("3.11", "3.12", "3.13"):
        try:
            interpreter = find_interpreter(text)
        except MissingTool:
            continue
        if interpreter.has_headers:
            found.append(interpreter)
    return found


def wheels(folder: Path) -> list[str]:
    return sorted(path.name.partition("-")[0] for path in folder.glob("*.whl"))


def requirements(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        name = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        lines = archive.read(name).decode().splitlines()
    return sorted(line.partition(": ")[2] for line in lines if line.startswith("Requires-Dist: "))


def test_the_family_is_built_pinned_proven_and_resumed(builder) -> None:
    family = builder("triton", "torch", "torchaudio", "torchvision", "apex")
    done = family.run(*family.find_links, "--json", **HOSTILE)
    report = json.loads(done.stdout)
    built = {wheel["project"]: wheel for wheel in report["wheels"]}
    assert wheels(family.out) == ["apex", "torch", "torchaudio", "torchvision", "triton"]
    torch, rocm = built["torch"]["version"], built["torch"]["version"].partition("+rocm")[2]
    assert rocm
    assert requirements(Path(built["torch"]["path"])) == [
        f"rocm[libraries]=={rocm}",
        f"triton=={built['triton']['version']}",
    ]
    for project in ("torchaudio", "torchvision", "apex"):
        assert f"torch=={torch}" in requirements(Path(built[project]["path"]))
    said = {each["project"]: each["said"] for each in report["proof"]}
    assert sorted(said) == sorted(built)
    assert said["torch"]["version"] == torch and said["torch"]["hip"]
    assert all("/env/proof-" in each["file"] for each in said.values())
    assert family.changes() == {}

    before = {path.name: path.stat().st_mtime_ns for path in family.out.iterdir()}
    again = json.loads(family.run(*family.find_links, "--json").stdout)
    assert len(again["resumed"]) == 5 and again["wheels"] == report["wheels"]
    assert {path.name: path.stat().st_mtime_ns for path in family.out.iterdir()} == before
    assert family.calls("hip") == []

    # Of an edited project the wheel is made again, and those before it are not.
    version = family.source("torchvision") / "torchvision" / "__init__.py"
    version.write_text(version.read_text() + "\nedited = True\n")
    third = json.loads(family.run(*family.find_links, "--json").stdout)
    assert [name.partition("-")[2] for name in third["resumed"]] == ["triton", "torch", "torchaudio", "apex"]


def test_several_pythons_compile_what_no_python_changes_once(builder) -> None:
    names = [interpreter.name for interpreter in pythons()]
    if len(names) < 2:
        pytest.skip(f"needs two Pythons of 3.11 to 3.13 with headers, and found {' '.join(names) or 'none'}")
    family = builder("torch", "torchvision")
    done = family.run(*family.rocm, "--python", ",".join(names), "--json", **HOSTILE)
    report = json.loads(done.stdout)
    assert len(report["wheels"]) == len(report["proof"]) == 2 * len(names)
    # torch's device code and the libraries without Python: each object came out of one call.
    hip = Counter(call["source"] for call in family.calls("hip") if call["build"].startswith("torch "))
    assert hip and set(hip.values()) == {1}
    host = Counter(call["source"] for call in family.calls("host") if call["build"].startswith("torch "))
    bindings = {source for source in host if source.startswith("torch/csrc/")}
    assert bindings and {host[source] for source in bindings} == {len(names)}
    assert {count for source, count in host.items() if source not in bindings} == {1}
    # Of no project any object was made twice.
    assert report["report"]["repeated"] == []
    assert family.changes() == {}


def test_a_build_that_is_killed_goes_on_where_it_was(builder) -> None:
    family = builder("torch")
    with subprocess.Popen(
        family.argv(*family.rocm),
        cwd=family.root,
        env=family.env(),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as run:
        deadline = time.monotonic() + 300
        while not family.calls("hip"):
            assert run.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        assert (family.source("torch") / "torch" / "_rocm_init.py").exists()
        os.kill(run.pid, signal.SIGKILL)
    compiled = {
        call["output"] for kind in ("hip", "host") for call in family.calls(kind) if call["exit"] == 0
    }
    done = family.run(*family.rocm)
    again = {call["output"] for call in (*family.calls("hip"), *family.calls("host"))}
    assert compiled & again == set()
    assert wheels(family.out) == ["torch"]
    assert not (family.source("torch") / "torch" / "_rocm_init.py").exists()
    assert family.changes() == {}
    assert "put " in done.stderr and "back as it was before a build that was killed" in done.stderr


def test_a_compiler_error_is_shown_with_its_command_and_code(builder) -> None:
    family = builder("torch", "torchvision")
    kernel = next((family.source("torchvision") / "torchvision").rglob("*.cu"))
    text = kernel.read_text()
    kernel.write_text(text + "\nthis is no C++;\n")
    done = family.run(*family.rocm, ok=False, MY_TOKEN="hunter2hunter2")
    assert done.returncode == 1
    assert kernel.stem in done.stderr and "error:" in done.stderr
    assert f"directory: {family.source('torchvision')}" in done.stderr
    assert "setup.py bdist_wheel" in done.stderr and "PYTORCH_ROCM_ARCH=gfx90a" in done.stderr
    assert "torchvision.log" in done.stderr
    assert 'Traceback (most recent call last)\n  File "/' + "work" not in done.stderr
    logs = "".join(path.read_text() for path in (family.work / "log").iterdir())
    assert "hunter2" not in done.stderr + done.stdout + logs
    assert wheels(family.out) == ["torch"]
    kernel.write_text(text)
    assert "torch" in wheels(family.out)
    report = json.loads(family.run(*family.rocm, "--json").stdout)
    assert [name.partition("-")[2] for name in report["resumed"]] == ["torch"]
    assert wheels(family.out) == ["torch", "torchvision"]


def test_an_editable_torch_works_against_packages_and_against_a_prefix(builder) -> None:
    """And another project is built against it, as its build imports it."""
    family = builder("torch", "torchvision")
    tree = family.source("torch")
    for name, place in (("sdk", family.find_links), ("prefix", family.prefix)):
        mine = family.root / name
        subprocess.run([sys.executable, "-m", "venv", str(mine)], check=True)
        family.run(*place, "--editable", "torch", VIRTUAL_ENV=str(mine))
        libraries = {"LD_LIBRARY_PATH": f"{family.demo / 'rocm' / 'lib'}"} if name == "prefix" else {}
        done = subprocess.run(
            [mine / "bin" / "python", "-c", "import torch; print(torch.__file__, torch.version.hip)"],
            capture_output=True,
            text=True,
            env={**os.environ, **libraries},
        )
        assert done.returncode == 0, done.stderr
        where, hip = done.stdout.split()
        assert Path(where).is_relative_to(tree) and hip != "None"
        assert wheels(family.out) == ["torchvision"]


def test_wheels_are_split_on_request(builder) -> None:
    family = builder("torch")
    report = json.loads(family.run(*family.rocm, "--split-device", "--json").stdout)
    (torch,) = report["wheels"]
    assert wheels(family.out) == ["amd_torch_device_gfx90a", "torch"]
    (device,) = torch["device"]
    assert Path(device).parent == family.out
    assert f"torch=={torch['version']}" in requirements(Path(device))
    extras = [text for text in requirements(Path(torch["path"])) if "extra" in text]
    assert f'amd-torch-device-gfx90a=={torch["version"]} ; extra == "device-gfx90a"' in extras


def test_split_wheels_come_with_the_device_packages_of_rocm(builder, real_sets) -> None:
    """Targets are those of the device packages; what was built installs with pip, and is resumed whole."""
    family = builder("torch")
    asked = ("--find-links", str(real_sets.kpack), "--rocm-extras", "device-gfx90a", "--split-device")
    argv = [word for word in family.argv(*asked, "--json") if word not in ("--pytorch-rocm-arch", "gfx90a")]
    wrong = [word.replace("device-gfx90a", "nothere") for word in argv]
    refused = subprocess.run(wrong, cwd=family.root, env=family.env(), capture_output=True, text=True)
    assert refused.returncode == 3
    assert "ROCm 5.2.3 offers no extra nothere" in refused.stderr and "device-gfx90a" in refused.stderr
    assert not family.out.exists()

    def built() -> dict:
        done = subprocess.run(argv, cwd=family.root, env=family.env(), capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    (torch,) = built()["wheels"]
    (device,) = torch["device"]
    assert requirements(Path(device)) == ["rocm-sdk-device-gfx90a==5.2.3", f"torch=={torch['version']}"]
    again = built()
    assert (again["wheels"], [name.partition("-")[2] for name in again["resumed"]]) == ([torch], ["torch"])

    subprocess.run([sys.executable, "-m", "venv", str(family.root / "user")], check=True)
    python = family.root / "user/bin/python"
    places = ["--no-index", "--find-links", str(family.out), "--find-links", str(real_sets.kpack)]
    install = [python, "-m", "pip", "install", "--quiet", "--no-deps", *places]
    exact = f"=={torch['version']}"
    packages = ["rocm-sdk-core", "rocm-sdk-libraries", "rocm-sdk-device-gfx90a"]
    wheels = [f"torch{exact}", f"amd-torch-device-gfx90a{exact}", *packages]
    subprocess.run([*install, "rocm", *wheels], check=True, cwd=family.root)
    done = subprocess.run(
        [python, "-c", "import torch; print(torch.cuda.get_arch_list())"],
        capture_output=True,
        text=True,
        cwd=family.root,
    )
    assert done.returncode == 0 and "gfx90a" in done.stdout, done.stderr

    # A build that would leave the device wheel without its host does not begin.
    unsplit = [word for word in argv if word != "--split-device"]
    done = subprocess.run(unsplit, cwd=family.root, env=family.env(), capture_output=True, text=True)
    assert done.returncode == 12 and f"the device wheel {Path(device).name}" in done.stderr

"""`rocwright detect`: the detector of the wheel through rocwright's own door."""

from __future__ import annotations

import json
import shutil
import socket
from pathlib import Path

import pytest

from command_line import run_program
from index_server import serving
from rocwright.store.index.offers import Offer, pip_line, uv_line
from rocwright.system.files import shipped_directory
from variant_index import write_index

INDEX = "https://packages.example.org/rocm/"


def put(root: Path, path: str, text: str) -> None:
    file = root / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A machine with an MI300X (the driver's 90402) and, on the bus alone, a card that nobody knows."""
    root = tmp_path / "root"
    nodes = "sys/class/kfd/kfd/topology/nodes"
    put(root, f"{nodes}/0/properties", "simd_count 0\ngfx_target_version 0\n")
    # 29857 is 0x74a1, 768 is bus 3.
    put(
        root,
        f"{nodes}/1/properties",
        "simd_count 1216\ngfx_target_version 90402\ndevice_id 29857\nlocation_id 768\n",
    )
    for address, device in (("0000:03:00.0", "74a1"), ("0000:04:00.0", "7fff")):
        for name, value in (("vendor", "1002"), ("device", device), ("class", "120000"), ("revision", "00")):
            put(root, f"sys/bus/pci/devices/{address}/{name}", f"0x{value}\n")
    put(root, "dev/kfd", "")
    return root


def test_gpus_and_lines(root: Path, tmp_path: Path) -> None:
    done = run_program("detect", "--root", root, "--index", INDEX, "--offline", cwd=tmp_path)
    assert done.returncode == 0
    lines = done.stdout.splitlines()
    assert lines[0] == "0  gfx942  AMD Instinct MI300X  0000:03:00.0"
    assert (
        f'pip install --index-url {INDEX} "torch[device-gfx942]" "torchvision[device-gfx942]" torchaudio'
        in lines
    )
    assert "1002:7fff at 0000:04:00.0" in done.stderr


def test_an_index_by_its_name(root: Path, rocwright) -> None:
    Path("rocwright.toml").write_text(
        '[[indexes.index]]\nname = "ours"\nurl = "https://wheels.example.com/v2/"\nlayout = "per-family"\n'
    )
    for name, address, torch in (
        ("nightly", "https://nightly.repo.amd.com/rocm/whl-next/", '"torch[device-gfx942]"'),
        ("ours", "https://wheels.example.com/v2/gfx94X-dcgpu/", "torch"),
    ):
        code, out, _ = rocwright("detect", "--root", root, "--index-name", name, "--offline")
        assert code == 0
        begin = f"pip install --index-url {address} {torch} "
        assert any(line.startswith(begin) for line in out.splitlines()), out
    code, _, err = rocwright("detect", "--root", root, "--index-name", "nightli")
    assert code == 2 and "perhaps nightly" in err
    _, _, err = rocwright("detect", "--index-name", "nightly", "--index", INDEX)
    assert "contradict each other" in err


def test_without_an_index_the_line_for_the_stable_one(root: Path, rocwright) -> None:
    code, out, err = rocwright("detect", "--root", root)
    assert (code, out.splitlines()) == (0, ["0  gfx942  AMD Instinct MI300X  0000:03:00.0"])
    assert 'pip install --index-url https://stable.repo.amd.com/rocm/whl-next/ "torch[device-gfx942]"' in err


def test_an_older_index_says_what_took_its_place(root: Path, rocwright) -> None:
    words = ("--index", "https://rocm.nightlies.amd.com/v2", "--kind", "family", "--offline")
    _, out, err = rocwright("detect", "--root", root, *words)
    assert err.count("newer ones are on https://nightly.repo.amd.com/rocm/whl-next/") == 1
    assert "https://rocm.nightlies.amd.com/v2/gfx94X-dcgpu/" in out


@pytest.mark.parametrize("pre", [False, True])
def test_lines_are_spelled_as_on_the_page_of_a_channel(tmp_path: Path, pre: bool) -> None:
    offer = Offer(
        family="",
        set="",
        uploaded=None,
        product="torch",
        version="2.9.0",
        targets=("gfx942",),
        per_target=True,
        platform="linux-x86_64",
        pythons=("3.12",),
        requirements=("torch[device-TARGET]==2.9.0", "torchvision[device-TARGET]", "torchaudio"),
        prereleases=pre,
        outside=(),
        pinned=False,
        current=True,
    )
    words = ["--target", "gfx942", "--index", INDEX, "--offline", "--torch", "2.9.0"]
    words += ["--pre"] if pre else []
    (one,) = json.loads(run_program("detect", *words, "--json", cwd=tmp_path).stdout)["install"]
    assert one["pip"] == pip_line(offer, INDEX, "gfx942")
    assert one["uv"] == uv_line(offer, INDEX, "gfx942")


def test_json_is_that_of_the_wheel(root: Path, tmp_path: Path) -> None:
    words = ("--index", INDEX, "--offline", "--kind", "family", "--json")
    done = run_program("detect", "--root", root, *words, cwd=tmp_path)
    report = json.loads(done.stdout)
    assert done.returncode == report["exit_status"] == 0
    assert (report["gpus"][0]["name"], report["source"]) == ("AMD Instinct MI300X", "kfd")
    (one,) = report["install"]
    assert (one["for"], one["index"]) == (["gfx942"], f"{INDEX}gfx94X-dcgpu/")


def test_an_index_that_does_not_answer_is_5(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        index = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        done = run_program("detect", "--target", "gfx942", "--index", index, cwd=tmp_path)
        report = run_program("detect", "--target", "gfx942", "--index", index, "--json", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (5, "0  gfx942\n")
    assert done.stderr.startswith(
        f"error (Unreachable): {index}torch/ cannot be reached: Connection refused (1 request)"
    )
    assert "next: check the address; --offline prints the lines unchecked\n" in done.stderr
    asked = json.loads(report.stdout)["asked"]
    assert (asked["requests"], asked["problem"]) == (
        1,
        f"{index}torch/ cannot be reached: Connection refused",
    )


def test_a_channel_on_this_machine_is_asked(tmp_path: Path) -> None:
    """What a channel of the store looks like: pages, and what its landing page offers."""
    name = "torch-2.9.0+rocm7.1.0-cp312-cp312-linux_x86_64.whl"
    family = tmp_path / "v2/gfx94X"
    put(family, "torch/index.html", f'<a href="../../../files/{name}" data-core-metadata="true">{name}</a>')
    put(tmp_path, f"files/{name}.metadata", "Metadata-Version: 2.1\nName: torch\nVersion: 2.9.0+rocm7.1.0\n")
    put(family, "index.html", '<a href="torch/">torch</a>')
    put(tmp_path, "v2/index.html", '<!DOCTYPE html>\n<html lang="en" data-base="https://x.example/">\n')
    offer = {"product": "torch", "platform": "linux-x86_64", "targets": ["gfx942"]}
    put(tmp_path, "v2/_landing.json", json.dumps({"families": {"gfx94X": {"offers": [offer]}}}))
    for index in ("v2", "v2/gfx94X"):
        done = run_program("detect", "--target", "gfx942", "--index", index, "--python", "3.12", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        assert f"pip install --index-url {family.as_uri()}/ torch==2.9.0+rocm7.1.0\n" in done.stdout
    done = run_program("detect", "--target", "gfx1100", "--index", "v2", "--python", "3.12", cwd=tmp_path)
    assert done.returncode == 3
    assert "has no family with gfx1100; it has: gfx94X (gfx942)\n" in done.stderr
    assert "next: see the lines above" in done.stderr


def test_without_driver_the_unknown_card_is_3(root: Path, tmp_path: Path) -> None:
    shutil.rmtree(root / "sys/class")
    done = run_program("detect", "--root", root, cwd=tmp_path)
    assert done.returncode == 3
    assert "PCI id 1002:7fff is not in the table" in done.stderr
    assert "InvalidInput" in done.stderr


def test_a_view_of_an_index(root: Path, rocwright, tmp_path: Path) -> None:
    """Of what the detector's own wheel writes; a view is a view for both."""
    with serving(write_index(tmp_path / "files")) as index:
        words = ("detect", "--root", root, "--index", index.url(), "--view", tmp_path / "view")
        code, out, err = rocwright(*words)
        assert (code, out.splitlines()[-1]) == (
            0,
            f"uv pip install --preview-features wheel-variants --index {(tmp_path / 'view').as_uri()} torch",
        )
        assert f"{tmp_path / 'view'} is written, for gfx942: 5 projects of {index.url()}" in err
        code, out, _ = rocwright(*words, "--json")
        found = json.loads(out)
        assert (code, found["targets"], found["view"]["changed"]) == (0, ["gfx942"], False)
        assert found["view"]["properties"] == {"amd": {"gfx_arch": ["gfx942"]}}
        code, out, err = rocwright(*words, "--target", "gfx1201")
        assert code == 3
        assert f"no variant on {index.url()} is for gfx1201; it has: gfx942 gfx1100 gfx1151" in err
        next(index.folder.glob("*-variants.json")).write_text("{")
        code, _, err = rocwright(*words)
        assert code == 5
        assert "-variants.json is not the file that its page names: its sha256 is another" in err
        assert "next: check the address; the index installs without a view" in err


@pytest.mark.parametrize(
    "words", [(), ("--index", INDEX, "--torch", "2.9"), ("--index", INDEX, "--offline"), ("--python", "3.12")]
)
def test_a_view_is_of_a_whole_index(words: tuple[str, ...], rocwright, tmp_path: Path) -> None:
    code, out, err = rocwright("detect", "--view", tmp_path / "view", *words)
    assert (code, out) == (2, "")
    assert "--view shows all that an index has" in err
    assert not (tmp_path / "view").exists()


def test_a_view_is_put_beside_nothing_else(rocwright, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/letter.txt").write_text("dear")
    code, _, err = rocwright("detect", "--target", "gfx942", "--index", INDEX, "--view", tmp_path / "mine")
    assert code == 2
    assert f"{tmp_path / 'mine'} is not empty and no view" in err


def test_no_gpu_is_1(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    done = run_program("detect", "--root", tmp_path / "empty", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error (NoGpu): no AMD GPU is visible here")


def test_what_windows_printed(tmp_path: Path) -> None:
    file = tmp_path / "gpus.txt"
    file.write_bytes("PNPDeviceID : PCI\\VEN_1002&DEV_7590&SUBSYS_24251849&REV_C0\\6&1\r\n".encode("utf-16"))
    done = run_program("detect", "--from-windows", file, cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "0  gfx1200  AMD Radeon RX 9060 XT\n")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--torch", "2.9"), 2, "give --index or --index-name, too"),
        (("--index", "ftp:nowhere"), 2, "is no address of an index"),
        (("--index", INDEX, "--kind", "both"), 2, "kind"),
        (("--target", "gfx1109"), 3, "perhaps gfx1100 or gfx1101 or gfx1102 or gfx1103"),
        (("--from-windows", "absent.txt"), 2, "absent.txt cannot be read: No such file"),
    ],
)
def test_mistakes(words: tuple[str, ...], code: int, said: str, tmp_path: Path) -> None:
    done = run_program("detect", *words, cwd=tmp_path)
    assert done.returncode == code
    assert said in done.stderr


def test_a_part_of_the_detector_that_is_missing_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rocwright.compat import detector

    copy = tmp_path / "runtime"
    shutil.copytree(shipped_directory("runtime") / "rocm", copy / "rocm")
    monkeypatch.setattr(detector, "shipped_directory", lambda name: copy)
    detector._answers.cache_clear()
    try:
        with pytest.raises(detector.InvalidInput, match="detector cannot be loaded"):
            detector.answer()
    finally:
        detector._answers.cache_clear()
        detector._module.cache_clear()

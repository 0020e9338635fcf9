"""`rocwright doctor` as a user calls it: tables, JSON, exit codes, options that do not fit."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from command_line import Ended, Run
from rocwright.compat.doctor.observations import EXAMINATIONS, Diagnosis, Observation
from rocwright.compat.doctor.rules import ENVIRONMENT, MACHINE
from rocwright.model.findings import Finding
from rocwright.model.sets import FileEntry, canonical_json, new_set, set_id
from rocwright.store.objects.address import open_store
from rocwright.store.sets.records import save_set
from unit.compat.doctor.desk import RADEON_7900, Room, Tree

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def door(rocwright: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Calls the command in this process: exit code, stdout, stderr."""
    for name in ("VIRTUAL_ENV", "CONDA_PREFIX", "LD_LIBRARY_PATH", "LD_PRELOAD", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    tree = Tree(tmp_path / "machine")

    def call(*words: object) -> Ended:
        return rocwright("doctor", "--root", tree.root, *words)

    call.tree = tree
    return call


def save_manifest(path: Path) -> str:
    entry = FileEntry("torch-2.9.0-py3-none-any.whl", "0" * 64, 1, "torch", "2.9.0", metadata_sha256="1" * 64)
    given = new_set(family="f", targets=[], platform="linux", files=[entry], sources={})
    path.write_bytes(canonical_json(given))
    return set_id(given)


def test_json_of_a_machine_without_a_gpu(door) -> None:
    code, out, err = door("--json")
    told = json.loads(out)
    assert set(told) == {"gpus", "findings", "environment", "schema"}
    assert (told["gpus"], told["environment"], told["schema"]) == ([], None, "rocwright.doctor/1")
    for item in told["findings"]:
        assert set(item) == {"id", "verdict", "detail", "next_step", "about", "section"}
    gpu = next(item for item in told["findings"] if item["id"] == "gpu")
    assert gpu["verdict"] == "note" and "no AMD GPU" in gpu["detail"]
    assert code == (4 if any(item["verdict"] in ("missing", "wrong") for item in told["findings"]) else 0)
    assert "name one with --python" in err


def test_the_page_shows_what_is_printed(door) -> None:
    """The JSON of the how-to is that of a machine without a GPU, but for the findings about building."""
    page = (ROOT / "docs/how-to/doctor.md").read_text(encoding="utf-8")
    (shown,) = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL))
    _, out, _ = door("--json")
    told = json.loads(out.replace(str(door.tree.root), ""))
    told["findings"] = [item for item in told["findings"] if item["id"] == "gpu"]
    assert told == shown


def test_an_environment_has_a_table_of_its_own(door, room: Room) -> None:
    room.torch()
    _, out, err = door("--python", room.root)
    machine, environment = out.split("The environment ")
    assert machine.startswith("This machine\n")
    assert environment.startswith(f"{room.python}\n")
    assert re.search(r"^torch +ok +torch 2\.9\.0\+rocm7\.10\.0 for\s+ROCm", environment, re.MULTILINE)
    assert "--python" not in err


def test_a_torch_that_is_not_for_rocm_ends_with_its_own_error(door, room: Room) -> None:
    room.torch("2.9.0+cpu", hip=None)
    code, out, err = door("--python", room.python)
    assert code == 4
    assert "error (WrongTorch): torch 2.9.0+cpu is built for the CPU only" in err
    assert "pip install " in err.partition("  next: ")[2]
    assert re.search(r"^torch +wrong ", out, re.MULTILINE)


def test_a_torch_that_cannot_be_imported_ends_with_15(door, room: Room) -> None:
    room.torch()
    (room.site / "torch/__init__.py").write_text("import rocm_sdk\n")
    code, out, err = door("--python", room.root, "--import-torch", "--json")
    assert code == 15
    assert "error (TorchBroken): torch needs the Python module rocm_sdk, which is not installed" in err
    assert "Traceback" not in err
    assert any(item["id"] == "import" for item in json.loads(out)["findings"])


def test_a_torch_that_can_be_imported_does_not(door, room: Room) -> None:
    room.torch()
    code, _, err = door("--python", room.root, "--import-torch")
    assert code == 15 and "it is not torch, or only a remnant of it" in err
    (room.site / "torch/__init__.py").write_text("from torch.version import __version__\n")
    code, out, _ = door("--python", room.root, "--import-torch")
    assert code != 15
    assert re.search(r"^import +ok ", out, re.MULTILINE)


def test_the_index_is_that_of_the_gpu_and_the_version(door, room: Room) -> None:
    """Addresses as the release notes of ROCm's packages have them, by family."""
    door.tree.gpu(RADEON_7900)
    room.rocm("7.10.0a20251124", offered=["gfx1100"])
    _, out, _ = door("--python", room.root, "--json")
    step = next(item["next_step"] for item in json.loads(out)["findings"] if item["id"] == "device-code")
    assert "--index-url https://rocm.nightlies.amd.com/v2/gfx110X-all/" in step
    _, out, _ = door("--python", room.root, "--json", "--index-url", "https://mine.example/")
    assert "--index-url https://mine.example/ " in out


def test_the_torch_that_is_wanted_is_for_the_gpu(door, room: Room) -> None:
    """From the index for all GPUs, by the extra of the one that is here."""
    door.tree.gpu(RADEON_7900)
    _, out, _ = door("--python", room.root, "--json")
    step = next(item["next_step"] for item in json.loads(out)["findings"] if item["id"] == "torch")
    assert step.endswith('--index-url https://stable.repo.amd.com/rocm/whl-next/ "torch[device-gfx1100]"')
    for version, index in (
        ("7.14.1", "https://repo.amd.com/rocm/whl-multi-arch/"),
        ("10.2.0a20260926", "https://nightly.repo.amd.com/rocm/whl-next/"),
        ("10.1.0a20260811+bkc.20260814", "https://bkc.repo.amd.com/rocm/whl-next/"),
        ("10.0.0rc4", "https://rocm.prereleases.amd.com/whl-multi-arch/"),
    ):
        for before in room.site.glob("rocm*.dist-info"):
            shutil.rmtree(before)
        room.rocm(version, offered=["gfx1100"])
        _, out, _ = door("--python", room.root, "--json")
        steps = [item["next_step"] for item in json.loads(out)["findings"] if item["id"] == "torch"]
        assert [f"--index-url {index} " in step for step in steps] == [True], version


def test_a_set_by_its_manifest_and_by_its_store(door, room: Room, tmp_path: Path) -> None:
    room.torch()
    digest = save_manifest(tmp_path / "manifest.json")
    _, by_file, _ = door("--python", room.root, "--manifest", tmp_path / "manifest.json", "--json")
    from rocwright.model.sets import parse_set

    store = open_store(str(tmp_path / "store"))
    save_set(store, parse_set((tmp_path / "manifest.json").read_bytes(), where="x"))
    words = ("--set", digest[:12], "--store", tmp_path / "store")
    _, by_store, _ = door("--python", room.root, *words, "--json")
    # The disk has another number of free bytes each time.
    first, second = (
        [item for item in json.loads(text)["findings"] if item["id"] != "disk"]
        for text in (by_file, by_store)
    )
    assert first == second
    item = next(item for item in json.loads(by_file)["findings"] if item["id"] == "set")
    assert item["detail"] == (f"torch 2.9.0+rocm7.10.0 is not from set {digest[:12]}: the set has 2.9.0")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--python", "nowhere"], 2, "there is no such file or directory"),
        (["--python", "."], 2, "there is no Python in this directory"),
        (["--python", "{room}", "--manifest", "absent.json"], 3, "absent.json cannot be read"),
        (["--python", "{room}", "--manifest", "broken.json"], 3, "not a set manifest"),
        (["--python", "{room}", "--manifest", "m.json", "--set", "12345678"], 2, "both name a set"),
        (["--python", "{room}", "--set", "12345678", "--store", "void"], 3, "12345678"),
        (["--set", "x", "--python", "{room}", "--store", "void"], 3, "'x' names no set"),
        (["--set", "x", "--python", "{room}", "--store", "nowhere"], 2, "there is no store at nowhere"),
        (["--frobnicate"], 2, "--frobnicate"),
    ],
)
def test_options_that_do_not_fit(
    door, room: Room, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    save_manifest(tmp_path / "m.json")
    (tmp_path / "broken.json").write_text('{"files": [}')
    (tmp_path / "void").mkdir()
    ended, _, err = door(*(word.format(room=room.root) for word in words))
    assert ended == code
    assert said in err.replace("\n", " ")
    assert "Traceback" not in err


def test_names_on_disk_do_not_command_the_terminal(door, room: Room) -> None:
    (room.site / "evil\x1b[2J-1.0.dist-info").mkdir()
    (room.site / "evil\x1b[2J-1.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\n")
    _, out, _ = door("--python", room.root)
    assert "\x1b" not in out


def test_every_kind_of_finding_is_made_by_some_rule() -> None:
    """The page for users is made of the catalogue; the code spells each of them, and no other."""
    folder = ROOT / "src/rocwright/compat/doctor"
    texts = [path.read_text() for path in folder.glob("rules/*.py")]
    made = {name for text in texts for name in re.findall(r'Observation\(\s*"([a-z+-]+)"', text)}
    # The programs are rows of a table.
    made |= {"git", "cc", "g++", "make", "unreadable"}
    assert made == {row.id for row in EXAMINATIONS}
    assert len(MACHINE) + len(ENVIRONMENT) <= len(EXAMINATIONS)


def test_only_what_is_missing_or_wrong_is_a_finding() -> None:
    well = Observation("git", "ok", "/usr/bin/git")
    noted = Observation("seccomp", "note", "a filter", "start it without")
    absent = Observation("cc", "missing", "needed to build", "apt-get install gcc")
    foreign = Observation("torch", "wrong", "torch is for the CPU", about="torch", section="environment")
    found = Diagnosis((), (well, noted, absent, foreign))
    assert (well.finding, noted.finding, found.errors, found.warnings) == (None, None, 2, 0)
    assert found.findings == (
        Finding("cc", "error", "machine", "needed to build", "apt-get install gcc"),
        # What the catalogue says where the observation does not.
        Finding(
            "torch",
            "error",
            "torch",
            "torch is for the CPU",
            "`python -m pip install --index-url … --force-reinstall --no-deps torch==VERSION`",
        ),
    )

"""Results that travel between machines of a run as artifacts: what one hands on, what the next one has."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from rocwright.errors import IntegrityError, InvalidInput, UsageError
from rocwright.pipeline.carry import GIVEN, TAKEN, hand_on, take, there
from rocwright.pipeline.define.inputs import CARRY, carries
from rocwright.store.objects.local import LocalStore
from rocwright.store.runs.upload import upload_run
from wheels import ANY, write_wheel

GROUP = "gfx94X-dcgpu"
BUILD = f"build_pytorch_wheels/linux/cp312/release-2.13/{GROUP}"
RECORD = "_pipeline/42/cells/{}/aa.json"


class Machine:
    """One of a run: a directory and a store of its own, and what artifacts the run has so far."""

    def __init__(self, root: Path, artifacts: Path) -> None:
        self.work, self.artifacts = root, artifacts
        self.store = LocalStore(root / "store")
        self.said: list[str] = []

    def take(self, *names: str) -> None:
        for name in names:
            alone = len(names) == 1
            shutil.copytree(
                self.artifacts / name, self.work / TAKEN / ("" if alone else name), dirs_exist_ok=True
            )
        take(self.work, self.store, "42", self.said.append)
        self.before = there(self.store)

    def hand_on(self, job: str, group: str, attempt: str = "1") -> dict[str, str]:
        told = {"GITHUB_RUN_ATTEMPT": attempt}
        names = hand_on(self.work, self.store, self.before, job, group, told)
        for part, name in names.items():
            shutil.copytree(self.work / GIVEN / part, self.artifacts / name)
        return names

    @property
    def keys(self) -> list[str]:
        return [one.key for one in self.store.list("")]


@pytest.fixture
def machines(tmp_path: Path) -> list[Machine]:
    (tmp_path / "artifacts").mkdir()
    return [Machine(tmp_path / f"m{number}", tmp_path / "artifacts") for number in range(3)]


def test_the_next_machine_has_what_was_added_and_hands_on_only_what_it_adds(machines: list[Machine]) -> None:
    first, second, _ = machines
    first.take()
    first.store.put_bytes("_pipeline/42/plan.json", b"{}")
    first.store.put_bytes("_leases/_pipeline/42/x/1", b"held")
    assert first.hand_on("setup", "") == {"records": "rocwright.records.setup.1"}
    second.take("rocwright.records.setup.1")
    assert second.keys == ["_pipeline/42/plan.json"]
    assert not (second.work / TAKEN).exists()
    second.store.put_bytes(RECORD.format(f"build-torch/linux/{GROUP}"), b"[1]")
    second.store.put_bytes("_pipeline/objects/ab/tree.tar.zst", b"tree")
    names = second.hand_on(BUILD, GROUP, attempt="2")
    assert names == {
        "records": f"rocwright.records.build_pytorch_wheels.linux.cp312.release-2.13.{GROUP}.2",
        "files": f"rocwright.{GROUP}.build_pytorch_wheels.linux.cp312.release-2.13.{GROUP}.2",
    }
    listed = json.loads((second.artifacts / names["records"] / "carried.json").read_text())["files"]
    assert [one["key"] for one in listed] == [RECORD.format(f"build-torch/linux/{GROUP}")]


def test_a_machine_that_adds_nothing_hands_on_nothing(machines: list[Machine]) -> None:
    machines[0].take()
    assert machines[0].hand_on("setup", "") == {}


def test_wheels_lie_in_an_artifact_by_name_and_once(machines: list[Machine], tmp_path: Path) -> None:
    one = machines[0]
    one.take()
    wheel = write_wheel(tmp_path / "dist", "torch", "2.9.0", {"torch.py": ""}, tag=ANY)
    upload_run(one.store, [wheel], "42", "linux", GROUP, "pytorch")
    one.store.put_file(wheel, f"files/{'0' * 64}/{wheel.name}")
    name = one.hand_on(BUILD, GROUP)["files"]
    assert [path.name for path in (one.artifacts / name / "packages").iterdir()] == [wheel.name]
    machines[1].take(name)
    assert machines[1].store.read(f"42-linux/pytorch/{GROUP}/{wheel.name}") == wheel.read_bytes()
    assert machines[1].store.read(f"files/{'0' * 64}/{wheel.name}") == wheel.read_bytes()


def test_two_builds_of_a_group_stand_on_one_page(machines: list[Machine], tmp_path: Path) -> None:
    names = []
    for machine, python in zip(machines, ("cp311", "cp312"), strict=False):
        machine.take()
        wheel = write_wheel(tmp_path / python, "torch", "2.9.0", {"torch.py": ""}, tag=f"{python}-none-any")
        upload_run(machine.store, [wheel], "42", "linux", GROUP, "pytorch")
        names.append(machine.hand_on(f"build/{python}/{GROUP}", GROUP)["files"])
    machines[2].take(*names)
    page = machines[2].store.read(f"42-linux/pytorch/{GROUP}/index.html").decode()
    assert page.count("torch-2.9.0-cp311-none-any.whl") >= 1
    assert page.count("torch-2.9.0-cp312-none-any.whl") >= 1


def test_of_two_records_the_newer_stays_the_newer(machines: list[Machine]) -> None:
    names = []
    for number, state in enumerate(("bb.failed", "aa")):
        machines[number].take()
        machines[number].store.put_bytes(f"_pipeline/42/cells/x/{state}.json", b"{}")
        names.append(machines[number].hand_on("x", "", attempt=str(number))["records"])
        # A file system tells time in steps.
        time.sleep(0.02)
    # However the artifacts arrive: of these names the later one comes first.
    (machines[2].artifacts / names[0]).rename(machines[2].artifacts / "z")
    machines[2].take(names[1], "z")
    came = sorted(machines[2].store.list(""), key=lambda one: one.modified)
    assert [one.key.rpartition("/")[2] for one in came] == ["bb.failed.json", "aa.json"]


def handed_on(machines: list[Machine]) -> Path:
    machines[0].take()
    machines[0].store.put_bytes("_pipeline/42/plan.json", b"{}")
    return machines[0].artifacts / machines[0].hand_on("setup", "")["records"]


@pytest.mark.parametrize("damage", ["blob is missing", "other bytes", "no list", "half a list", "newer"])
def test_an_artifact_that_is_not_whole_is_named_before_anything_is_taken(
    machines: list[Machine], damage: str
) -> None:
    folder = handed_on(machines)
    (blob,) = (folder / "blobs").iterdir()
    listed = folder / "carried.json"
    if damage == "blob is missing":
        blob.unlink()
    elif damage == "other bytes":
        blob.unlink()
        blob.write_bytes(b"[]")
    elif damage == "no list":
        listed.unlink()
    elif damage == "half a list":
        text = listed.read_text()
        listed.unlink()
        listed.write_text(text[: len(text) // 2])
    else:
        text = listed.read_text().replace('"schema":1', '"schema":2')
        listed.unlink()
        listed.write_text(text)
    shutil.copytree(folder, machines[1].work / TAKEN / folder.name)
    with pytest.raises(
        IntegrityError, match=r"the artifact rocwright\.records\.setup\.1 is not whole"
    ) as told:
        machines[1].take()
    assert "Re-run jobs" in str(told.value)
    assert machines[1].keys == []


def test_what_an_artifact_names_outside_of_the_store_is_refused(machines: list[Machine]) -> None:
    folder = handed_on(machines)
    listed = folder / "carried.json"
    text = listed.read_text().replace("_pipeline/42/plan.json", "../../plan.json")
    listed.unlink()
    listed.write_text(text)
    with pytest.raises(InvalidInput, match="not a valid store key"):
        machines[1].take(folder.name)


def test_the_variable_knows_three_words() -> None:
    assert [carries({CARRY: word} if word else {}) for word in ("", "store", "artifacts")] == [
        False,
        False,
        True,
    ]
    with pytest.raises(UsageError, match="bucket"):
        carries({CARRY: "bucket"})

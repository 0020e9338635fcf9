"""A recorded candidate becomes a set of its own: checked, staged, untested, with a statement of origin."""

from __future__ import annotations

import json
from datetime import date, datetime, timezone
from pathlib import Path

import pytest

from command_line import status
from rocwright.data import load_table
from rocwright.errors import ContractBroken, GateClosed, IntegrityError, UsageError
from rocwright.model.channels import Channels
from rocwright.model.findings import Waiver
from rocwright.model.sets import (
    BUILD,
    FINDINGS,
    REVERSION,
    TEST,
    WAIVER,
    SetManifest,
    Statement,
    about_set,
    new_set,
    set_id,
    waiver_statement,
)
from rocwright.pipeline.reversion import Reversioned, reversion_set
from rocwright.store.channel_log import Event, read_state
from rocwright.store.layout import file_key
from rocwright.store.objects.local import LocalStore
from rocwright.store.pool import describe_files
from rocwright.store.publish import change
from rocwright.store.sets.find import current_of
from rocwright.store.sets.records import read_set, read_statements, recorded_sets, save_statement
from rocwright.store.sets.stage import record_set, stage_set
from rocwright.wheel.reversion.versions import parse_rule
from wheels import write_wheel

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=timezone.utc)
CHANNELS = load_table("channels", Channels)
OLD = "7.13.0rc2"
TAG = "py3-none-any"
RULE = "set-pins"


def candidate(folder: Path) -> list[Path]:
    """Packages that have only what this needs."""
    local = f"1.0+rocm{OLD}"
    mine = {"mylib/version.py": f"__version__ = '{local}'\n"}
    return [
        write_wheel(folder, "mylib", local, mine, requires=[f"rocm=={OLD}"], tag=TAG),
        write_wheel(folder, "rocm", OLD, {"rocm_sdk/version.py": f"v = '{OLD}'\n"}, tag=TAG),
    ]


def record(store: LocalStore, paths: list[Path], *more: Statement) -> SetManifest:
    manifest = new_set(
        family="gfx94X-dcgpu",
        targets=[],
        platform="any",
        files=describe_files(paths),
        sources={"rocm": OLD, "torch": "1a2b3c"},
    )
    said = [about_set(manifest, BUILD, {"result": "success", "run": "12"}), *more]
    record_set(store, manifest, {path.name: path for path in paths}, said, NOW)
    return manifest


def findings_of(manifest: SetManifest) -> list[Statement]:
    return [about_set(manifest, FINDINGS, {"passed": True, "files": [one.name for one in manifest.files]})]


def to_release(store: LocalStore, manifest: SetManifest, **options: object) -> Reversioned:
    return reversion_set(store, CHANNELS, set_id(manifest), parse_rule("release"), NOW, **options)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def test_a_candidate_becomes_a_new_set_in_staging(tmp_path: Path, store: LocalStore) -> None:
    paths = candidate(tmp_path / "dist")
    manifest = record(store, paths)
    done = to_release(store, manifest)
    assert done.staged is not None
    made = read_set(store, done.staged.set_id)
    assert [entry.name for entry in made.files] == [
        "mylib-1.0+rocm7.13.0-py3-none-any.whl",
        "rocm-7.13.0-py3-none-any.whl",
    ]
    assert made.sources == {"rocm": "7.13.0", "torch": "1a2b3c"}
    assert (made.family, made.targets, made.platform) == ("gfx94X-dcgpu", (), "any")
    assert read_state(store, "v2-staging/gfx94X-dcgpu/").sets == (done.staged.set_id,)
    said = read_statements(store, done.staged.set_id)
    kinds = {item.predicate_type for item in said}
    # Tested it is not yet; built it was, as the old one.
    assert {FINDINGS, REVERSION, BUILD} <= kinds and TEST not in kinds
    (origin,) = [item.predicate for item in said if item.predicate_type == REVERSION]
    assert (origin["from"], origin["old"], origin["new"]) == (set_id(manifest), OLD, "7.13.0")
    assert origin["files"] == [
        {
            "old_name": old.name,
            "old_sha256": old.sha256,
            "new_name": new.name,
            "new_sha256": new.sha256,
        }
        for old, new in zip(manifest.files, made.files, strict=True)
    ]
    (built,) = [item for item in said if item.predicate_type == BUILD]
    assert built.predicate == {"result": "success", "run": "12"} and built.about(done.staged.set_id)
    # The old one is as it was.
    assert read_set(store, set_id(manifest)) == manifest


@pytest.mark.parametrize("install", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_what_was_not_installed_is_recorded_as_not_proved(
    tmp_path: Path, store: LocalStore, install: bool
) -> None:
    """As for `set create --no-install`; that the old set was proved says nothing about new bytes."""
    done = to_release(store, record(store, candidate(tmp_path / "dist")), install=install)
    assert done.staged is not None
    (said,) = [item.predicate for item in read_statements(store, done.staged.set_id, FINDINGS)]
    told = [(one["rule"], one["severity"], one["cause"]) for one in said["findings"]]
    proved = [one["installer"] for one in said["proved"]]
    if install:
        assert (told, proved) == ([], ["pip", "uv"])
    else:
        [(rule, severity, cause)] = told
        assert (rule, severity, proved) == ("set-unproved", "warning", [])
        assert cause.endswith(": the installation was left out")
    assert ("set-install" in said["rules"]) == install


def test_again_it_changes_nothing(tmp_path: Path, store: LocalStore) -> None:
    manifest = record(store, candidate(tmp_path / "dist"))
    first = to_release(store, manifest)
    before = {one.key: store.digest(one.key) for one in store.list("")}
    second = to_release(store, manifest)
    assert second.staged == first.staged
    assert {one.key: store.digest(one.key) for one in store.list("")} == before


def test_it_is_on_the_landing_page(tmp_path: Path, store: LocalStore) -> None:
    to_release(store, record(store, candidate(tmp_path / "dist")))
    assert "gfx94X-dcgpu" in store.read("v2-staging/_landing.json").decode()


def test_the_first_channel_is_asked_as_for_any_set(tmp_path: Path, store: LocalStore) -> None:
    manifest = record(store, candidate(tmp_path / "dist"))
    staged = to_release(store, manifest).staged
    assert staged is not None
    withdrawn = Event("yank", (staged.set_id,), at="2026-11-21T13:00:00Z", reason="it crashes")
    state = change(store, staged.prefix, withdrawn)
    with pytest.raises(GateClosed, match="withdrawn from staging: it crashes"):
        to_release(store, manifest)
    assert read_state(store, staged.prefix) == state


def test_a_dry_run_and_a_final_version_store_nothing(tmp_path: Path, store: LocalStore) -> None:
    manifest = record(store, candidate(tmp_path / "dist"))
    before = [one.key for one in store.list("")]
    done = to_release(store, manifest, dry_run=True)
    assert done.staged is None and done.plan.new == "7.13.0"
    assert [one.key for one in store.list("")] == before
    staged = to_release(store, manifest).staged
    assert staged is not None
    after = [one.key for one in store.list("")]
    with pytest.raises(UsageError) as caught:
        to_release(store, read_set(store, staged.set_id))
    assert "promote it as it is" in str(caught.value.next_step)
    assert [one.key for one in store.list("")] == after


def test_changed_bytes_in_the_store_are_found(tmp_path: Path, store: LocalStore) -> None:
    manifest = record(store, candidate(tmp_path / "dist"))
    path = tmp_path / "store" / file_key(manifest.files[0].sha256, manifest.files[0].name)
    data = bytearray(path.read_bytes())
    path.unlink()
    data[40] ^= 1
    path.write_bytes(data)
    with pytest.raises(IntegrityError, match="mylib"):
        to_release(store, manifest)
    assert recorded_sets(store) == (set_id(manifest),)


def flawed(folder: Path) -> list[Path]:
    """A candidate with a file that requires what is in no set."""
    files = {"other/a.py": "x = 1\n"}
    other = write_wheel(folder, "other", f"1.0+rocm{OLD}", files, requires=["rocm>=8"], tag=TAG)
    return [*candidate(folder), other]


def test_a_set_that_the_check_refuses_is_not_recorded(tmp_path: Path, store: LocalStore) -> None:
    manifest = record(store, flawed(tmp_path / "dist"))
    with pytest.raises(ContractBroken, match="set-pins"):
        to_release(store, manifest)
    assert recorded_sets(store) == (set_id(manifest),)
    assert not store.list("v2-staging/")
    assert len({one.key.split("/")[1] for one in store.list("files/")}) == 3


def test_what_was_waived_for_the_old_set_may_pass_in_the_new(tmp_path: Path, store: LocalStore) -> None:
    waiver = Waiver(rule=RULE, file="other-*", reason="known", expires=date(2030, 1, 31))
    manifest = record(store, flawed(tmp_path / "dist"))
    save_statement(store, set_id(manifest), waiver_statement(manifest, waiver))
    staged = to_release(store, manifest).staged
    assert staged is not None
    said = read_statements(store, staged.set_id, WAIVER)
    assert [item.predicate["reason"] for item in said] == ["known"]


def test_the_command(tmp_path: Path, store: LocalStore, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = record(store, candidate(tmp_path / "dist"))
    stage_set(
        store, CHANNELS.named("staging"), manifest, candidate(tmp_path / "again"), findings_of(manifest), NOW
    )

    def run(*words: str) -> int:
        return status("set", "reversion", *words, "--store", tmp_path / "store")

    assert run("staging:gfx94X-dcgpu", "--to", "release", "--json") == 0
    said = json.loads(capsys.readouterr().out)
    assert said["from"] == set_id(manifest)
    assert current_of(store, read_state(store, "v2-staging/gfx94X-dcgpu/")) == said["set"]
    # Now the newest there is final.
    assert run("staging:gfx94X-dcgpu", "--to", "release") == 2
    assert "promote it as it is" in capsys.readouterr().err
    assert run(set_id(manifest)[:12], "--to", "release") == 0
    told = capsys.readouterr().out
    assert told.splitlines()[-1] == f"set {said['set']}"
    # Files are named; where they lay meanwhile is nowhere now.
    assert "\nmylib-1.0+rocm7.13.0-" in told
    assert "/new/" not in told

"""A store that lost its power, or that somebody's tool wrote into: read, published beside, and repaired."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_sets import SOURCE, all_tested, created, kept, run, wheels

from command_line import Run, status
from rocwright.store import damage
from rocwright.store.channel_log import read_state
from rocwright.store.objects.address import PUBLIC_URL
from rocwright.store.objects.local import LocalStore
from rocwright.store.sets.verify import verify_set
from wheels import write_wheel

__all__ = ["run"]
# A store of six sets is copied and repaired for each kind of damage.
pytestmark = pytest.mark.slow

FAMILIES = ("fama", "famb")
KINDS = {
    "manifest": "sets/*/manifest.json",
    "build": "sets/*/_statements/build-*",
    "findings": "sets/*/_statements/findings-*",
    "receipt": "sets/*/_statements/receipt-*",
    "promotion": "sets/*/_statements/promotion-*",
    "page of a set": "sets/*/_json/mylib/index.html",
    "lock": "sets/*/pylock.gfx942.toml",
    "snippet": "sets/*/uv.toml",
    "wheel": "files/*/mylib*.whl",
    "sidecar": "files/*/mylib*.metadata",
    "first event": "v2-staging/fama/_log/00000001-*",
    "last event": "v2-staging/fama/_log/00000004-*",
    "mark": "v2-staging/fama/_log/shown-00000004-*",
    "page": "v2-staging/fama/mylib/index.html",
    "root as JSON": "v2-staging/fama/_json/index.html",
    "page for people": "v2-staging/_landing.json",
}
# Pages for people name it, and the copies of the store lie elsewhere.
ADDRESS = "https://packages.example.org"
HOWS = ("empty", "cut", "garbage", "missing")
# Of these nothing tells what they were; of an event that is not there, not even its name.
LOST = {"findings", "promotion", "wheel", "mark", "last event"}
# Written anew from what is whole, however they are damaged.
PAGES = {"page of a set", "lock", "snippet", "page", "root as JSON", "page for people"}
CASES = [(kind, how) for kind in KINDS for how in (HOWS[1::2] if kind in PAGES else HOWS)]


def sets_of(folder: Path, family: str, version: str) -> Path:
    here = folder / f"{family}-{version}"
    write_wheel(here, "helper", version, {"helper/__init__.py": family}, tag="py3-none-any")
    requires = [f"helper=={version}"]
    files = {"mylib/__init__.py": family}
    write_wheel(here, "mylib", f"{version}+r1", files, tag="py3-none-any", requires=requires)
    return here


def words_for(folder: Path, family: str, version: str) -> tuple[object, ...]:
    made = sets_of(folder, family, version)
    return (made, "--family", family, "--target", "gfx942", "--source", SOURCE, "--stage")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A store of two families with three sets each; the newest of the first is withdrawn."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("signal.signal", lambda *_: None)
        patch.chdir(folder)
        patch.setenv(PUBLIC_URL, ADDRESS)
        for family in FAMILIES:
            for version in ("1.0", "2.0", "3.0"):
                assert status("set", "create", *words_for(folder, family, version), "--no-install") == 0
        words = ("--reason", "it crashes", "--by", "somebody", "--no-wait")
        assert status("set", "rollback", "staging:fama", *words) == 0
        yield folder / "store"


@pytest.fixture
def store(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(PUBLIC_URL, ADDRESS)
    shutil.copytree(whole, tmp_path / "store")
    damage._met.clear()
    return tmp_path / "store"


def hurt(path: Path, how: str) -> None:
    data = path.read_bytes()
    if how == "missing":
        path.unlink()
    else:
        path.write_bytes({"empty": b"", "cut": data[: len(data) // 2], "garbage": bytes(len(data))}[how])


def looked_at(run: Run) -> dict[str, int]:
    """The exit codes of the verbs that read."""
    words = {
        "list": ("list",),
        "fama": ("log", "staging:fama"),
        "famb": ("log", "staging:famb"),
        "show": ("show", "staging:famb"),
        "gc": ("gc",),
    }
    return {name: run(*typed).code for name, typed in words.items()}


def require_mended(run: Run, folder: Path) -> None:
    """Nothing is left to be repaired, and what channels list is whole."""
    assert run("repair").lines == ["nothing is damaged"]
    assert run("list").code == 0
    there = LocalStore(folder)
    for family in FAMILIES:
        for one in read_state(there, f"v2-staging/{family}/").sets:
            assert verify_set(there, one).problems == ()


def differing(one: Path, other: Path) -> list[str]:
    """The keys of objects that are not the same in both stores; what was set aside is in neither."""
    mine, theirs = kept(one), kept(other)
    found = [key for key in {*mine, *theirs} if mine.get(key) != theirs.get(key)]
    return sorted(key for key in found if not key.startswith("_damaged/"))


@pytest.mark.parametrize(("kind", "how"), CASES)
def test_one_damaged_object(run: Run, store: Path, whole: Path, kind: str, how: str) -> None:
    path = min(store.glob(KINDS[kind]))
    key = path.relative_to(store).as_posix()
    hurt(path, how)
    codes = looked_at(run)
    assert set(codes.values()) <= {0, 6}, codes
    # What is damaged in one family is no matter of the other.
    assert codes["famb"] == 0 or "v2-staging/fama" not in key
    planned = run("repair", "--dry-run")
    assert differing(store, whole) == [key]
    done = run("repair")
    assert done.code == 0, done.err
    assert planned.lines in ([*done.lines, "nothing was changed"], ["nothing is damaged"])
    require_mended(run, store)
    if kind not in LOST and not (how == "missing" and ("event" in kind or kind == "build")):
        assert differing(store, whole) == []
    state, was = (read_state(LocalStore(one), "v2-staging/fama/") for one in (store, whole))
    if kind != "wheel":
        assert (set(state.sets), dict(state.yanked)) == (set(was.sets), dict(was.yanked))


@pytest.mark.parametrize("seed", range(6))
def test_much_damage_at_once(run: Run, store: Path, seed: int) -> None:
    chance = random.Random(seed)
    files = sorted(path for path in store.rglob("*") if path.is_file())
    for path in chance.sample(files, (10, len(files) // 3, len(files))[seed % 3]):
        hurt(path, chance.choice(HOWS))
    words = [("list",), ("gc",), ("gc", "--delete"), ("repair", "--dry-run"), ("repair",)]
    assert {run(*typed).code for typed in words} <= {0, 6}
    require_mended(run, store)


def test_strays_are_passed_over_with_one_word(run: Run, store: Path) -> None:
    names = ("Thumbs.db", ".DS_Store", "x.json", "manifest.json~")
    for folder in ("v2-staging/fama/_log", "sets", next(store.glob("sets/*/_statements")), "files", "."):
        for name in names:
            (store / folder / name).write_text("mine")
    (store / "sets/notes").mkdir()
    (store / "sets/notes/x.json").write_text("mine")
    before = kept(store)
    done = run("log", "staging:fama")
    assert done.code == 0
    assert (
        done.err.count("note: ignored, as no object of a store has such a name: v2-staging/fama/_log/") == 1
    )
    assert set(looked_at(run).values()) == {0}
    assert run("create", *words_for(Path(), "fama", "4.0")).code == 0
    assert run("repair").lines == ["nothing is damaged"]
    after = kept(store)
    assert {key for key in before if key.rpartition("/")[2] in names} <= after.keys()


@pytest.mark.parametrize("how", HOWS)
def test_power_that_is_lost_after_a_set_was_created(run: Run, store: Path, how: str) -> None:
    old = set(kept(store))
    words = words_for(Path(), "famb", "4.0")
    made = run("create", *words)
    whole_again = kept(store)
    for key in set(whole_again) - old:
        hurt(store / key, how)
    assert set(looked_at(run).values()) <= {0, 6}
    # Another set, of another family.
    assert run("create", *words_for(Path(), "fama", "4.0")).code == 0
    again = run("create", *words)
    assert (again.code, again.lines) == (0, made.lines), again.err
    if how != "missing":
        assert "put back, as it was damaged: sets/" in again.err
    assert run("log", "staging:famb", "--json").json["current"] == made.lines[0]
    assert run("verify", made.lines[0]).code == 0
    require_mended(run, store) if how in ("empty", "missing") else run("repair")
    require_mended(run, store)


def test_a_withdrawal_that_is_lost_is_told_by_the_pages(run: Run, store: Path) -> None:
    for mark in store.glob("v2-staging/fama/_log/shown-*"):
        mark.unlink()
    [event] = store.glob("v2-staging/fama/_log/00000004-*")
    event.write_bytes(b"")
    yanked = "it crashes"
    refused = run("rollback", "staging:fama", "--reason", "again", "--no-wait")
    assert (refused.code, "set repair v2-staging:fama" in refused.err) == (6, True)
    assert run("repair", "staging:fama").code == 0
    state = read_state(LocalStore(store), "v2-staging/fama/")
    assert list(state.yanked.values()) == [yanked]
    assert len(state.open) == 2
    require_mended(run, store)


def test_what_a_lost_test_said_keeps_the_gate_closed_until_a_copy_is_found(run: Run, tmp_path: Path) -> None:
    digest = created(run, "1.0", "--stage")
    all_tested(run, digest)
    words = ("--suite", "rocm-sdk", "--attempt", "2", "--result", "failed", "--detail", "no device")
    [key] = run("state", digest, *words).lines
    shutil.copytree("store", "copy")
    Path("store", key).write_bytes(b"")
    assert run("promote", digest).code == 10
    assert run("show", digest).code == 6
    assert f"set aside: {key}: it is empty; moved to _damaged/{key}" in run("repair").lines
    assert run("verify", digest).code == 0
    done = run("promote", digest)
    assert (done.code, "(rule unreadable)" in done.err, key in done.err) == (10, True, True)
    assert not Path("store/v2").exists()
    Path("store/_damaged", key).rename(Path("store", key))
    assert f"brought back: {key}: from a copy" in run("repair", "--from", "copy").lines
    done = run("promote", digest)
    assert (done.code, "(rule tests)" in done.err) == (10, True)


def test_a_copy_brings_back_everything(run: Run, store: Path, whole: Path) -> None:
    for path in [*store.glob("files/*/*"), *store.glob("sets/*/manifest.json"), *store.glob("sets/*/_st*/*")]:
        hurt(path, "garbage")
    done = run("repair", "--from", whole)
    assert done.code == 0
    assert all(line.startswith("brought back: ") for line in done.lines), done.out
    assert differing(store, whole) == []


def test_wheels_come_back_from_a_folder_of_them(run: Run, store: Path, whole: Path) -> None:
    for path in store.glob("files/*/*.whl"):
        hurt(path, "cut")
    assert run("repair", "--from", whole.parent).code == 0
    assert differing(store, whole) == []
    done = run("repair", "--from", "nowhere")
    assert (done.code, "there is no folder" in done.err) == (2, True)


def test_a_set_without_its_files_is_dropped_with_the_reason_and_a_whole_one_is_current(
    run: Run, store: Path
) -> None:
    before = run("log", "staging:famb", "--json").json
    manifest = run("show", before["current"], "--json").json["manifest"]
    lost = next(one for one in manifest["files"] if one["name"].startswith("mylib"))
    (store / "files" / lost["sha256"] / lost["name"]).unlink()
    done = run("repair")
    assert any(line.startswith(f"taken out: v2-staging/famb/ set {before['current']}") for line in done.lines)
    after = run("log", "staging:famb", "--json").json
    assert after["current"] == before["sets"][1]
    assert after["events"][-1]["reason"] == f"damaged in the store: lost: {lost['name']}"
    assert lost["name"] not in (store / "v2-staging/famb/_flat/index.html").read_text()


def test_a_set_without_its_manifest_is_set_aside_and_comes_back_with_a_copy(
    run: Run, store: Path, whole: Path
) -> None:
    [one] = read_state(LocalStore(store), "v2-staging/famb/").sets[2:]
    hurt(store / f"sets/{one}/manifest.json", "empty")
    for path in store.glob(f"sets/{one}/_statements/*"):
        path.unlink()
    for path in [*store.glob(f"sets/{one}/*/*.html"), *store.glob(f"sets/{one}/_json/*/*.html")]:
        path.unlink()
    assert run("repair").code == 0
    assert not any(path.is_file() for path in (store / f"sets/{one}").rglob("*"))
    assert one not in read_state(LocalStore(store), "v2-staging/famb/").sets
    require_mended(run, store)
    # Somebody may have a copy: for as long, no file goes.
    Path("rocwright.toml").write_text("[channels.retention]\ngrace_days = 1\n")
    done = run("gc", "--delete")
    assert (done.code, f"what it may refer to stays: _damaged/sets/{one}/manifest.json" in done.err) == (
        0,
        True,
    )
    assert f"brought back: sets/{one}/manifest.json: from a copy" in run("repair", "--from", whole).lines
    assert run("verify", one).code == 0


def test_while_something_is_damaged_nothing_goes_that_it_may_refer_to(run: Run, store: Path) -> None:
    Path("rocwright.toml").write_text("[channels.retention]\ngrace_days = 0\n")
    extra = wheels("extra", "9.0")
    assert run("create", extra, "--family", "famb").code == 0
    manifest = min(store.glob("sets/*/manifest.json"))
    data = manifest.read_bytes()
    manifest.write_bytes(b"")
    listed = next(
        one
        for one in FAMILIES
        if manifest.parent.name in read_state(LocalStore(store), f"v2-staging/{one}/").sets
    )
    done = run("gc", "--delete")
    assert (done.code, f"damaged: sets/{manifest.parent.name}/manifest.json: it is empty" in done.err) == (
        6,
        True,
    ), listed
    assert list(store.glob("files/*/helper-9.0*.whl"))
    manifest.write_bytes(data)
    event = next(store.glob("v2-staging/famb/_log/00000003-*"))
    said = event.read_bytes()
    for path in [event, *store.glob("v2-staging/famb/_log/shown-*")]:
        path.write_bytes(b"")
    assert run("gc", "--delete").code == 6
    assert list(store.glob("files/*/helper-9.0*.whl"))
    event.write_bytes(said)
    assert run("gc", "--delete").code == 0
    assert not list(store.glob("files/*/helper-9.0*.whl"))


def test_a_damaged_pin_is_said_again_or_removed(run: Run, store: Path) -> None:
    assert run("pin", "stable", "staging:famb").code == 0
    (store / "pins/stable.json").write_bytes(b"")
    done = run("gc")
    assert (done.code, "say again what it keeps (set pin stable SET)" in done.err) == (6, True)
    left = run("repair")
    assert (left.code, left.lines[0].startswith("left: pins/stable.json: it is empty")) == (6, True)
    assert run("pin", "stable", "staging:famb").code == 0
    assert run("repair").code == 0
    (store / "pins/stable.json").write_bytes(b"{")
    assert run("pin", "stable", "--remove").code == 0
    assert run("gc").code == 0

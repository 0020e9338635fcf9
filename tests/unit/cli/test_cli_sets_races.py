"""What others do to a store while `rocwright set …` is at work, in the worst moment."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest
from cli_sets import all_tested, created, kept, run, wheels

from command_line import Run
from rocwright.store.channel_log import Event
from rocwright.store.layout import file_key
from rocwright.store.lease import PACE, WHOLE_STORE, Pace, leased
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import Stored
from rocwright.store.publish import change
from rocwright.store.sets.records import read_set, save_statement
from rocwright.store.statements import SuiteResult, result_statement
from rocwright.system.files import sha256_file

__all__ = ["run"]

Meanwhile = Callable[[str, Callable[[], object]], None]


@pytest.fixture
def before_write(monkeypatch: pytest.MonkeyPatch) -> Meanwhile:
    """Do something once, just before the first object is written whose key begins so."""
    put = LocalStore.put_bytes

    def watch(start: str, act: Callable[[], object]) -> None:
        waiting = [act]

        def watching(self: LocalStore, key: str, data: bytes, *, overwrite: bool = False) -> None:
            if key.startswith(start) and waiting:
                waiting.pop()()
            put(self, key, data, overwrite=overwrite)

        monkeypatch.setattr(LocalStore, "put_bytes", watching)

    return watch


@contextmanager
def paced(pace: Pace) -> Iterator[None]:
    token = PACE.set(pace)
    try:
        yield
    finally:
        PACE.reset(token)


def withdrawn(digest: str, prefix: str = "v2/fam/") -> None:
    event = Event("yank", (digest,), at="2026-11-22T00:00:00Z", reason="wrong results on gfx942")
    change(LocalStore(Path("store")), prefix, event)


def test_files_that_retention_takes_while_a_set_is_made_of_them_are_put_again(
    run: Run,
) -> None:
    """An earlier run left a file that nothing needs any more, and retention has begun to delete it."""
    folder, store = wheels("dist", "1.0"), LocalStore(Path("store"))
    helper = next(folder.glob("helper-*"))
    key = file_key(sha256_file(helper), helper.name)
    store.put_file(helper, key)
    deleting = ExitStack()
    deleting.enter_context(leased(store, WHOLE_STORE))
    # Decided, but not yet done.
    deleting.callback(store.delete, key)
    with deleting, paced(Pace(sleep=lambda seconds: deleting.close())):
        [digest] = run("create", folder).lines
    assert store.exists(key)
    assert run("verify", digest).code == 0


def test_the_wait_for_a_publisher_that_was_killed_says_for_whom_and_until_when(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its lease is as it left it; that time passes is played by showing the lease older."""
    folder = wheels("dist", "1.0")
    left = Path("store/_leases/_store/0.json")
    left.parent.mkdir(parents=True)
    left.write_text('{"by":"the nightly of 12 November","renewed":3}')
    age = timedelta(seconds=20)
    listed = LocalStore.list

    def aged(self: LocalStore, prefix: str) -> tuple[Stored, ...]:
        return tuple(
            msgspec.structs.replace(one, modified=one.modified - age)
            if one.key.endswith("/_store/0.json")
            else one
            for one in listed(self, prefix)
        )

    def sleep(seconds: float) -> None:
        nonlocal age
        age += timedelta(seconds=seconds)

    monkeypatch.setattr(LocalStore, "list", aged)
    with paced(Pace(ttl=120.0, sleep=sleep)):
        done = run("create", folder)
    assert done.code == 0, done.err
    [digest] = done.lines
    [said] = [line for line in done.err.splitlines() if line.startswith("waiting for ")]
    assert said.startswith(f"waiting for sets/{digest}/: it is held by the nightly of 12 November, last ")
    assert re.search(r"unless renewed, it expires by itself in (9\d|10[0-2]) s, at \d{4}-.*Z by the", said)
    assert not left.exists()


def test_a_publisher_that_is_only_passing_is_not_spoken_of(run: Run) -> None:
    folder = wheels("dist", "1.0")
    passing = Path("store/_leases/_store/0.json")
    passing.parent.mkdir(parents=True)
    passing.write_text('{"by":"another","renewed":0}')
    with paced(Pace(sleep=lambda seconds: passing.unlink(missing_ok=True))):
        done = run("create", folder)
    assert done.code == 0, done.err
    assert "waiting" not in done.err


def test_a_set_that_is_withdrawn_while_it_is_promoted_again_stays_out(
    run: Run, before_write: Meanwhile
) -> None:
    digest = created(run, "1.0", "--stage")
    all_tested(run, digest)
    assert run("promote", digest).code == 0
    before_write("_leases/v2/fam/", lambda: withdrawn(digest))
    done = run("promote", digest)
    assert (done.code, "withdrawn from release: wrong results on gfx942" in done.err) == (10, True)
    assert run("show", digest, "--json").json["channels"]["release"] == "wrong results on gfx942"


def test_a_failure_that_is_stated_while_a_set_is_promoted_counts(run: Run, before_write: Meanwhile) -> None:
    digest = created(run, "1.0", "--stage")
    all_tested(run, digest)
    before = kept()

    def failing() -> None:
        store = LocalStore(Path("store"))
        failed = SuiteResult("smoke-gpu", "fam", "failed", True, attempt=2, target="gfx942")
        save_statement(store, digest, result_statement(read_set(store, digest), failed))

    before_write("_leases/v2/fam/", failing)
    done = run("promote", digest)
    assert (done.code, "(rule tests)" in done.err) == (10, True)
    # Nothing but the result: no page, and nobody who says that it was promoted.
    assert [key.rpartition("/")[2][:5] for key in kept().keys() - before.keys()] == ["test-"]


def test_a_set_that_is_taken_out_of_staging_while_it_is_promoted_is_not_released(
    run: Run, before_write: Meanwhile
) -> None:
    digest = created(run, "1.0", "--stage")
    all_tested(run, digest)
    before_write("_leases/v2/fam/", lambda: withdrawn(digest, "v2-staging/fam/"))
    done = run("promote", digest)
    assert (done.code, "(rule unstaged)" in done.err) == (10, True)
    assert not Path("store/v2").exists()

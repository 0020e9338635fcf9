"""Each closed gate names the command that opens it, and that command does; newest is one set everywhere."""

from __future__ import annotations

import hashlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from cli_sets import all_tested, created, run, wheels
from test_cli_sets_sealed import new_key, trusting

from command_line import Run
from rocwright.model.sets import TEST, about_set, canonical_json
from rocwright.store.channel_log import Event
from rocwright.store.objects.local import LocalStore
from rocwright.store.publish import change
from rocwright.store.sets.records import read_set
from wheels import write_wheel

__all__ = ["run"]

COMMAND = re.compile(r"^(?:  next:|       ) (rocwright .*?)(?:   # if .*)?$", re.MULTILINE)


def named(err: str) -> list[list[str]]:
    """The commands that an error names, with what people fill in."""
    found = [shlex.split(line) for line in COMMAND.findall(err)]
    return [["by hand" if word == "WHY" else word for word in words[1:]] for words in found]


def closed_by(run: Run, digest: str, *words: str) -> list[str]:
    """The rules that close a gate today."""
    done = run("promote", digest, "--dry-run", "--json", *words)
    return [one["rule"] for one in done.json["decision"]["rulings"] if not one["passed"]]


def opened(run: Run, digest: str, rule: str, *words: str, take: slice = slice(1)) -> None:
    """The gate is closed by this rule first; the commands that the error names take it away."""
    assert closed_by(run, digest, *words)[0] == rule
    done = run("promote", digest, *words)
    assert done.code == 10
    assert f"(rule {rule})" in done.err
    commands = named(done.err)
    assert commands, done.err
    for command in commands[take]:
        done = subprocess.run([sys.executable, "-m", "rocwright", *command], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert rule not in closed_by(run, digest, *words)


def forget(digest: str, kind: str) -> None:
    for path in Path("store/sets", digest, "_statements").glob(f"{kind}-*.json"):
        path.unlink()


def withdraw(digest: str, prefix: str) -> None:
    change(
        LocalStore(Path("store")), prefix, Event("yank", (digest,), at="2026-11-22T00:00:00Z", reason="slow")
    )


def test_a_set_without_a_check_is_checked_by_the_command_that_is_named(run: Run) -> None:
    digest = created(run)
    forget(digest, "findings")
    opened(run, digest, "unchecked", "--to", "staging")


def test_errors_that_nobody_answers_for_are_waived_by_name(run: Run) -> None:
    write_wheel(Path("dist"), "torch", "2.9.0", {"torch/version.py": "hip = None\n"})
    rules = set(re.findall(r"error \[([a-z-]+)\]", run("create", "dist").out))
    allow = [word for rule in sorted(rules) for word in ("--allow", rule)]
    digest = run("create", "dist", *allow, "--reason", "upstream", "--expires", "2999-01-01").lines[0]
    forget(digest, "waiver")
    opened(run, digest, "unchecked", "--to", "staging")


def test_a_set_that_is_not_signed(run: Run) -> None:
    digest = created(run)
    _, public = new_key("key.pem")
    trusting("staging", public)
    opened(run, digest, "unsigned", "--to", "staging")


def test_a_set_that_is_not_staged(run: Run) -> None:
    opened(run, created(run), "unstaged")


def test_a_set_that_was_withdrawn_from_staging(run: Run) -> None:
    digest = created(run, "1.0", "--stage")
    withdraw(digest, "v2-staging/fam/")
    opened(run, digest, "unstaged")


def test_a_set_that_was_withdrawn_from_the_release(run: Run) -> None:
    digest = created(run, "1.0", "--stage")
    all_tested(run, digest)
    assert run("promote", digest).code == 0
    withdraw(digest, "v2/fam/")
    # The command is the promotion itself.
    done = run("promote", digest)
    [again] = named(done.err)
    assert again[-1] == "--again"
    assert run(*again[1:]).code == 0
    assert closed_by(run, digest) == []


def test_a_build_of_which_nothing_is_known(run: Run) -> None:
    digest = created(run, "1.0", "--stage")
    forget(digest, "build")
    opened(run, digest, "build")


def test_a_build_that_failed_is_opened_by_nothing(run: Run) -> None:
    digest = created(run, "1.0", "--stage")
    assert run("state", digest, "--build", "failure").code == 0
    done = run("promote", digest)
    assert (done.code, named(done.err)) == (10, [])
    assert "next: nothing can open it for this set" in done.err


def test_tests_of_other_bytes(run: Run) -> None:
    other, digest = created(run, "1.0", body="x = 1\n"), created(run, "2.0", "--stage")
    store = LocalStore(Path("store"))
    result = {"suite": "rocm-sdk", "family": "fam", "result": "passed", "runner": True}
    data = canonical_json(about_set(read_set(store, other), TEST, result))
    key = f"sets/{digest}/_statements/test-{hashlib.sha256(data).hexdigest()[:32]}.json"
    store.put_bytes(key, data)
    opened(run, digest, "digest")


def test_a_test_that_failed_counts_until_another_attempt(run: Run) -> None:
    digest = created(run, "1.0", "--stage")
    all_tested(run, digest)
    assert run("state", digest, "--suite", "rocm-sdk", "--result", "failed", "--attempt", "3").code == 0
    opened(run, digest, "tests")


@pytest.mark.parametrize("take", [slice(3), slice(3, 6)], ids=["passed", "bypassed"])
def test_what_was_not_tested(run: Run, take: slice) -> None:
    digest = created(run, "1.0", "--stage")
    opened(run, digest, "untested", take=take)


def test_a_statement_that_cannot_be_read_is_found_by_the_command_that_is_named(run: Run) -> None:
    digest = created(run, "1.0", "--stage")
    Path(f"store/sets/{digest}/_statements/test-{'0' * 32}.json").write_text("{")
    done = run("promote", digest)
    [look] = named(done.err)
    assert f"test-{'0' * 32}.json" in run(*look[1:]).out


def test_what_is_named_is_for_this_store_and_this_table(run: Run) -> None:
    wheels("dist", "1.0")
    Path("own.toml").write_text("[channels]\nmax_age = 1\n")
    words = ("--store", "my store", "--config", "own.toml")
    digest = run("create", "dist", "--family", "fam", *words).lines[0]
    done = run("promote", digest, *words)
    [command] = named(done.err)
    assert command == ["set", "promote", digest[:12], "--to", "staging", *words]
    assert run(*command[1:]).code == 0


# -- newest


def test_newest_is_one_set_in_every_command(run: Run) -> None:
    old, new = created(run, "1.0", "--stage"), created(run, "2.0", "--stage")
    key, _ = new_key("key.pem")
    created(run, "3.0")
    told = [
        run("show", "newest", "--json").json["set_id"],
        run("verify", "newest", "--json").json["set_id"],
        run("diff", old, "newest", "--json").json["after"],
        run("sign", "newest", "--key", key, "--json").json["set"],
        run("pin", "kept", "newest", "--json").json["kept"]["set"],
        run("state", "newest", "--build", "success", "--json").json["set"],
        run("promote", "newest", "--dry-run", "--json").json["decision"]["set_id"],
        run("promote", "newest:fam", "--dry-run", "--json").json["decision"]["set_id"],
    ]
    assert set(told) == {new}
    assert f"# Set {new}" in run("lock", "newest").out
    # What was withdrawn is not newest any more, in any of them.
    assert run("rollback", "staging", "--reason", "slow", "--no-wait", "--to", old).code == 0
    assert run("show", "newest", "--json").json["set_id"] == old
    assert f"# Set {old}" in run("lock", "newest").out
    assert run("promote", "newest", "--dry-run", "--json").json["decision"]["set_id"] == old


def test_newest_of_several_families_is_asked_for(run: Run) -> None:
    first = created(run, "1.0", "--stage")
    second = run("create", wheels("dist", "2.0"), "--family", "other", "--stage").lines[0]
    done = run("show", "newest")
    assert (done.code, "families: fam, other" in done.err) == (3, True)
    assert run("show", "newest:fam", "--json").json["set_id"] == first
    assert run("show", "newest:other", "--json").json["set_id"] == second
    assert (
        run("promote", "newest", "--family", "other", "--dry-run", "--json").json["decision"]["set_id"]
        == second
    )


def test_newest_of_nothing_says_how_there_comes_to_be_one(run: Run) -> None:
    created(run)
    done = run("show", "newest")
    assert (done.code, "rocwright set promote SET --to staging" in done.err) == (3, True)
    done = run("promote", "newest", "--to", "staging")
    assert (done.code, "give the id of the set: rocwright set list" in done.err) == (2, True)

"""What a rocwright.toml takes away of rules and policy: said, recorded, weighed, over in time."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_sets import all_tested, created, run

from command_line import Run, day
from wheels import write_wheel

__all__ = ["run"]


@pytest.fixture
def check(rocwright: Run) -> Run:
    return lambda *words: rocwright("check", *words)


def strayed(folder: str = "dist") -> Path:
    """A wheel of one's own that breaks one rule: it holds what git left."""
    return write_wheel(
        Path(folder), "mytool", "1.0", {"mytool/__init__.py": "", "mytool/.git/HEAD": "x"}, tag="py3-none-any"
    )


def row(names: str = "mytool", change: str = 'off = ["forbidden-files"]', until: str = "2999-01-31") -> str:
    answered = f'reason = "ours has them, #7"\nexpires = {until}\n'
    return f'[[contract.package]]\nnames = ["{names}"]\n{change}\n{answered}'


def digest(path: str = "rocwright.toml") -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def statements(kind: str) -> list[dict[str, Any]]:
    found = sorted(Path("store/sets").glob(f"*/_statements/{kind}-*.json"))
    return [json.loads(path.read_bytes())["predicate"] for path in found]


# ---- check ----


def test_a_rule_that_a_file_in_this_directory_switches_off_is_said_and_not_counted(check: Run) -> None:
    strayed()
    broken = check("dist")
    assert (broken.code, "  error [forbidden-files]" in broken.out) == (9, True)
    rules = check("dist", "--json").json["rules"]
    Path("rocwright.toml").write_text(row())
    done = check("dist")
    assert done.code == 0
    told = "override forbidden-files off for mytool, by rocwright.toml until 2999-01-31: ours has them, #7"
    assert told in done.out.replace("\n  ", " ")
    counted = (
        f"1 file, {len(rules) - 1} of {len(rules)} rules (1 switched off by rocwright.toml: forbidden-files)"
    )
    assert counted in done.out.replace("\n", " ")
    assert f"note: {Path('rocwright.toml').absolute()} changes the contract: rows for mytool" in done.err


def test_json_holds_each_override_and_no_rule_that_was_not_applied(check: Run) -> None:
    strayed()
    Path("rocwright.toml").write_text(row())
    said = check("dist", "--json").json
    assert said["overrides"] == [
        {
            "field": "off",
            "before": "on",
            "after": "off",
            "reason": "ours has them, #7",
            "expires": "2999-01-31",
            "file": "rocwright.toml",
            "sha256": digest(),
            "rule": "forbidden-files",
            "names": ["mytool"],
        }
    ]
    assert "forbidden-files" not in said["rules"]
    assert str(Path.cwd()) not in json.dumps(said)


def test_what_is_taken_away_of_other_packages_is_not_said_of_these(check: Run) -> None:
    strayed()
    Path("rocwright.toml").write_text(row("legacy-*"))
    done = check("dist", "--json")
    assert (done.code, done.json["overrides"]) == (9, [])
    assert "forbidden-files" in done.json["rules"]


def test_a_rule_made_a_warning_is_applied_and_said(check: Run) -> None:
    strayed()
    Path("rocwright.toml").write_text(row(change='severity = { forbidden-files = "warning" }'))
    done = check("dist", "--json")
    assert (done.code, "forbidden-files" in done.json["rules"]) == (0, True)
    [one] = done.json["overrides"]
    assert (one["field"], one["before"], one["after"]) == ("severity", "error", "warning")


@pytest.mark.parametrize(
    ("answered", "missing"),
    [
        ("", "without `reason` and `expires`"),
        ('reason = "x"\n', "without `expires`"),
        ("expires = 2999-01-31\n", "without `reason`"),
        ('reason = " "\nexpires = 2999-01-31\n', "without `reason`"),
    ],
)
def test_without_a_reason_and_a_last_day_nothing_is_taken_away(
    check: Run, answered: str, missing: str
) -> None:
    strayed()
    for text in (
        f'[[contract.package]]\nnames = ["mytool"]\noff = ["forbidden-files"]\n{answered}',
        f"[contract]\ngrowth = 0.5\n{answered}",
    ):
        Path("rocwright.toml").write_text(text)
        done = check("dist")
        assert (done.code, done.out) == (3, "")
        assert missing in done.err and "takes away from the contract" in done.err
        assert 'reason = "WHY" and expires = ' in done.err


def test_after_its_last_day_it_is_asked_for_again_and_said(check: Run) -> None:
    strayed()
    Path("rocwright.toml").write_text(row(until=day(0)))
    assert check("dist").code == 0
    Path("rocwright.toml").write_text(row(until=day(-1)))
    done = check("dist")
    assert (done.code, "  error [forbidden-files]" in done.out) == (9, True)
    assert "lapsed forbidden-files off for mytool" in done.out
    said = check("dist", "--json").json
    assert ([one["rule"] for one in said["lapsed"]], said["overrides"]) == (["forbidden-files"], [])
    assert "forbidden-files" in said["rules"]


def test_every_rule_holds_for_whoever_asks_for_that(check: Run) -> None:
    strayed()
    Path("rocwright.toml").write_text(row() + '[[contract.package]]\nnames = ["mytool"]\nbudget = 10\n')
    done = check("dist", "--no-overrides", "--json")
    broken = {one["rule"] for one in done.json["findings"] if one["severity"] == "error"}
    # What the file asks for holds; what it takes away does not.
    assert (done.code, done.json["overrides"], broken) == (9, [], {"forbidden-files", "size-budget"})


# ---- the set, its statements, and the gate ----


def staged(run: Run) -> str:
    strayed("dist-set")
    done = run("create", "dist-set", "--family", "fam", "--target", "gfx942", "--stage")
    assert done.code == 0, done.err
    return done.lines[0]


def test_a_set_says_what_its_check_did_not_ask(run: Run) -> None:
    Path("rocwright.toml").write_text(row())
    id_ = staged(run)
    [findings] = statements("findings")
    assert [(one["rule"], one["sha256"]) for one in findings["overrides"]] == [("forbidden-files", digest())]
    assert "forbidden-files" not in findings["rules"]
    said = run("show", id_, "--json").json
    told = "overridden: forbidden-files off for mytool (until 2999-01-31: ours has them, #7)"
    assert told in said["checked"]
    assert any(line == f"check passed, {told}" for line in said["said"])
    # The first channel takes it and says on what that rests.
    assert "OVERRIDDEN: forbidden-files off" in said["decisions"]["staging"]["reason"]
    [promotion] = statements("promotion")
    assert [one["rule"] for one in promotion["overrides"]] == ["forbidden-files"]


def test_a_release_takes_no_set_by_a_check_with_overrides_and_says_what_opens_it(
    run: Run, rocwright: Run
) -> None:
    Path("rocwright.toml").write_text(row())
    id_ = staged(run)
    all_tested(run, id_)
    closed = run("promote", id_)
    assert (closed.code, "rests on overrides that do not count here" in closed.err) == (10, True)
    [opening] = [line.strip() for line in closed.err.splitlines() if "--no-overrides" in line]
    words = opening.removeprefix("next: ").split()
    assert words[:2] == ["rocwright", "check"] and words[-1] == "--no-overrides"
    # The file is as it was: what it does not ask for is an error now, and needs somebody to answer for it.
    assert rocwright(*words[1:]).code == 9
    assert "reported errors: forbidden-files" in run("promote", id_).err
    waive = ("--waive", "forbidden-files", "--reason", "ours has them", "--expires", day(9))
    assert run("state", id_, *waive).code == 0
    done = run("promote", id_)
    assert done.code == 0, done.err
    assert "WAIVED: forbidden-files" in done.out and "OVERRIDDEN" not in done.out


def test_past_its_last_day_an_override_leaves_a_set_unchecked(run: Run) -> None:
    Path("rocwright.toml").write_text(row(until=day(0)))
    id_ = staged(run)
    path = next(Path(f"store/sets/{id_}/_statements").glob("findings-*.json"))
    said = json.loads(path.read_bytes())
    said["predicate"]["overrides"][0]["expires"] = day(-1)
    data = json.dumps(said, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()
    path.unlink()
    path.with_name(f"findings-{hashlib.sha256(data).hexdigest()[:32]}.json").write_bytes(data)
    decision = run("show", id_, "--json").json["decisions"]["staging"]
    assert (decision["promote"], decision["rule"]) == (False, "unchecked")
    assert "rests on overrides that are past their last day: forbidden-files off" in decision["reason"]


def test_a_check_of_all_rules_beside_it_is_what_a_set_rests_on(run: Run, rocwright: Run) -> None:
    """The wheel breaks nothing; the file only says that it might."""
    Path("rocwright.toml").write_text(row("mylib"))
    id_ = created(run, "1.0", "--stage")
    all_tested(run, id_)
    assert run("promote", id_).code == 10
    assert rocwright("check", "dist-1.0-0", "--statements", "store", "--no-overrides").code == 0
    done = run("promote", id_)
    assert done.code == 0, done.err
    assert "OVERRIDDEN" not in done.out


def test_a_check_as_of_wheels_of_others_says_so_in_its_statement(run: Run, rocwright: Run) -> None:
    id_ = created(run, "1.0")
    assert rocwright("check", "dist-1.0-0", "--statements", "store", "--adopted").code == 0
    said = run("show", id_, "--json").json["said"]
    assert [one for one in said if one.startswith("check")] == [
        "check passed",
        "check passed, as wheels that others built",
    ]


# ---- the policy of whoever promotes ----


def test_a_policy_of_ones_own_is_said_and_recorded(run: Run) -> None:
    Path("rocwright.toml").write_text(row("mylib") + "[channels.overrides]\nrelease = true\n")
    id_ = created(run, "1.0", "--stage")
    all_tested(run, id_)
    done = run("promote", id_)
    assert done.code == 0, done.err
    where = Path("rocwright.toml").absolute()
    assert f"note: {where} changes the policy: channels.overrides.release: false -> true" in done.err
    [change] = [one["policy"] for one in statements("promotion") if one["to"] == "release"]
    assert change == [
        {
            "field": "channels.overrides.release",
            "before": "false",
            "after": "true",
            "file": "rocwright.toml",
            "sha256": digest(),
        }
    ]


def test_where_things_lie_is_no_policy(run: Run) -> None:
    Path("rocwright.toml").write_text("[channels]\nmax_age = 1\n")
    id_ = created(run, "1.0", "--stage")
    all_tested(run, id_)
    done = run("promote", id_, "--json")
    assert (done.code, done.json["policy"], "policy" in done.err) == (0, [], False)


def test_a_bypass_of_a_family_in_a_file_of_ones_own_is_policy_too(run: Run) -> None:
    Path("rocwright.toml").write_text(
        '[families.families]\nlab = ["gfx942"]\n[[families.family]]\nname = "lab"\ntier = "nightly"\n'
        'linux = { bypass = { reason = "the lab moves", until = 2026-12-31 } }\n'
    )
    id_ = created(run, "1.0", "--stage")
    told = "changes the policy: families.lab.linux.bypass: nothing -> {"
    assert told in run("promote", id_, "--dry-run").err


def test_tests_say_what_a_file_in_this_directory_changes_of_them(rocwright: Run) -> None:
    entry = 'id = "ours"\ntests = ["test_nn.py::TestNN::test_a"]\nkind = "hang"\nreason = "x"\n'
    entry += "added = 2026-11-22\nexpires = 2999-01-31\n"
    Path("rocwright.toml").write_text(f"[tests.limits]\ntest_s = 5\n[[skips.entry]]\n{entry}")
    done = rocwright("test", "smoke", "--python", "nowhere")
    where = Path("rocwright.toml").absolute()
    assert "nowhere" in done.err
    assert re.search(rf"^note: {where} changes tests.limits.test_s: [0-9.]+ -> 5$", done.err, re.MULTILINE)
    assert f"note: {where} changes skips.entry: 1 more\n" in done.err


# ---- bypasses ----

GPU = ("--suite", "smoke-gpu", "--target", "gfx942")
UNTIL = '[channels.bypass.suite.smoke-gpu]\ndays = 7\nby = ["ada", "grace"]\n'


def untested(run: Run) -> str:
    id_ = created(run, "1.0", "--stage")
    for suite in ("rocm-sdk", "smoke-host"):
        assert run("state", id_, "--suite", suite, "--result", "passed").code == 0
    return id_


def test_a_bypass_is_refused_beyond_what_the_policy_allows(run: Run) -> None:
    Path("rocwright.toml").write_text(UNTIL)
    id_ = untested(run)
    about = ("state", id_, *GPU, "--bypass", "--reason", "no GPU")
    for words, told in (
        (("--expires", day(8), "--by", "ada"), f"give --expires {day(7)} or earlier"),
        (("--expires", day(7), "--by", "eve"), "eve gave it, and only ada, grace may"),
        (("--expires", day(7)), "nobody gave it, and only ada, grace may"),
    ):
        done = run(*about, *words)
        assert (done.code, told in done.err) == (2, True), done.err
    assert run(*about, "--expires", day(7), "--by", "grace").code == 0
    assert [(one["at"], one["by"]) for one in statements("bypass")] == [(day(0), "grace")]
    # Another suite is bounded by what holds for all.
    assert run("state", id_, "--suite", "smoke-host", *about[6:], "--expires", day(90)).code == 0
    assert run("promote", id_).code == 0


def test_a_bypass_that_lasts_too_long_for_the_policy_does_not_count(run: Run) -> None:
    id_ = untested(run)
    assert run("state", id_, *GPU, "--bypass", "--reason", "no GPU", "--expires", day(30)).code == 0
    Path("rocwright.toml").write_text("[channels.bypass]\ndays = 29\n")
    closed = run("promote", id_)
    assert closed.code == 10
    told = (
        f"void bypass: smoke-gpu on gfx942 (until {day(30)}: no GPU): it lasts 30 days from {day(0)}, and 29"
    )
    assert told in closed.err
    # What opens it is within the bounds.
    [again] = [line for line in closed.err.splitlines() if "--bypass" in line]
    assert f"--expires {day(29)}" in again


def test_the_channels_page_shows_which_tests_a_set_went_without(run: Run) -> None:
    id_ = untested(run)
    words = ("--bypass", "--reason", "no <GPU> until March", "--expires", day(30), "--by", "ada")
    assert run("state", id_, *GPU, *words).code == 0
    assert run("promote", id_).code == 0
    page = Path("store/v2/index.html").read_text()
    told = f"without smoke-gpu on gfx942: no &lt;GPU&gt; until March (until {day(30)}, by ada)"
    assert f'<li>Set <a href="../sets/{id_}/index.html">{id_[:12]}</a>, {told}</li>' in page
    assert json.loads(Path("store/v2/_landing.json").read_bytes())["families"]["fam"]["bypasses"] == [
        {
            "set": id_,
            "suite": "smoke-gpu",
            "target": "gfx942",
            "reason": "no <GPU> until March",
            "expires": day(30),
            "by": "ada",
            "at": day(0),
        }
    ]
    assert "Not tested" not in Path("store/v2-staging/index.html").read_text()

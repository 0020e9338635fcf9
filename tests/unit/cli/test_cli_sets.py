"""`rocwright set …` at the door: create, show, list, diff, state, promote, and what they refuse."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from cli_sets import SOURCE, all_tested, created, kept, run, wheels

from command_line import Run, day
from rocwright.cli import main
from rocwright.store.index import pages
from wheels import write_wheel

__all__ = ["run"]


@pytest.mark.parametrize(
    "command",
    ["set rollback", "set pin", "set gc", "set bisect", "set state", "store fetch", "store index"],
)
def test_help_shows_no_default_that_says_nothing_and_leaves_no_option_without_words(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    text = capsys.readouterr().out
    assert "  --json" in text
    for noise in ("(default: )", "default: ()", "--empty-", "--no-json"):
        assert noise not in " ".join(text.split())


# ---- create ----


def test_a_store_that_cannot_be_opened_is_said_before_the_checks(run: Run) -> None:
    folder = wheels("dist", "1.0")
    write_wheel(folder, "torch", "2.9.0", {"torch/version.py": "hip = None\n"})
    done = run("create", folder, "--store", "ftp://host/store")
    assert done.code == 3
    assert "ftp" in done.err
    assert "ContractBroken" not in done.err


def test_a_family_of_ours_names_a_set_of_its_targets(run: Run) -> None:
    words = ("create", wheels("dist", "1.0"), "--target", "gfx90a,gfx1201", "--json")
    before = run(*words)
    Path("rocwright.toml").write_text('[families.families]\nours = ["gfx90a", "gfx1201"]\n')
    after = run(*words)
    assert (before.code, after.code) == (0, 0), before.err + after.err
    assert before.json["manifest"]["family"] == "gfx90a-gfx1201"
    assert after.json["manifest"]["family"] == "ours"


def test_the_id_is_all_that_stdout_holds_and_names_the_manifest(run: Run) -> None:
    digest = created(run)
    manifest = json.loads(Path(f"store/sets/{digest}/manifest.json").read_text())
    assert (manifest["family"], manifest["targets"]) == ("fam", ["gfx942"])
    assert manifest["sources"] == {"mylib": SOURCE.partition("=")[2]}
    assert [file["name"] for file in manifest["files"]] == [
        "helper-1.0-py3-none-any.whl",
        "mylib-1.0+r1-py3-none-any.whl",
    ]
    assert not Path("store/v2-staging").exists()


def test_a_dry_run_names_every_object_and_writes_nothing(run: Run) -> None:
    folder = wheels("dist", "1.0")
    done = run("create", folder, "--dry-run", "--json")
    assert done.code == 0
    assert not Path("store").exists()
    objects = {one["key"].rpartition("/")[2]: one for one in done.json["objects"]}
    sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
    assert {name: one["size"] for name, one in objects.items() if not name.endswith(".metadata")} == sizes
    assert len(objects) == 4
    assert not any(one["present"] for one in objects.values())
    # The same id as that of the set which is made then, and all of it is there afterwards.
    assert run("create", folder).lines == [done.json["set"]]
    again = run("create", folder, "--dry-run")
    assert "0 objects would be written" in again.err
    assert again.out.count(" there") == 4


def test_again_changes_nothing(run: Run) -> None:
    first = created(run, "1.0", "--stage")
    before = kept()
    assert created(run, "1.0", "--stage") == first
    assert kept() == before


def test_what_is_not_said_follows_from_the_files(run: Run) -> None:
    done = run("create", wheels("dist", "1.0"), "--json")
    manifest = done.json["manifest"]
    assert (manifest["family"], manifest["targets"], manifest["platform"]) == ("none", [], "any")
    assert done.json["index_url"] is None
    linux = write_wheel(
        Path("linux"), "helper", "1.0", {"helper/__init__.py": ""}, tag="cp312-cp312-linux_x86_64"
    )
    assert run("create", linux, "--target", "gfx90a", "--json").json["manifest"]["family"] == "gfx90a-dcgpu"


def test_a_set_that_breaks_the_contract_leaves_no_trace(run: Run) -> None:
    wheels("dist", "1.0")
    write_wheel(Path("dist"), "torch", "2.9.0", {"torch/version.py": "hip = None\n"})
    done = run("create", "dist", "--stage")
    assert done.code == 9
    assert "error (ContractBroken)" in done.err
    assert not Path("store").exists()


def test_what_a_check_found_is_json_where_that_is_asked_for(run: Run) -> None:
    folder = wheels("dist", "1.0")
    next(folder.glob("helper-*")).unlink()
    write_wheel(folder, "helper", "2.0", {"helper/__init__.py": ""}, tag="py3-none-any")
    for words in ([], ["--dry-run"]):
        done = run("create", folder, "--json", *words)
        check = done.json["check"]
        assert (done.code, [one["rule"] for one in check["findings"]]) == (9, ["set-pins", "set-unproved"])
    assert not Path("store").exists()


def test_a_waiver_is_recorded_with_the_set(run: Run) -> None:
    write_wheel(Path("dist"), "torch", "2.9.0", {"torch/version.py": "hip = None\n"})
    refused = run("create", "dist")
    assert refused.code == 9
    rules = {word[1:-1] for line in refused.out.splitlines() for word in line.split() if word.startswith("[")}
    allow = [word for rule in sorted(rules) for word in ("--allow", rule)]
    done = run("create", "dist", *allow, "--reason", "known upstream", "--expires", "2999-01-01")
    assert done.code == 0, done.err
    shown = run("show", done.lines[0])
    assert "known upstream" in shown.out
    assert "checked    passed, waived: " in shown.out


# ---- what cannot be a set ----


def no_metadata(folder: Path) -> None:
    path = write_wheel(folder, "mylib", "1.0", {})
    import zipfile

    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("mylib/__init__.py", "")


def wrong_metadata(folder: Path) -> None:
    write_wheel(folder, "mylib", "1.0", {"mylib/__init__.py": ""}, said=("mylib", "2.0"))


def unknown_version(folder: Path) -> None:
    path = write_wheel(folder, "mylib", "1.0", {"mylib/__init__.py": ""})
    path.rename(path.with_name("mylib-nightly_of_monday-py3-none-any.whl"))


def traversal(folder: Path) -> None:
    write_wheel(folder, "mylib", "1.0", {"../../evil.py": "", "mylib/__init__.py": ""}, tag="py3-none-any")


def html_in_the_name(folder: Path) -> None:
    path = write_wheel(folder, "mylib", "1.0", {"mylib/__init__.py": ""})
    path.rename(path.with_name("mylib-1.0-py3-none-<script>.whl"))


def html_in_requires(folder: Path) -> None:
    write_wheel(folder, "mylib", "1.0", {"mylib/__init__.py": ""}, requires=["<script>alert(1)</script>"])


def truncated(folder: Path) -> None:
    path = write_wheel(folder, "mylib", "1.0", {"mylib/__init__.py": "x = 1\n" * 1000})
    path.write_bytes(path.read_bytes()[:-100])


def wrong_checksum(folder: Path) -> None:
    path = write_wheel(folder, "mylib", "1.0", {"mylib/__init__.py": "x = 1\n"}, tag="py3-none-any")
    import zipfile

    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    members["mylib/__init__.py"] = b"x = 2\n"
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data)


def missing_extra(folder: Path) -> None:
    write_wheel(folder, "helper", "1.0", {"helper/__init__.py": ""}, tag="py3-none-any")
    requires = ["helper[device-gfx942]==1.0"]
    write_wheel(folder, "mylib", "1.0", {"mylib/__init__.py": ""}, tag="py3-none-any", requires=requires)


def same_name_other_bytes(folder: Path) -> None:
    for place in ("one", "two"):
        write_wheel(folder / place, "mylib", "1.0", {"mylib/__init__.py": place}, tag="py3-none-any")


def no_files(folder: Path) -> None:
    folder.mkdir()


@pytest.mark.parametrize(
    ("make", "code", "told"),
    [
        (no_metadata, 3, "METADATA"),
        (wrong_metadata, 3, "calls itself 'mylib' '2.0'"),
        (unknown_version, 3, "nightly_of_monday"),
        (traversal, 3, "../../evil.py"),
        (html_in_the_name, 3, "<script>"),
        (html_in_requires, 3, "<script>"),
        (truncated, 3, "mylib-1.0"),
        (wrong_checksum, 9, "mylib/__init__.py"),
        (missing_extra, 9, "device-gfx942"),
        (same_name_other_bytes, 3, "given twice, with different bytes"),
        (no_files, 3, "no wheels or sdists"),
    ],
    ids=lambda value: value.__name__ if callable(value) else None,
)
def test_bad_input_is_named_and_nothing_is_kept_of_it(run: Run, make: object, code: int, told: str) -> None:
    make(Path("dist"))
    files = sorted(Path("dist").rglob("*.whl")) or [Path("dist")]
    done = run("create", *files, "--stage")
    assert (done.code, told in done.out + done.err) == (code, True), done.out + done.err
    assert "Traceback" not in done.err
    assert not Path("store").exists()


def test_a_name_that_is_listed_with_other_bytes_is_refused_before_any_page(run: Run) -> None:
    created(run, "1.0", "--stage")
    before = kept()
    folder = wheels("rebuilt", "1.0", body="x = 1\n")
    done = run("create", folder, "--family", "fam", "--target", "gfx942", "--stage")
    assert (done.code, "with other content" in done.err) == (6, True)
    pages = {key for key in before if key.startswith("v2-staging/")}
    after = kept()
    assert {key: after[key] for key in pages} == {key: before[key] for key in pages}
    assert {key for key in after if key.startswith("v2-staging/")} == pages


def test_a_place_that_cannot_be_written_is_named(run: Run) -> None:
    Path("store").write_text("not a folder")
    done = run("create", wheels("dist", "1.0"))
    assert done.code == 3, done.err
    assert "Traceback" not in done.err
    assert Path("store").read_text() == "not a folder"


def test_a_place_that_nobody_may_write_is_named(run: Run) -> None:
    """Not even root makes directories there."""
    done = run("create", wheels("dist", "1.0"), "--store", "/proc/store")
    assert (done.code, "/proc" in done.err, "Traceback" in done.err) == (3, True, False), done.err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--source", "torch"], "is not NAME=COMMIT"),
        (["--source", "a=1", "--source", "a=2"], "gives a name twice"),
        (["--from-index", "http://127.0.0.1:9/simple/"], "not both"),
        (["--allow", "tags"], "needs a reason"),
    ],
)
def test_options_that_contradict_are_refused(run: Run, words: list[str], told: str) -> None:
    done = run("create", wheels("dist", "1.0"), *words)
    assert (done.code, told in done.err) == (2, True), done.err
    assert not Path("store").exists()


# ---- show, list, diff ----


def test_show_tells_what_a_set_is_and_what_stands_in_its_way(run: Run) -> None:
    digest = created(run, "1.0", "--stage")
    shown = run("show", digest[:8])
    assert shown.code == 0
    text = shown.out
    for expected in (
        f"set        {digest}",
        "targets    gfx942",
        f"source     mylib {SOURCE.partition('=')[2]}",
        "checked    passed",
        "listed     staging\n",
        "said       build success",
        "gate       staging: open",
        "gate       release: closed (untested): not tested: rocm-sdk on fam: no result",
    ):
        assert expected in text
    as_json = run("show", "staging:fam", "--json").json
    assert (as_json["set_id"], as_json["channels"]) == (digest, {"staging": None})
    assert as_json["decisions"]["release"]["promote"] is False


def test_list_shows_sets_and_where_they_are(run: Run) -> None:
    first, second = created(run, "1.0", "--stage"), created(run, "2.0")
    rows = {line.split()[0]: line for line in run("list").lines[1:]}
    assert set(rows) == {first[:12], second[:12]}
    assert rows[first[:12]].endswith("staging")
    assert not rows[second[:12]].endswith("staging")
    assert [one["set_id"] for one in json.loads(run("list", "staging", "--json").out)] == [first]
    assert run("list", "--family", "other", "--json").out.strip() == "[]"


def test_diff_names_what_moved_in_a_sentence(run: Run) -> None:
    first, second = created(run, "1.0", "--stage"), created(run, "2.0")
    done = run("diff", "staging:fam", second[:10])
    assert done.lines[0] == "moved: helper 1.0 to 2.0, mylib 1.0+r1 to 2.0+r1"
    found = run("diff", first, second, "--json").json
    assert [one["name"] for one in found["projects"]] == ["helper", "mylib"]
    assert run("diff", first, first).lines[0] == "the same set"
    rebuilt = created(run, "1.0", body="x = 1\n")
    assert run("diff", first, rebuilt).lines[0] == "same names, other bytes: helper-1.0-py3-none-any.whl"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("0" * 8, "no set's id begins with 00000000"),
        ("0" * 64, "the store has no set 0"),
        ("abc", "'abc' names no set"),
        ("release:fam", "release has no family 'fam'; it lists nothing"),
        ("release", "release alone does not name a set"),
        ("nightly:fam", "there is no channel 'nightly'"),
        ("staging:gfx942", "staging has no family 'gfx942'; families: fam"),
        ("../../etc", "names no set"),
    ],
)
def test_text_that_names_no_set_is_told_so(run: Run, text: str, told: str) -> None:
    created(run, "1.0", "--stage")
    for words in (["show", text], ["diff", "staging", text], ["verify", text], ["promote", text]):
        done = run(*words)
        assert (done.code, told in done.err) == (3, True), done.err


def test_digits_that_several_sets_begin_with_are_not_guessed_at(run: Run) -> None:
    digest = created(run)
    twin = digest[:10] + ("0" if digest[10] != "0" else "1") * 54
    Path(f"store/sets/{twin}").mkdir()
    Path(f"store/sets/{twin}/manifest.json").write_bytes(
        Path(f"store/sets/{digest}/manifest.json").read_bytes()
    )
    done = run("show", digest[:8])
    assert (done.code, "2 sets begin with" in done.err) == (3, True)
    # Under the twin's name is the manifest of another set.
    assert run("show", twin).code == 6


# ---- state and promote ----


def test_a_tested_set_goes_from_staging_to_release_by_its_bytes(run: Run) -> None:
    digest = created(run, "1.0", "--stage")
    files = {key: data for key, data in kept().items() if key.startswith("files/")}
    closed = run("promote", "newest")
    assert (closed.code, "error (GateClosed)" in closed.err) == (10, True)
    assert "closed  untested" in closed.out
    assert not Path("store/v2").exists()
    all_tested(run, digest)
    dry = run("promote", "newest", "--dry-run")
    assert (dry.code, "open (passed)" in dry.out) == (0, True)
    assert not Path("store/v2").exists()
    done = run("promote", "newest", "--by", "nightly")
    assert done.code == 0, done.err
    assert "v2/fam/" in done.err
    assert {key: data for key, data in kept().items() if key.startswith("files/")} == files
    assert "promotion to release by rule passed, by nightly" in run("show", "release:fam").out
    before = kept()
    assert run("promote", digest, "--by", "nightly").code == 0
    assert kept() == before


def test_a_set_has_to_be_staged_before_it_is_released(run: Run) -> None:
    digest = created(run)
    all_tested(run, digest)
    done = run("promote", digest)
    assert (done.code, "staging does not list set" in done.err) == (10, True)
    assert run("promote", digest, "--to", "staging").code == 0
    assert run("promote", digest).code == 0


def test_a_bypass_is_said_with_reason_and_day_or_not_at_all(run: Run) -> None:
    digest = created(run, "1.0", "--stage")
    for suite in ("rocm-sdk", "smoke-host"):
        run("state", digest, "--suite", suite, "--result", "passed")
    run("state", digest, "--suite", "smoke-gpu", "--target", "gfx942", "--result", "skipped", "--no-runner")
    about = ("state", digest, "--suite", "smoke-gpu", "--target", "gfx942", "--bypass")
    before = kept()
    for words, told in (
        ((), "needs a reason"),
        (("--reason", " ", "--expires", "2999-01-01"), "needs a reason"),
        (("--reason", "x"), "needs a last day"),
        (("--reason", "x", "--expires", "tomorrow"), "is not a date"),
        (("--reason", "x", "--expires", "2020-01-01"), "is past"),
        (("--reason", "x", "--expires", day(91)), f"91 days from {day(0)}, and 90 are the most"),
        (("--reason", "x", "--expires", day(91)), f"next: give --expires {day(90)} or earlier"),
        (("--reason", "x", "--expires", "9999-12-31"), "and 90 are the most"),
    ):
        done = run(*about, *words)
        assert (done.code, told in done.err) == (2, True), done.err
    assert kept() == before
    assert run("promote", digest).code == 10
    done = run(*about, "--reason", "no such GPU in the lab", "--expires", day(90), "--by", "ada")
    assert done.code == 0
    promoted = run("promote", digest)
    assert promoted.code == 0
    told = f"NOT TESTED, bypassed: smoke-gpu on gfx942 (until {day(90)}: no such GPU in the lab)"
    assert told in " ".join(promoted.out.split())


def test_a_failure_is_not_bypassed(run: Run) -> None:
    digest = created(run, "1.0", "--stage")
    all_tested(run, digest)
    about = ("state", digest, "--suite", "smoke-gpu", "--target", "gfx942")
    run(*about, "--result", "failed", "--attempt", "2")
    assert run(*about, "--bypass", "--reason", "x", "--expires", day(30)).code == 0
    done = run("promote", digest)
    assert (done.code, "smoke-gpu on gfx942 failed; a bypass does not apply" in done.err) == (10, True)
    run(*about, "--result", "passed", "--attempt", "3")
    assert run("promote", digest).code == 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "nothing to state"),
        (["--suite", "smoke-gpu"], "needs a result or a bypass"),
        (["--result", "passed"], "needs --suite"),
        (["--suite", "smoke-gpu", "--result", "passed"], "runs on each target"),
        (["--suite", "smoke-gpu", "--target", "gfx90a", "--result", "passed"], "the set is not for gfx90a"),
        (["--suite", "smoke-host", "--target", "gfx942", "--result", "passed"], "runs once for a set"),
        (["--suite", "smoke-host", "--result", "passed", "--no-runner"], "without a runner nothing"),
        (
            ["--suite", "smoke-hots", "--bypass"],
            "perhaps smoke-host",
        ),
        (["--reason", "x"], "belong to --bypass or --waive"),
        (["--suite", "smoke-host", "--result", "passed", "--attempt", "0"], "--attempt 0 is not 1 or more"),
    ],
)
def test_statements_that_would_count_for_nothing_are_refused(run: Run, words: list[str], told: str) -> None:
    digest = created(run)
    before = kept()
    done = run("state", digest, *words)
    assert (done.code, told in done.err) == (2, True), done.err
    assert kept() == before


def test_a_broken_statement_closes_the_gate_by_its_name(run: Run) -> None:
    digest = created(run, "1.0", "--stage")
    all_tested(run, digest)
    broken = Path(f"store/sets/{digest}/_statements/test-{'0' * 32}.json")
    broken.write_text('{"_type": "https://in-toto.io/Sta')
    done = run("promote", digest)
    assert (done.code, "(rule unreadable)" in done.err, broken.name in done.err) == (10, True, True)
    assert not Path("store/v2").exists()


def test_a_statement_that_was_edited_by_hand_closes_the_gate(run: Run) -> None:
    digest = created(run, "1.0", "--stage")
    all_tested(run, digest)
    words = ("--suite", "smoke-gpu", "--target", "gfx942", "--attempt", "2", "--result", "failed")
    [key] = run("state", digest, *words).lines
    edited = Path("store", key)
    edited.write_bytes(edited.read_bytes().replace(b'"failed"', b'"passed"'))
    done = run("promote", digest)
    assert (done.code, "(rule unreadable)" in done.err, edited.name in done.err) == (10, True, True)
    assert not Path("store/v2").exists()


def test_a_withdrawn_set_is_not_released_again_by_whoever_promotes_the_newest(run: Run) -> None:
    digest = created(run, "1.0", "--stage")
    all_tested(run, digest)
    assert run("promote", "newest").code == 0
    from rocwright.store.channel_log import Event
    from rocwright.store.objects.local import LocalStore
    from rocwright.store.publish import change

    event = Event("yank", (digest,), at="2026-11-22T00:00:00Z", reason="wrong results on gfx942")
    change(LocalStore(Path("store")), "v2/fam/", event)
    done = run("promote", "newest")
    assert (done.code, "withdrawn from release: wrong results on gfx942" in done.err) == (10, True)
    assert run("promote", "newest", "--again").code == 0
    assert run("show", "release:fam", "--json").json["channels"] == {"staging": None, "release": None}


def test_what_is_current_is_what_installers_take(run: Run) -> None:
    """A set of an older version that comes later, such as a fix of an old line, takes nobody's place."""
    new, old = created(run, "2.0", "--stage"), created(run, "1.9", "--stage")
    first = created(run, "3.0rc1", "--stage")
    for words in (["show", "staging:fam"], ["promote", "newest", "--dry-run"]):
        assert run(*words, "--json").out.count(new) >= 1, words
        assert run(*words, "--json").out.count(first) == 0, words
    assert run("log", "staging", "--json").json["current"] == new
    assert run("rollback", "staging", "--reason", "bad", "--no-wait", "--json").json["current"] == old
    assert run("log", "staging", "--json").json["current"] == old


def test_a_wheel_that_is_built_again_in_place_does_not_reach_the_store(run: Run) -> None:
    """As `cp`, `zipfile` and downloads do: they write into a file that is there."""
    digest = created(run, "1.0", "--stage")
    with next(Path("dist-1.0-0").glob("helper-*")).open("r+b") as wheel:
        wheel.write(b"the next night")
    assert run("verify", digest).code == 0


def test_a_manifest_that_was_changed_is_put_back_as_the_message_says(run: Run) -> None:
    digest = created(run, "1.0", "--stage")
    manifest = Path(f"store/sets/{digest}/manifest.json")
    manifest.write_bytes(manifest.read_bytes().replace(b"gfx942", b"gfx90a"))
    done = run("show", digest)
    assert (done.code, "create the set again from its files" in done.err) == (6, True)
    assert created(run, "1.0", "--stage") == digest
    assert run("log", "staging", "--json").json["current"] == digest


def test_what_was_listed_is_looked_at_as_installers_do(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    done = run("create", wheels("dist", "1.0"), "--family", "fam", "--target", "gfx942", "--stage")
    assert done.code == 0, done.err
    # Two projects, the root, both as HTML and JSON, and the flat page.
    assert "served: 7 pages, 2 files of the set, each as its pages say" in done.err
    other = wheels("more", "2.0")
    plain_view = pages.pages_beside

    def wrong_links(*given: object) -> Mapping[str, bytes]:
        return {key: page.replace(b"files/", b"filez/") for key, page in plain_view(*given).items()}

    # A stand-in for a renderer with a mistake: what it writes is read back as it was written.
    monkeypatch.setattr(pages, "pages_beside", wrong_links)
    done = run("create", other, "--family", "fam", "--target", "gfx942", "--stage")
    assert done.code == 6
    assert "faults in the index at" in done.err
    assert "helper-2.0-py3-none-any.whl" in done.err

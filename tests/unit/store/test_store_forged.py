"""What somebody gets who may write anything into a store's folder, and has no key, or has stolen one.

Each row of the table in docs/explanation/threats.md is a test here, by its name, and each test here is a row.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from forger import RELEASE, SUITES, House, Key, canonical, event, on_pages, passed, statement, write

from command_line import Run, day
from wheels import write_wheel

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/explanation/threats.md"


@pytest.fixture
def house(rocwright: Run, monkeypatch: pytest.MonkeyPatch) -> House:
    """A store whose release channel trusts a key with its release, and another with evidence."""
    house = House(rocwright, monkeypatch)
    house.trusting()
    return house


def test_page_and_tests_name_each_other() -> None:
    rows = re.findall(r"^\|.*\| `(test_\w+)` \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    tests = [name for name in globals() if name.startswith("test_") and "page_and_tests" not in name]
    assert sorted(rows) == sorted(tests)
    assert len(rows) == len(set(rows)) > 15


def closed(house: House, digest: str, rule: str, *keys: Key) -> None:
    """The honest release engineer asks the gate; it is closed by this rule, and nothing is listed."""
    done = house.promote(digest, *keys)
    assert (done.code, f"(rule {rule})" in done.err) == (10, True), done.err
    assert digest not in house.listed()


def signed(house: House, digest: str, key: Key) -> None:
    """All that is stated about a set, signed: so that nothing else keeps the gate closed."""
    assert house.run("set", "sign", digest, "--statements", keys=(key,)).code == 0


# ---- statements ----


def test_forged_test_results_do_not_open_the_gate(house: House) -> None:
    digest = house.create()
    house.sign(digest)
    for suite in SUITES:
        statement(digest, "test", passed(suite[1], *suite[3:]))
    closed(house, digest, "untested")
    shown = house.run("set", "promote", digest, "--dry-run").out
    assert "it is not signed with a key that is trusted with evidence, and 2 more" in " ".join(shown.split())
    # The same words, said by who may say them, open it.
    house.test(digest)
    assert house.promote(digest).code == 0


def test_forged_findings_and_build_do_not_open_the_gate(house: House) -> None:
    digest = house.create(keys=())
    for said in ("build", "findings"):
        # What an honest machine without a key stated is worth as much as what a forger copied from it.
        assert list(Path(f"store/sets/{digest}/_statements").glob(f"{said}-*.json"))
    house.test(digest)
    house.sign(digest)
    closed(house, digest, "unchecked")
    signed(house, digest, house.evidence)
    assert house.promote(digest).code == 0


def test_a_forged_waiver_lets_no_error_pass(house: House) -> None:
    digest = house.create()
    house.test(digest)
    house.sign(digest)
    names = [
        one["name"] for one in json.loads(Path(f"store/sets/{digest}/manifest.json").read_text())["files"]
    ]
    finding = {"rule": "RWM901", "severity": "error", "file": names[0], "cause": "x", "next_step": "x"}
    said = {"passed": False, "files": names, "findings": [finding], "unwaivable": []}
    statement(digest, "findings", said)
    signed(house, digest, house.evidence)
    closed(house, digest, "unchecked")
    waiver = {"rule": "RWM901", "file": "*", "reason": "mine", "expires": "9999-12-31"}
    statement(digest, "waiver", waiver)
    closed(house, digest, "unchecked")
    signed(house, digest, house.release)
    assert house.promote(digest).code == 0


def test_a_forged_bypass_stands_in_for_no_test(house: House) -> None:
    digest = house.create()
    house.sign(digest)
    for suite in SUITES:
        required = {"suite": suite[1], "family": "fam", "target": (*suite, "", "", "")[3]}
        statement(digest, "bypass", {"required": required, "reason": "x", "expires": day(30), "by": ""})
    closed(house, digest, "untested")
    signed(house, digest, house.release)
    assert house.promote(digest).code == 0


def test_a_forged_promotion_lists_nothing(house: House) -> None:
    digest = house.create()
    statement(digest, "promotion", {"from": "staging", "to": "release", "family": "fam", "rule": "passed"})
    first = house.released("2.0")
    assert house.repair().code in (0, 6)
    assert house.listed() == [first]
    assert not on_pages("1.0")


def test_a_statement_about_another_set_counts_for_nothing(house: House) -> None:
    tested, other = house.create("1.0"), house.create("2.0")
    house.test(tested)
    for folder in ("_statements", "_signatures"):
        for path in Path(f"store/sets/{tested}/{folder}").iterdir():
            if path.name.startswith("test-"):
                write(Path(f"store/sets/{other}/{folder}/{path.name}"), path.read_bytes())
    house.sign(other)
    closed(house, other, "untested")


def test_a_signature_of_another_set_is_told_as_forged(house: House) -> None:
    first, second = house.released("1.0"), house.create("2.0")
    house.test(second)
    name = f"{house.release.id}.json"
    write(
        Path(f"store/sets/{second}/_signatures/{name}"),
        Path(f"store/sets/{first}/_signatures/{name}").read_bytes(),
    )
    refused = house.promote(second)
    assert (refused.code, "is a signature of something else" in refused.err) == (6, True)
    told = house.run("set", "verify", second, "--key", house.release.public, "--json")
    assert (told.code, told.json["problems"], len(told.json["forged"])) == (6, [], 1)


def test_a_deleted_failure_is_withheld(house: House) -> None:
    """NOT PROTECTED: who may delete can withhold what speaks against a set."""
    digest = house.create()
    house.test(digest)
    house.sign(digest)
    failed = ("--suite", "smoke-host", "--result", "failed", "--attempt", "2")
    house.run("set", "state", digest, *failed, keys=(house.evidence,))
    closed(house, digest, "tests")
    for path in Path(f"store/sets/{digest}").rglob("test-*"):
        if b'"failed"' in path.read_bytes():
            path.unlink()
    assert house.promote(digest).code == 0


# ---- logs and pages ----


def test_a_forged_event_and_an_honest_repair_list_nothing(house: House) -> None:
    first, second = house.released("1.0"), house.create("2.0")
    forged = event(2, second)
    assert house.repair().code in (0, 6)
    assert house.listed() == [first]
    assert (on_pages("1.0"), on_pages("2.0")) == (True, False)
    told = house.run("set", "verify", second, "--json")
    keys = [one["key"] for one in told.json["forged"]]
    assert (told.code, forged.relative_to("store").as_posix() in keys) == (6, True)
    # Nor do they find it who publish, lock or install by name.
    third = house.released("3.0")
    assert house.listed() == [first, third]
    locked = house.run("set", "show", "release:fam", "--json")
    assert third in json.dumps(locked.json) and second not in json.dumps(locked.json)


def test_a_forged_withdrawal_withdraws_nothing(house: House) -> None:
    first = house.released("1.0")
    event(2, first, action="yank")
    event(3, first, action="drop")
    house.repair()
    assert house.run("set", "log", "release:fam", "--json").json["yanked"] == {}
    assert house.listed() == [first]


def test_an_event_of_another_channel_counts_for_nothing(house: House) -> None:
    """The same keys are trusted by another channel, whose event and signature are copied."""
    lines = f"""
[[channels.channel]]
name = "early"
prefix = "early"
gate = "checked"
listed = 9
[channels.trusted.early]
release = ["{house.release.public}"]
evidence = ["{house.evidence.public}"]
"""
    text = Path("rocwright.toml").read_text()
    head = lines.partition("[channels.trusted.early]")
    Path("rocwright.toml").write_text(f"{head[0]}{text}{head[1]}{head[2]}")
    digest = house.create()
    house.sign(digest)
    done = house.run("set", "promote", digest, "--to", "early", keys=(house.release,))
    assert done.code == 0, done.err
    for folder in ("_log", "_signatures"):
        shutil.copytree(f"store/early/fam/{folder}", RELEASE / folder)
    house.repair()
    assert house.listed() == []
    assert not on_pages("1.0")


def test_an_event_in_an_older_place_counts_for_nothing(house: House) -> None:
    """A set that was withdrawn is not listed again with the signature of the time when it was."""
    first, second = house.released("1.0"), house.released("2.0")
    back = ("set", "rollback", "release:fam", "--reason", "bad", "--no-wait")
    assert house.run(*back, keys=(house.release,)).code == 0
    [listing] = (RELEASE / "_log").glob("00000002-*.json")
    [signature] = (RELEASE / "_signatures").glob("00000002-*.json")
    for path in (listing, signature):
        write(path.with_name(path.name.replace("00000002", "00000009")), path.read_bytes())
    house.repair()
    log = house.run("set", "log", "release:fam", "--json").json
    assert (log["current"], log["yanked"]) == (first, {second: "bad"})


def test_a_forged_mark_says_nothing(house: House) -> None:
    first, second = house.released("1.0"), house.create("2.0")
    [mark] = (RELEASE / "_log").glob("shown-00000001-*.json")
    said = json.loads(mark.read_text())
    said["sets"] = [first, second]
    data = canonical(said)
    stem = mark.name.rpartition("-")[0]
    mark.unlink()
    write(mark.with_name(f"{stem}-{hashlib.sha256(data).hexdigest()[:16]}.json"), data)
    assert house.listed() == [first]
    house.repair()
    assert not on_pages("2.0")


def test_edited_pages_are_written_again(house: House) -> None:
    house.released("1.0")
    page = RELEASE / "helper/index.html"
    right = page.read_bytes()
    page.write_bytes(right.replace(b"1.0", b"6.6"))
    assert house.repair().code == 0
    assert page.read_bytes() == right


def test_edited_pages_and_a_lost_log_bring_nothing_back(house: House) -> None:
    """A repair that believed pages where the log is damaged would sign what the forger wrote on them."""
    house.released("1.0")
    digest = house.create("2.0")
    staged = Path("store/v2-staging/fam")
    for page in [*staged.rglob("*.html"), *staged.rglob("*.json")]:
        if "_log" not in page.parts:
            write(RELEASE / page.relative_to(staged), page.read_bytes())
    for path in (RELEASE / "_log").iterdir():
        path.unlink()
    house.repair()
    assert digest not in house.listed()


def test_an_emptied_statement_is_not_signed_by_a_repair(house: House) -> None:
    """A repair that guesses what stood under a name must not come to say it itself."""
    digest = house.create()
    house.sign(digest)
    for suite in SUITES:
        statement(digest, "test", passed(suite[1], *suite[3:])).write_bytes(b"")
    house.run("set", "repair", keys=(house.release, house.evidence))
    assert house.promote(digest).code == 10
    assert digest not in house.listed()


def test_a_promotion_to_an_open_channel_signs_no_other_statements(house: House) -> None:
    """Whoever promotes records the evidence: what a forger put among it must not come to be signed."""
    house.trusting(evidence=[house.release.public, house.evidence.public])
    digest = house.create()
    house.sign(digest)
    for suite in SUITES:
        statement(digest, "test", passed(suite[1], *suite[3:]))
    house.run("set", "promote", digest, "--to", "staging", keys=(house.release,))
    closed(house, digest, "untested")


def test_a_deleted_event_is_brought_back_from_its_signature(house: House) -> None:
    digests = [house.released(version) for version in ("1.0", "2.0", "3.0")]
    [second] = (RELEASE / "_log").glob("00000002-*.json")
    said = second.read_bytes()
    second.unlink()
    assert house.run("set", "log", "release:fam").code == 6
    done = house.repair()
    assert f"brought back: {second.relative_to('store')}: from its signature" in done.out
    assert second.read_bytes() == said
    assert house.listed() == digests
    assert house.run("set", "log", "release:fam").code == 0


def test_an_old_log_is_served_again(house: House) -> None:
    """NOT PROTECTED: all of it was signed once, and nothing in the store says that it is old."""
    first = house.released("1.0")
    shutil.copytree(RELEASE, "old")
    second = house.released("2.0")
    assert house.listed() == [first, second]
    shutil.rmtree(RELEASE)
    shutil.copytree("old", RELEASE)
    assert house.repair().code == 0
    assert house.listed() == [first]


# ---- what installers take ----


@pytest.fixture
def served() -> Iterator[str]:
    """The folder of the store as any web server serves it."""
    Path("store").mkdir(exist_ok=True)
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *words: None})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(quiet, directory="store"))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    thread.join()
    server.server_close()


def _edited(house: House) -> None:
    house.released("1.0")
    write_wheel(Path("evil"), "helper", "6.6", {"helper/__init__.py": "evil = 1\n"}, tag="py3-none-any")
    wheel = next(Path("evil").glob("*.whl"))
    digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
    write(Path(f"store/files/{digest}/{wheel.name}"), wheel.read_bytes())
    link = f'<a href="../../../files/{digest}/{wheel.name}#sha256={digest}">{wheel.name}</a>'
    (RELEASE / "helper/index.html").write_text(f"<!DOCTYPE html><html><body>{link}</body></html>")


def test_pip_takes_what_an_edited_page_names(house: House, served: str, tmp_path: Path) -> None:
    """NOT PROTECTED: an installer believes the page that it gets; a lock with digests does not."""
    _edited(house)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--isolated", "download"]
    words = ["--no-deps", "--no-cache-dir", "--quiet", "--dest", "got", "--index-url", f"{served}v2/fam/"]
    subprocess.run([*pip, *words, "helper"], check=True, timeout=120)
    assert [path.name for path in Path("got").iterdir()] == ["helper-6.6-py3-none-any.whl"]


def test_uv_takes_what_an_edited_page_names(house: House, served: str) -> None:
    """NOT PROTECTED: as pip."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent)) or shutil.which("uv")
    assert uv is not None
    _edited(house)
    words = ["--no-deps", "--no-cache", "--no-config", "--target", "got", "--python", sys.executable]
    subprocess.run(
        [uv, "pip", "install", "--quiet", *words, "--index-url", f"{served}v2/fam/", "helper"],
        check=True,
        timeout=120,
    )
    assert Path("got/helper/__init__.py").read_text() == "evil = 1\n"


# ---- stolen keys, and other keys ----


def test_a_stolen_key_of_evidence_lists_nothing(house: House) -> None:
    digest = house.create()
    house.test(digest)
    for words in (("set", "sign", digest), ("set", "promote", digest)):
        house.run(*words, keys=(house.evidence,))
    assert house.listed() == []
    house.sign(digest)
    done = house.promote(digest, house.evidence)
    assert (done.code, "no key at hand is trusted with its release" in done.err) == (10, True)
    assert house.listed() == []


def test_one_stolen_key_of_two_lists_nothing(house: House) -> None:
    second = Key()
    house.trusting(release=[house.release.public, second.public], thresholds={"release": 2})
    digest = house.create()
    house.test(digest)
    house.sign(digest)
    closed(house, digest, "unsigned")
    house.sign(digest, second)
    waiting = house.promote(digest)
    assert (waiting.code, "waits for more signatures" in waiting.err) == (10, True), waiting.err
    house.repair()
    assert (house.listed(), on_pages("1.0")) == ([], False)
    # The holder of the other one agrees.
    key = second.file("second.pem")
    assert house.run("store", "trust", "sign", "release:fam", "--key", key).code == 0
    assert house.repair().code == 0
    assert (house.listed(), on_pages("1.0")) == ([digest], True)


def rotated(house: House, expires: str = "2999-12-31") -> Key:
    """Another key of the release, by who holds the one before; that is not trusted any more."""
    new = Key()
    old_file, new_file = house.release.file("old.pem"), new.file("new.pem")
    words = ("--release", new.public, "--expires", expires, "--key", old_file, "--key", new_file)
    done = house.run("store", "trust", "rotate", "release", *words)
    assert done.code == 0, done.err
    return new


def test_a_key_that_was_replaced_is_refused(house: House) -> None:
    first = house.released("1.0")
    old, house.release = house.release, rotated(house)
    assert house.listed() == [first]
    assert house.run("set", "verify", first).code == 0
    second = house.create("2.0")
    house.test(second)
    house.sign(second, old)
    closed(house, second, "unsigned", old)
    house.sign(second)
    assert house.promote(second, old).code == 10
    assert house.promote(second).code == 0
    assert house.listed() == [first, second]


def test_a_forged_root_is_refused(house: House) -> None:
    """The forger's own keys, signed by themselves."""
    first = house.released("1.0")
    forger, folder = House(house._run, house._environment), Path("store/_trust/release")
    honest = Path("rocwright.toml").read_text()
    forger.trusting()
    rotated(forger)
    Path("rocwright.toml").write_text(honest)
    assert [path.name for path in folder.iterdir()] == ["00000001.json"]
    done = house.promote(first)
    assert (done.code, "00000001.json is forged" in done.err) == (6, True), done.err


def test_a_root_that_expired_is_refused(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    from rocwright.system import days

    digest = house.released("1.0")
    house.release = rotated(house, days.today().isoformat())
    assert house.run("set", "verify", digest).code == 0
    tomorrow = days.today().fromordinal(days.today().toordinal() + 1)
    monkeypatch.setattr(days, "today", lambda: tomorrow)
    done = house.promote(digest)
    assert (done.code, "the root of release, version 1, held to" in done.err) == (6, True), done.err


def test_a_root_that_was_left_out_or_taken_away_is_refused(house: House) -> None:
    digest, pinned = house.released("1.0"), house.release.public
    house.release = rotated(house)
    first, second = house.release, rotated(house)
    house.trusting(release=[pinned], version=2)
    house.release = second
    assert house.listed() == [digest]
    folder = Path("store/_trust/release")
    one, two = (folder / f"0000000{number}.json" for number in (1, 2))
    kept = one.read_bytes()
    one.unlink()
    assert house.promote(digest).code == 6
    one.write_bytes(kept)
    two.unlink()
    done = house.promote(digest, first)
    assert (done.code, "the configuration asks for 2" in done.err) == (6, True), done.err


# ---- what is damaged is told apart ----


def test_damage_is_told_apart_from_forgery(house: House) -> None:
    digest = house.released("1.0")
    assert house.run("set", "verify", digest).code == 0
    [build] = Path(f"store/sets/{digest}/_statements").glob("build-*.json")
    whole = build.read_bytes()
    build.write_bytes(whole[:-9])
    damaged = house.run("set", "verify", digest, "--json")
    assert (damaged.code, len(damaged.json["problems"]), damaged.json["forged"]) == (6, 1, [])
    assert "rocwright set repair" in damaged.err
    build.write_bytes(whole)
    statement(digest, "test", passed("extra"))
    forged = house.run("set", "verify", digest, "--json")
    assert (forged.code, forged.json["problems"], len(forged.json["forged"])) == (6, [], 1)
    assert "it counts for nothing, and can be deleted" in forged.err

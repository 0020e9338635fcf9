"""What compares two commits at every door sees each planted difference; only a reason lets it pass."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, replace
from pathlib import Path

import msgspec
import pytest

from real.doors import compare
from real.doors.compare import Plain, Reason, Seen, differences

GOOD = Seen(0, "a\nb\n", "warning: c\n", {"dist/x.whl": "sha256 12", "dist/y.json": "{}"})
PLANTED = {
    "exit code": replace(GOOD, code=1),
    "a line of stdout": replace(GOOD, out="a\nB\n"),
    "a line more": replace(GOOD, out="a\nb\nc\n"),
    "the order of lines": replace(GOOD, out="b\na\n"),
    "stderr": replace(GOOD, err="warning: d\n"),
    "one stream for the other": replace(GOOD, out="a\nb\nwarning: c\n", err=""),
    "the bytes of a file": replace(GOOD, files={**GOOD.files, "dist/x.whl": "sha256 13"}),
    "a file more": replace(GOOD, files={**GOOD.files, "dist/z": "sha256 14"}),
    "a file less": replace(GOOD, files={"dist/x.whl": "sha256 12"}),
}


@pytest.mark.parametrize("what", PLANTED)
def test_each_planted_difference_is_told_and_has_no_reason(what: str) -> None:
    ((case, changed, why),) = differences({"one": GOOD, "two": GOOD}, {"one": GOOD, "two": PLANTED[what]}, ())
    assert (case, why) == ("two", set())
    assert changed


def test_a_case_that_is_new_or_gone_is_a_difference() -> None:
    told = list(differences({"old": GOOD}, {"new": GOOD}, ()))
    assert [(case, changed) for case, changed, _ in told] == [
        ("old", ["- the case is gone"]),
        ("new", ["+ the case is new"]),
    ]


def test_a_reason_covers_its_case_and_lines_and_no_other() -> None:
    reason = Reason("^two$", "^[-+]out: [bB]$", "because")
    changed = PLANTED["a line of stdout"]
    assert [why for _, _, why in differences({"two": GOOD}, {"two": changed}, (reason,))] == [{"because"}]
    # Another case, and another line of the same case beside those that are explained.
    assert [why for _, _, why in differences({"one": GOOD}, {"one": changed}, (reason,))] == [set()]
    more = replace(changed, code=1)
    assert [why for _, _, why in differences({"two": GOOD}, {"two": more}, (reason,))] == [set()]


def test_what_is_left_out_of_a_text_is_only_what_a_row_names() -> None:
    plain = Plain([{"pattern": r"\d+\.\d s", "becomes": "<time>"}])
    assert plain("took 1.2 s for 12 files") == "took <time> for 12 files"


def test_of_the_documents_commands_what_the_moment_decides_says_nothing_and_all_else_does() -> None:
    noise = Plain(msgspec.toml.decode(compare.CASES.read_bytes())["noise"])
    old = {f"scene 1: checkout {'a' * 40}": Seen(0, f"at {'a' * 40}\ntook\n", "")}
    new = {f"scene 1: checkout {'b' * 40}": Seen(0, f"took\nat {'b' * 40}\n", "")}
    assert compare.without_noise(old, noise) == compare.without_noise(new, noise)
    for planted in PLANTED.values():
        seen = compare.without_noise({"scene 1: x": planted}, noise)
        same = planted in (PLANTED["the order of lines"], GOOD)
        assert (seen == compare.without_noise({"scene 1: x": GOOD}, noise)) is same


@pytest.mark.parametrize(("planted", "code"), [(GOOD, 0), (PLANTED["exit code"], 1)])
def test_its_exit_code_says_whether_a_difference_has_no_reason(
    tmp_path: Path, planted: Seen, code: int
) -> None:
    root = Path(compare.__file__).resolve().parents[3]
    if subprocess.run(["git", "-C", root, "rev-parse", "HEAD~1"], capture_output=True).returncode:
        pytest.skip("a checkout without history has no second commit to compare with")
    names = ("HEAD~1", "HEAD")
    for name, seen in zip(names, (GOOD, planted), strict=True):
        commit = subprocess.run(
            ["git", "-C", root, "rev-parse", name], check=True, capture_output=True, text=True
        ).stdout.strip()
        (tmp_path / f"seen-{commit[:12]}-quick.json").write_text(json.dumps({"case": asdict(seen)}))
    words = ["-m", "real.doors.compare", *names, "--quick", "--work", tmp_path]
    done = subprocess.run([sys.executable, *words], cwd=root / "tests", capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert f"{1 - code} equal, {code} differ, {code} without a reason" in done.stdout

"""`rocwright check` at the door: what is printed, what it ends with, sets, waivers, statements."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
from datetime import date
from functools import partial
from pathlib import Path

import pytest

from command_line import Ended, Run
from rocwright.cli.show_check import targets_text
from rocwright.store.objects.local import LocalStore
from rocwright.store.sets.records import read_statements
from rocwright.store.statements import verdict as store_verdict
from wheels import LOCAL, TAG, write_family, write_torch, write_wheel

TORCH = f"torch-2.9.0+{LOCAL}-{TAG}.whl"
NO_HIP = {"torch/version.py": "hip = None\n"}


@pytest.fixture
def check(rocwright: Run) -> Run:
    """`rocwright check …`."""
    return partial(rocwright, "check")


def found(ended: Ended) -> list[tuple[str, str]]:
    """Rule and file of every error, from JSON."""
    findings: list[dict[str, str]] = ended.json["findings"]
    return [(one["rule"], one["file"]) for one in findings if one["severity"] == "error"]


# ---- what is printed ----


def test_a_clean_run_has_a_line_for_each_file_and_one_for_all(check: Run) -> None:
    path = write_wheel(Path("dist"), "plain", "1.0", {"plain.py": ""}, tag="py3-none-any")
    done = check("dist")
    assert done.code == 0
    assert done.lines[0] == f"ok      {path.name}  {path.stat().st_size} B"
    assert re.fullmatch(r"1 file, \d+ rules: 0 errors, 0 warnings, \d+\.\d s", done.lines[1])
    assert (len(done.lines), done.err) == (2, "")


def test_findings_stand_below_their_file_with_cause_and_next_step(check: Run) -> None:
    write_torch(Path("dist"), files=NO_HIP)
    write_wheel(Path("dist"), "plain", "1.0", {"plain.py": ""}, tag="py3-none-any")
    done = check("dist")
    assert done.code == 9
    at = next(number for number, line in enumerate(done.lines) if TORCH in line)
    assert done.lines[at].startswith("failed  ")
    assert "  error [torch-hip] " in "\n".join(done.lines[at:])
    assert any(line.startswith("    next: ") for line in done.lines[at:])
    assert done.lines[0].startswith("ok      plain-1.0")
    assert re.match(r"error \(ContractBroken\): 2 files, \d+ rules: 1 error, 1 warning, .* s\n", done.err)
    assert len(done.err.splitlines()) == 2
    assert not any(" rules: " in line for line in done.lines), "the counts are said once"


def test_on_a_terminal_the_first_word_of_a_line_has_a_colour(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    write_torch(tmp_path / "dist", files=NO_HIP)
    path = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
    path |= {"HOME": str(tmp_path), "TERM": "xterm-256color"}

    def shown(env: dict[str, str]) -> str:
        reading, writing = pty.openpty()
        words = [sys.executable, "-m", "rocwright", "check", "dist"]
        with subprocess.Popen(words, cwd=tmp_path, env=env, stdout=writing, stderr=subprocess.DEVNULL) as run:
            os.close(writing)
            said = b""
            try:
                while more := os.read(reading, 1 << 16):
                    said += more
            except OSError:
                pass  # what Linux says at the end
        os.close(reading)
        assert run.returncode == 9
        return said.decode().replace("\r\n", "\n")

    assert "\x1b[1;31mfailed\x1b[0m  torch-" in shown(path)
    assert "\n  \x1b[31merror\x1b[0m [torch-hip] " in shown(path)
    assert "\x1b[3" not in shown({**path, "NO_COLOR": "1"})


def test_errors_stand_before_waived_ones_and_these_before_warnings(check: Run) -> None:
    write_torch(Path("dist"), files=NO_HIP, requires=[f"triton==3.5.0+{LOCAL}"])
    done = check("dist", "--allow", "torch-hip", *IN_FORCE)
    told = [line.split("]")[0].strip() for line in done.lines if line.startswith("  ") and " [" in line[:12]]
    assert told == ["error [torch-requires-rocm", "waived [torch-hip", "warning [set-closed"]


def test_what_several_findings_share_is_said_once(check: Run) -> None:
    write_wheel(Path("dist"), "mykernels", "1.0", {"mykernels/__init__.py": ""}, tag=TAG)
    Path("rocwright.toml").write_text(
        '[[contract.package]]\nnames = ["mykernels"]\nrules = ["required-files"]\n'
        'required = ["mykernels/a.py", "mykernels/b.py"]\n'
    )
    done = check("dist")
    at = done.lines.index("  error [required-files] 2 times: it has no …")
    assert done.lines[at + 1] == "    mykernels/a.py, mykernels/b.py"
    assert done.lines[at + 2].startswith("    next: ")
    assert " rules: 2 errors, 0 warnings, " in done.err


def test_a_line_names_the_first_of_many_targets() -> None:
    nine = [f"gfx{number}" for number in range(900, 909)]
    assert targets_text(nine) == "gfx900 gfx901 gfx902 gfx903 gfx904 gfx905 and 3 more"
    assert targets_text(nine[:8]) == "gfx900 gfx901 gfx902 gfx903 gfx904 gfx905 gfx906 gfx907"
    assert targets_text([]) == ""


def test_a_missing_project_has_a_line_of_its_own(check: Run) -> None:
    write_torch(Path("dist"))
    done = check("dist", "--expect", "torchvision")
    assert done.code == 9
    assert "failed  torchvision" in done.lines


def test_json_says_all_of_it(check: Run) -> None:
    path = write_torch(Path("dist"), files=NO_HIP)
    done = check("dist", "--json")
    assert done.code == 9
    report = done.json
    assert report["files"] == [TORCH]
    assert report["passed"] is False
    assert report["counts"]["errors"] == 1
    assert report["looked"] == [{"name": TORCH, "size": path.stat().st_size, "targets": []}]
    assert report["waivers"] == []
    assert isinstance(report["seconds"], float)
    finding = next(one for one in report["findings"] if one["severity"] == "error")
    assert {"rule", "severity", "file", "cause", "next_step"} <= set(finding)


def test_names_inside_a_wheel_cannot_drive_the_terminal(check: Run) -> None:
    write_wheel(Path("dist"), "plain", "1.0", {"../\x1b[31mred.py": ""}, tag="py3-none-any")
    done = check("dist")
    assert done.code == 9
    assert "\x1b" not in done.out
    assert "\\x1b[31mred.py" in done.out


def test_a_file_name_that_is_no_utf_8_is_spelled_out(check: Run) -> None:
    Path("dist").mkdir()
    (Path("dist") / os.fsdecode(b"x\xff-1.0-py3-none-any.whl")).write_bytes(b"zz")
    done = check("dist")
    assert done.code == 9
    assert "failed  x\\udcff-1.0-py3-none-any.whl" in done.out
    assert check("dist", "--json").json["files"] == ["x\\udcff-1.0-py3-none-any.whl"]


# ---- sets ----


@pytest.fixture
def parts() -> tuple[Path, Path]:
    """The family in `torch`, and beside it in `rocm` what torch requires."""
    write_family(Path("torch"))
    rocm = write_wheel(Path("rocm"), "rocm", "7.10.0", {"rocm_sdk/__init__.py": ""}, tag="py3-none-any")
    return Path("torch"), rocm.parent


def test_without_a_set_what_is_missing_is_a_warning(check: Run) -> None:
    write_family(Path("torch"))
    done = check("torch", "--json")
    assert (done.code, found(done)) == (0, [])
    assert "set-closed" in {one["rule"] for one in done.json["findings"]}


def test_a_set_that_lacks_something_fails(check: Run) -> None:
    write_family(Path("torch"))
    done = check("--set", "torch", "--json")
    assert done.code == 9
    assert ("set-closed", TORCH) in found(done)


def test_given_files_and_the_set_s_directory_are_one_set(check: Run, parts: tuple[Path, Path]) -> None:
    torch, rocm = parts
    done = check(torch, "--set", rocm, "--json")
    assert "set-closed" not in {rule for rule, _ in found(done)}
    # Files of the directory are not checked one by one when others are given.
    assert {TORCH, "rocm-7.10.0-py3-none-any.whl"} & set(done.json["files"]) == {TORCH}


def test_a_file_that_is_in_the_set_already_is_checked_once(check: Run) -> None:
    made = write_family(Path("torch"))
    done = check(made["torch"], "--set", "torch", "--json")
    assert done.json["files"] == [TORCH]
    assert {rule for rule, _ in found(done)} <= {"set-closed"}


def test_rules_for_one_file_hold_for_the_given_ones_only(check: Run, parts: tuple[Path, Path]) -> None:
    torch, _ = parts
    write_torch(torch, files=NO_HIP)
    vision = next(torch.glob("torchvision-*"))
    assert "torch-hip" not in {rule for rule, _ in found(check(vision, "--set", torch, "--json"))}
    assert "torch-hip" in {rule for rule, _ in found(check("--set", torch, "--json"))}


# ---- waivers ----

IN_FORCE = ("--reason", "the CPU build is wanted here", "--expires", "2999-12-31")


def test_a_waived_error_is_shown_with_its_reason_and_passes(check: Run) -> None:
    write_torch(Path("dist"), files=NO_HIP)
    done = check("dist", "--allow", "torch-hip", *IN_FORCE)
    assert done.code == 0, done.out
    assert any(line.startswith("waived  torch-2.9.0") for line in done.lines)
    assert "  waived [torch-hip] " in done.out
    assert "    until 2999-12-31: the CPU build is wanted here" in done.lines
    assert "0 errors, " in done.lines[-1] and ", 1 waived, " in done.lines[-1]
    assert done.err == ""


def test_a_waiver_is_part_of_the_json(check: Run) -> None:
    write_torch(Path("dist"), files=NO_HIP)
    done = check("dist", "--allow", "torch-hip", *IN_FORCE, "--json")
    assert done.code == 0
    assert done.json["waivers"] == [
        {
            "rule": "torch-hip",
            "reason": "the CPU build is wanted here",
            "expires": "2999-12-31",
            "file": "*",
        }
    ]
    # What was found is not changed by who lets it pass.
    assert (done.json["left"], done.json["counts"]["errors"]) == (0, 1)
    assert found(done) == [("torch-hip", TORCH)]


def test_other_errors_still_fail(check: Run) -> None:
    write_torch(Path("dist"), files=NO_HIP, requires=())
    done = check("dist", "--allow", "torch-hip", *IN_FORCE)
    assert done.code == 9
    assert " rules: 1 error, 0 warnings, 1 waived, " in done.err
    assert "  error [torch-requires-rocm] " in done.out


def test_a_waiver_may_be_for_some_files(check: Run) -> None:
    write_torch(Path("dist"), files=NO_HIP)
    assert check("dist", "--allow", "torch-hip:torch-2.9.*", *IN_FORCE).code == 0
    done = check("dist", "--allow", "torch-hip:torch-2.8.*", *IN_FORCE)
    assert done.code == 9
    assert "note: the waiver of torch-hip for torch-2.8.* was not needed" in done.err


def test_an_unused_waiver_is_said(check: Run) -> None:
    write_torch(Path("dist"), files=NO_HIP)
    done = check("dist", "--allow", "torch-hip", "--allow", "torch-pin", *IN_FORCE)
    assert done.code == 0
    assert done.err == "note: the waiver of torch-pin for * was not needed\n"


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--allow", "torch-hp", *IN_FORCE), "perhaps torch-hip"),
        (("--allow", "zzz", *IN_FORCE), "there is no rule 'zzz'"),
        (("--allow", "readable", *IN_FORCE), "readable cannot be waived"),
        (("--allow", "expected", *IN_FORCE), "expected cannot be waived"),
        (("--allow", "torch-hip", "--expires", "2999-12-31"), "--allow needs a reason"),
        (("--allow", "torch-hip", "--reason", "  ", "--expires", "2999-12-31"), "--allow needs a reason"),
        (("--allow", "torch-hip", "--reason", "why"), "--allow needs an expiry date"),
        (("--allow", "torch-hip", "--reason", "why", "--expires", "2001-01-31"), "2001-01-31 is past"),
        (("--allow", "torch-hip", "--reason", "why", "--expires", "tomorrow"), "tomorrow is not a date"),
        (("--reason", "why"), "belong to --allow"),
        (("--expires", "2999-12-31"), "belong to --allow"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_a_waiver_that_says_too_little_or_nonsense(check: Run, words: tuple[str, ...], named: str) -> None:
    write_torch(Path("dist"), files=NO_HIP)
    done = check("dist", *words)
    assert done.code == 2
    assert named in done.err
    assert done.out == ""


# ---- statements ----


def statements(folder: Path) -> dict[str, dict[str, object]]:
    """By kind; there is one of each."""
    paths = sorted(folder.glob("sets/*/_statements/*.json"))
    read = {path.name.partition("-")[0]: json.loads(path.read_bytes()) for path in paths}
    assert len(read) == len(paths)
    return read


def test_findings_and_waivers_become_statements_about_the_set(check: Run) -> None:
    path = write_torch(Path("dist"), files=NO_HIP)
    done = check("dist", "--allow", "torch-hip", *IN_FORCE, "--statements", "said")
    assert done.code == 0
    (manifest_path,) = Path("said/sets").glob("*/manifest.json")
    manifest = manifest_path.read_bytes()
    digest = hashlib.sha256(manifest).hexdigest()
    assert manifest_path.parent.name == digest
    file_digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert [(one["name"], one["sha256"]) for one in json.loads(manifest)["files"]] == [(TORCH, file_digest)]
    said = statements(Path("said"))
    assert set(said) == {"findings", "waiver"}
    for statement in said.values():
        assert statement["_type"] == "https://in-toto.io/Statement/v1"
        subjects = {one["name"]: one["digest"]["sha256"] for one in statement["subject"]}
        assert subjects == {"rocwright:set": digest, TORCH: file_digest}
    predicate = said["waiver"]["predicate"]
    assert predicate["rule"] == "torch-hip" and predicate["expires"] == "2999-12-31"
    assert said["findings"]["predicate"]["passed"] is False
    # Nobody asked for it to be installed, and whoever reads the record has to know.
    assert {"torch-hip", "set-unproved"} <= {one["rule"] for one in said["findings"]["predicate"]["findings"]}
    # The same again writes the same.
    check("dist", "--allow", "torch-hip", *IN_FORCE, "--statements", "said")
    assert statements(Path("said")) == said


@pytest.mark.parametrize(("waived", "published"), [(False, False), (True, True)])
def test_whoever_publishes_reads_these_statements(check: Run, waived: bool, published: bool) -> None:
    write_torch(Path("dist"), files=NO_HIP)
    check("dist", *(("--allow", "torch-hip", *IN_FORCE) if waived else ()), "--statements", "said")
    (folder,) = Path("said/sets").iterdir()
    said = read_statements(LocalStore(Path("said")), folder.name)
    assert store_verdict(folder.name, said, date(2030, 1, 31)).passed is published
    # Not after the waiver's last day.
    assert not store_verdict(folder.name, said, date(3000, 1, 1)).passed


def test_what_failed_is_stated_too(check: Run) -> None:
    write_torch(Path("dist"), files=NO_HIP)
    done = check("dist", "--statements", "said")
    assert done.code == 9
    assert set(statements(Path("said"))) == {"findings"}


def test_a_statement_about_a_set_needs_every_file_checked(check: Run, parts: tuple[Path, Path]) -> None:
    torch, rocm = parts
    done = check(torch, "--set", rocm, "--statements", "said", "--json")
    assert "rocm-7.10.0-py3-none-any.whl" in done.json["files"]
    (manifest_path,) = Path("said/sets").glob("*/manifest.json")
    assert len(json.loads(manifest_path.read_bytes())["files"]) == 6


def test_a_recorded_set_with_these_files_gets_the_statements(check: Run) -> None:
    write_torch(Path("dist"))
    check("dist", "--statements", "said", "--targets", "gfx942")
    (first,) = Path("said/sets").iterdir()
    # Without targets it would be another set, had it not been recorded before.
    check("dist", "--statements", "said")
    assert list(Path("said/sets").iterdir()) == [first]
    assert len(list(first.glob("_statements/*"))) == 2


def test_nothing_is_stated_about_what_cannot_be_read(check: Run) -> None:
    Path("dist").mkdir()
    (Path("dist") / TORCH).write_bytes(bytes(1000))
    done = check("dist", "--statements", "said")
    assert done.code == 9
    assert "note: no statements were written: " in done.err
    assert not Path("said").exists()


# ---- mistakes ----


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        ((), 2, "nothing to check"),
        (("nowhere",), 2, "nowhere does not exist"),
        (("--set", "nowhere"), 2, "nowhere does not exist"),
        ((".", "--set", "nowhere"), 2, "nowhere does not exist"),
        ((".", "--targets", "mi300"), 3, "'mi300'"),
        (("file.whl", "--set", "file.whl"), 2, "file.whl is not a directory"),
        (("file.whl", "--set", "empty"), 2, "empty holds no wheels"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_mistakes_are_named(check: Run, words: tuple[str, ...], code: int, named: str) -> None:
    Path("file.whl").write_bytes(b"")
    Path("empty").mkdir()
    done = check(*words)
    assert (done.code, done.out) == (code, "")
    assert named in done.err


# ---- the previous set, installation, rocwright.toml ----


def test_sizes_are_compared_with_the_previous_set_in_each_form(check: Run) -> None:
    write_wheel(Path("old"), "plain", "1.0", {"plain.py": ""}, tag="py3-none-any")
    large = bytes(range(256)) * 20_000
    path = write_wheel(Path("new"), "plain", "1.1", {"plain.bin": large + large[::-1]}, tag="py3-none-any")
    Path("old.json").write_text(check("old", "--json", "--statements", "said").out)
    (manifest,) = Path("said/sets").glob("*/manifest.json")
    for previous in ("old", "old.json", manifest):
        done = check("new", "--previous", previous)
        assert "plain py3-none-any  " in done.out, previous
        found = check("new", "--previous", previous, "--json").json["changes"]
        assert {key: found[0][key] for key in ("file", "target")} == {
            "file": "plain py3-none-any",
            "target": None,
        }
        assert found[0]["after"] == path.stat().st_size


def test_a_previous_set_that_tells_nothing_is_an_error(check: Run) -> None:
    write_torch(Path("dist"))
    Path("notes.txt").write_text("hello")
    assert check("dist", "--previous", "nowhere").code == 2
    done = check("dist", "--previous", "notes.txt")
    assert (done.code, done.out) == (3, "")
    assert "notes.txt contains no sizes" in done.err


def test_only_a_complete_set_can_be_installed(check: Run) -> None:
    write_torch(Path("dist"))
    done = check("dist", "--install")
    assert (done.code, done.out) == (2, "")
    assert "--set DIR" in done.err


def test_a_table_in_this_directory_adds_to_the_contract(check: Run) -> None:
    write_wheel(Path("dist"), "plain", "1.0", {"plain.py": ""}, tag="py3-none-any")
    row = '[[contract.package]]\nnames = ["plain"]\nrules = ["required-files"]\n'
    Path("rocwright.toml").write_text(f'{row}required = ["plain/kernels.so"]\n')
    done = check("dist", "--json")
    assert found(done) == [("required-files", "plain-1.0-py3-none-any.whl")]
    Path("other.toml").write_text("")
    assert check("dist", "--config", "other.toml").code == 0


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[contract\n", "rocwright.toml is not valid TOML"),
        ("[contracts]\n", "'contracts'"),
        ('[[contract.package]]\nnames = ["a"]\nbudgets = 1\n', "budgets"),
        ('[[contract.package]]\nnames = ["a"]\noff = ["elf-rpat"]\n', "elf-rpath"),
    ],
    ids=["syntax", "table", "field", "rule"],
)
def test_a_table_that_does_not_fit_ends_with_3(check: Run, text: str, named: str) -> None:
    write_torch(Path("dist"))
    Path("rocwright.toml").write_text(text)
    done = check("dist")
    assert (done.code, done.out) == (3, "")
    assert "rocwright.toml" in done.err and named in done.err


def test_a_config_that_is_not_there_is_named(check: Run) -> None:
    write_torch(Path("dist"))
    done = check("dist", "--config", "nowhere.toml")
    assert (done.code, done.out) == (3, "")
    assert "nowhere.toml cannot be read" in done.err

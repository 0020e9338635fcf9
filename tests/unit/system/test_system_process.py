"""Processes: what is shown can be pasted, what is secret is not shown, what is stopped is gone."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rocwright.errors import CommandFailed, MissingTool, NoSpace
from rocwright.system import process

SH = "/bin/sh"


def python(code: str, **options: object) -> process.Completed:
    return process.run([sys.executable, "-c", code], **options)


@pytest.mark.parametrize(
    "argv",
    [
        ["printf", "%s\\n", "two words", "it's", '"', "$HOME", "`id`", "a;b", "*", "", "ü", "-n", "a\nb"],
        ["cc", '-DX="y"', "-I/with space/include", "#no", "~", "!"],
    ],
)
def test_the_shown_command_is_the_command(argv: list[str]) -> None:
    assert shlex.split(process.show(argv)) == argv


def test_a_shell_that_is_given_the_shown_command_does_the_same() -> None:
    code = "import os, sys, json; print(json.dumps([sys.argv[1:], os.environ['FLAGS']]))"
    argv = [sys.executable, "-c", code, "two words", "$HOME", "it's"]
    env = {"FLAGS": "-O2 -g '$x'"}
    done = process.run(argv, env=env)
    again = subprocess.run([SH, "-c", done.command], capture_output=True, text=True, check=True)
    assert again.stdout == done.stdout == '[["two words", "$HOME", "it\'s"], "-O2 -g \'$x\'"]\n'


def test_the_shown_command_runs_without_what_was_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pasted into the shell that has the variable, it must still do the same."""
    for name in ("OF_CALLER", "KEPT", "OTHER"):
        monkeypatch.setenv(name, "here")
    code = "import os; print([os.environ.get(n) for n in ('OF_CALLER', 'KEPT', 'OTHER')])"
    done = python(code, env={"OTHER": "ours"}, drop_env=["OF_CALLER", "OTHER", "NOT_SET"])
    assert done.command.startswith("env -u OF_CALLER OTHER=ours ")
    again = subprocess.run([SH, "-c", done.command], capture_output=True, text=True, check=True)
    assert again.stdout == done.stdout == "[None, 'here', 'ours']\n"


def test_a_secret_that_a_command_prints_is_not_in_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("INDEX_PASSWORD", "hunter2hunter2")
    monkeypatch.setenv("EIGHT_TOKEN", "sesame-8")
    monkeypatch.setenv("SHORT_TOKEN", "on")
    code = (
        "import os, sys; print(os.environ['INDEX_PASSWORD'], os.environ['EIGHT_TOKEN'], 'is on'); sys.exit(1)"
    )
    with pytest.raises(CommandFailed) as caught:
        python(code, log=tmp_path / "log")
    assert caught.value.tail == "*** *** is on"
    assert (tmp_path / "log").read_text().splitlines()[1:] == ["*** *** is on"]


def test_a_key_of_several_lines_is_in_no_log_either(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a command prints comes line by line, a key in PEM at once."""
    key = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIPk\n-----END PRIVATE KEY-----\n"
    monkeypatch.setenv("ROCWRIGHT_SIGNING_KEY", key)
    python("import os; print(os.environ['ROCWRIGHT_SIGNING_KEY'])", log=tmp_path / "log")
    shown = (tmp_path / "log").read_text()
    assert "MC4CAQAwBQYDK2VwBCIEIPk" not in shown
    assert "\n***\n" in shown


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_TOKEN",
        "AWS_SECRET_ACCESS_KEY",
        "PGPASSWORD",
        "api_key",
        "MY_APIKEY",
        "NPM_AUTH",
        "GIT_CREDENTIALS",
        "GIT_CONFIG_VALUE_0",
        "ROCWRIGHT_SIGNING_KEY",
        "DEPLOY_PRIVATE_KEY",
    ],
)
def test_secrets_are_in_the_environment_but_not_in_sight(tmp_path: Path, name: str) -> None:
    log = tmp_path / "log"
    done = python(
        f"import os; print(len(os.environ[{name!r}]))", env={name: "hunter2hunter2", "A": "b"}, log=log
    )
    assert done.stdout == "14\n"
    assert "hunter2" not in done.command + log.read_text()
    assert f"{name}='***'" in done.command
    assert "A=b" in done.command
    with pytest.raises(CommandFailed) as caught:
        python("raise SystemExit(3)", env={name: "hunter2hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:pw@host/simple/", "https://***@host/simple/"),
        ("https://token@host/x", "https://***@host/x"),
        ("git+https://u:p@host/x.git@main", "git+https://***@host/x.git@main"),
        ("https://host/simple/@scope", "https://host/simple/@scope"),
        ("file:///home/a@b/c", "file:///home/a@b/c"),
    ],
)
def test_the_login_of_an_address_is_hidden(url: str, shown: str) -> None:
    assert process.show(["pip", "install", "--index-url", url]).endswith(shown)
    assert shlex.split(process.show(["pip"], {"PIP_INDEX_URL": url}))[0] == f"PIP_INDEX_URL={shown}"


@pytest.mark.parametrize("option", ["--token", "--github-token", "--Password", "-api-key", "--client_secret"])
def test_the_value_of_a_secret_option_is_hidden(option: str) -> None:
    assert "hunter2" not in process.show(["tool", f"{option}=hunter2 and more", "--tokenizer"])
    assert process.show(["tool", "--tokenizer", "--jobs=2"]) == "tool --tokenizer --jobs=2"


def test_a_password_that_contains_an_at_sign_is_hidden_whole() -> None:
    assert process.show(["git", "clone", "https://user:p@ss@host/x"]) == "git clone https://***@host/x"


def test_streams_are_kept_apart_and_the_log_has_both(tmp_path: Path) -> None:
    log = tmp_path / "deep" / "log"
    done = process.run(
        [SH, "-c", "echo 7.1.0; echo warning: old >&2"], cwd=tmp_path, log=log, env={"X": "1 2"}
    )
    assert done.stdout == "7.1.0\n"
    lines = log.read_text().splitlines()
    assert lines[0] == f"$ cd {tmp_path} && X='1 2' {SH} -c 'echo 7.1.0; echo warning: old >&2'"
    assert sorted(lines[1:]) == ["7.1.0", "warning: old"]


def test_a_log_is_appended_to_and_each_command_begins_a_line(tmp_path: Path) -> None:
    log = tmp_path / "log"
    for word in ("one", "two"):
        process.run(["printf", word], log=log, cwd=tmp_path)
    assert log.read_text().splitlines() == [
        f"$ cd {tmp_path} && printf one",
        "one",
        f"$ cd {tmp_path} && printf two",
        "two",
    ]


def test_megabytes_on_both_streams_do_not_block(tmp_path: Path) -> None:
    code = "import sys\nfor i in range(20000): print('o' * 50); print('e' * 50, file=sys.stderr)"
    done = python(code, log=tmp_path / "log")
    assert len(done.stdout) == 20000 * 51
    assert (tmp_path / "log").stat().st_size > 2 * 20000 * 51


def test_a_line_without_end_goes_into_the_log_in_pieces_and_without_secrets(tmp_path: Path) -> None:
    secret = "correct-horse-battery"
    code = (
        "import os, sys\nword = os.environ['MY_TOKEN']\n"
        # The secret lies across every place where a piece could end.
        "for _ in range(40_000): sys.stdout.write(word + '.' * 7)"
    )
    log = tmp_path / "log"
    process.run([sys.executable, "-c", code], env={"MY_TOKEN": secret}, log=log)
    text = log.read_text().splitlines()[-1]
    assert text == ("***" + "." * 7) * 40_000


def test_a_log_that_cannot_be_written_is_an_error_with_a_name() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with pytest.raises(NoSpace, match="no space left while writing full"):
        process.run(["true"], log=full)


def test_lines_to_be_overwritten_go_to_the_watch_alone(tmp_path: Path) -> None:
    seen: list[str] = []
    code = (
        "import sys; sys.stderr.write('begin\\n 1 %\\r 50 %\\r100 %, done\\nwindows\\r\\n'); "
        "sys.stderr.flush(); print('data\\rdata'); sys.exit(3)"
    )
    with pytest.raises(CommandFailed) as caught:
        python(code, watch=seen.append, log=tmp_path / "log")
    assert seen == ["begin", "1 %", "50 %", "100 %, done", "windows"]
    logged = (tmp_path / "log").read_bytes().split(b"\n", 1)[1]
    assert b" 50 %" not in logged
    assert b"begin\n100 %, done\nwindows\r\n" in logged
    assert "50 %" not in caught.value.tail
    assert "100 %, done" in caught.value.tail


def test_lines_of_standard_output_are_heard_and_logged(tmp_path: Path) -> None:
    heard: list[str] = []
    code = "import sys; print('[1/2] a.cpp'); print('[2/2] b.cpp'); sys.stderr.write('[9/9] no\\n')"
    done = python(code, heard=heard.append, log=tmp_path / "log")
    assert heard == ["[1/2] a.cpp", "[2/2] b.cpp"]
    assert done.stdout == "[1/2] a.cpp\n[2/2] b.cpp\n"
    logged = (tmp_path / "log").read_text().splitlines()[1:]
    assert sorted(logged) == ["[1/2] a.cpp", "[2/2] b.cpp", "[9/9] no"]


def test_the_watch_is_told_while_the_command_runs(tmp_path: Path) -> None:
    go = tmp_path / "go"
    code = (
        "import sys, pathlib, time\n"
        "sys.stderr.write('1 %\\r2 %\\r'); sys.stderr.flush()\n"
        f"while not pathlib.Path({str(go)!r}).exists(): time.sleep(0.01)\n"
    )
    # The command ends only when the watch was told.
    python(code, watch=lambda line: go.touch())


def test_a_login_that_a_command_prints_stays_out_of_the_log(tmp_path: Path) -> None:
    code = "import sys; print('https://a:hunter2@h/x'); sys.exit('fatal: https://a:hunter2@h/x is gone')"
    with pytest.raises(CommandFailed) as caught:
        python(code, log=tmp_path / "log")
    assert "hunter2" not in (tmp_path / "log").read_text().split("\n", 1)[1]
    assert "fatal: https://***@h/x is gone" in caught.value.tail
    assert "hunter2" not in caught.value.tail
    # What a program reads stays as it was printed.
    assert python("print('https://a:hunter2@h/x')").stdout == "https://a:hunter2@h/x\n"


def test_output_that_is_no_utf8_is_not_fatal() -> None:
    done = process.run(["printf", r"a\377b\n"])
    assert done.stdout == "a\ufffdb\n"


def test_a_failing_command_says_all_that_is_needed(tmp_path: Path) -> None:
    log = tmp_path / "build.log"
    script = "for i in $(seq 1 40); do echo line $i; done; echo 'x.cpp:3: error: no' >&2; exit 2"
    with pytest.raises(CommandFailed) as caught:
        process.run([SH, "-c", script], cwd=tmp_path, log=log, next_step="install more memory")
    error = caught.value
    assert (error.status, error.exit_code) == (2, 7)
    assert "x.cpp:3: error: no" in error.tail
    assert len(error.tail.splitlines()) == 25
    text = str(error)
    assert text.startswith("command ended with exit code 2: /bin/sh -c ")
    for line in (f"  directory: {tmp_path}", "    line 40", f"  log: {log}", "  next: install more memory"):
        assert line in text.splitlines()
    assert "line 1\n" not in text
    assert "line 1\n" in log.read_text()
    assert shlex.split(error.command) == [SH, "-c", script]


def test_exit_codes_that_are_expected_are_no_failure() -> None:
    assert process.run([SH, "-c", "exit 5"], ok=(0, 5)).stdout == ""
    with pytest.raises(CommandFailed, match="exit code 0"):
        process.run(["true"], ok=(1,))


def test_killed_by_a_signal_is_said_so() -> None:
    with pytest.raises(CommandFailed, match="was killed by signal 9") as caught:
        process.run([SH, "-c", "kill -9 $$"])
    assert caught.value.status == -9


@pytest.mark.slow
def test_what_takes_longer_than_its_limit_is_ended_with_its_children(tmp_path: Path) -> None:
    script = "import subprocess, sys, time; print('begun', flush=True)\n"
    script += "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\ntime.sleep(60)"
    with pytest.raises(CommandFailed) as caught:
        process.run([sys.executable, "-c", script], log=tmp_path / "log", limit_s=5.0)
    assert caught.value.status == -9
    assert caught.value.tail.splitlines() == ["begun", "ended by force: not done after 5 seconds"]
    assert (tmp_path / "log").read_text().endswith("not done after 5 seconds\n")


def test_a_limit_ends_what_has_closed_its_streams() -> None:
    with pytest.raises(CommandFailed, match="signal 9"):
        process.run(
            [sys.executable, "-c", "import os, time; os.close(1); os.close(2); time.sleep(60)"], limit_s=0.5
        )


def test_a_command_within_its_limit_is_left_alone() -> None:
    assert process.run([sys.executable, "-c", "print('done')"], limit_s=60).stdout == "done\n"


def test_a_command_is_ended_as_soon_as_its_watcher_has_a_reason(tmp_path: Path) -> None:
    lines: list[str] = []
    script = "import sys, time; print('over', file=sys.stderr, flush=True); time.sleep(60)"
    with pytest.raises(CommandFailed) as caught:
        process.run(
            [sys.executable, "-c", script],
            log=tmp_path / "log",
            watch=lines.append,
            until=lambda: "it is over" if lines else None,
        )
    assert (caught.value.status, lines[0]) == (-9, "over")
    assert (tmp_path / "log").read_text().endswith("over\nended by force: it is over\n")


def test_a_watcher_without_a_reason_changes_nothing() -> None:
    assert process.run([sys.executable, "-c", "print('done')"], until=lambda: None).stdout == "done\n"


def test_a_program_that_does_not_exist_is_named() -> None:
    with pytest.raises(MissingTool, match="no-such-compiler was not found") as caught:
        process.run(["no-such-compiler", "-c"])
    assert caught.value.next_step is not None
    with pytest.raises(MissingTool, match="needed to compile kernels") as found:
        process.find_program("no-such-compiler", purpose="compile kernels", package="hipcc")
    assert found.value.next_step == "install the package hipcc and run again"


def test_a_directory_that_does_not_exist_is_not_taken_for_a_missing_program(tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match=r"directory .*/gone does not exist"):
        process.run(["true"], cwd=tmp_path / "gone")


def test_a_file_that_may_not_be_executed(tmp_path: Path) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    with pytest.raises(MissingTool, match="tool cannot be executed: Permission denied"):
        process.run([tmp_path / "tool"])


def test_a_file_that_is_no_program(tmp_path: Path) -> None:
    (tmp_path / "tool").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "tool").chmod(0o755)
    with pytest.raises(MissingTool, match="tool cannot be executed: Exec format error"):
        process.run([tmp_path / "tool"])


def test_a_working_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(MissingTool, match="file"):
        process.run(["true"], cwd=tmp_path / "file")


def test_the_environment_is_inherited_dropped_overridden_or_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEPT", "k")
    monkeypatch.setenv("LEAK", "l")
    code = "import os; print([os.environ.get(n) for n in ('KEPT', 'LEAK', 'NEW')])"
    assert python(code, env={"NEW": "n"}).stdout == "['k', 'l', 'n']\n"
    assert python(code, drop_env=["LEAK", "ABSENT"]).stdout == "['k', None, None]\n"
    # What is given explicitly wins over what is dropped.
    assert python(code, env={"LEAK": "mine"}, drop_env=["LEAK"]).stdout == "['k', 'mine', None]\n"
    assert python(code, env={"NEW": "n"}, clean_env=True).stdout == "[None, None, 'n']\n"
    assert os.environ["LEAK"] == "l"


def test_nothing_waits_for_an_answer_on_the_terminal() -> None:
    assert python("import sys; print(repr(sys.stdin.read()))").stdout == "''\n"


MEASURE = """
import sys
from rocwright.system import process
done = process.run([sys.executable, "-c", {code!r}])
print(done.cpu_s, done.peak_rss, done.wall_s)
"""


def measured(code: str) -> tuple[float, int, float]:
    """CPU seconds, peak memory and wall seconds of `code`, run by a small interpreter.

    Linux carries the size of the process that starts a command over into what it counts for the command.
    """
    script = MEASURE.format(code=code)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    cpu, peak, wall = done.stdout.split()
    return float(cpu), int(peak), float(wall)


def test_cpu_seconds_and_memory_include_children() -> None:
    work = "x = bytearray(96 << 20); x[::4096] = b'1' * len(x[::4096]); s = sum(range(6_000_000))"
    child = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {work!r}], check=True)"
    idle, busy = measured("pass"), measured(child)
    assert busy[0] > idle[0] + 0.05
    assert 96 << 20 < busy[1] < 300 << 20
    assert idle[1] < 96 << 20
    assert busy[2] > 0


# ---- stopping: in an interpreter of its own, as a stopped run stays stopped ----

STOPPING = """
import sys, threading, time
from pathlib import Path
from rocwright.errors import Interrupted
from rocwright.system import process

said = []
def work():
    try:
        process.run(["/bin/sh", "-c", {script!r}])
    except Interrupted as error:
        said.append(str(error))
thread = threading.Thread(target=work)
thread.start()
while not Path("ready").exists():
    time.sleep(0.01)
began = time.monotonic()
process.stop_all(grace_s={grace})
thread.join(10)
assert not thread.is_alive(), "run() did not return"
assert len(said) == 1 and "stopped while running" in said[0] and "resume" in said[0], said
try:
    process.run(["touch", "after"])
except Interrupted:
    print("refused", round(time.monotonic() - began, 1))
"""


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


def gone(pid: int, seconds: float = 60.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if not alive(pid):
            return True
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    return False


@pytest.mark.parametrize(
    ("ignore", "grace"), [("", 5.0), ("trap '' TERM; ", 0.3)], ids=["polite", "ignores-sigterm"]
)
def test_stopping_ends_grandchildren_and_refuses_new_commands(
    tmp_path: Path, ignore: str, grace: float
) -> None:
    script = f"{ignore}sh -c '{ignore.replace(chr(39), chr(34))}echo $$ > pid; touch ready; sleep 60; :'; :"
    done = subprocess.run(
        [sys.executable, "-c", STOPPING.format(script=script, grace=grace)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("refused")
    assert not (tmp_path / "after").exists()
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_command_that_starts_while_all_are_stopped_is_stopped_too(tmp_path: Path) -> None:
    """Between being started and being known, a command must not slip through."""
    code = """
import subprocess
from pathlib import Path
from rocwright.errors import Interrupted
from rocwright.system import process

class Popen(subprocess.Popen):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        Path("pid").write_text(str(self.pid))
        process.stop_all(grace_s=0.2)

process.subprocess.Popen = Popen
try:
    process.run(["sleep", "600"])
except Interrupted:
    print("interrupted")
"""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )
    assert done.stdout == "interrupted\n", done.stderr
    assert gone(int((tmp_path / "pid").read_text()))


@pytest.mark.parametrize("sig", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "sigterm"])
def test_an_interrupt_of_a_command_run_by_the_main_thread_ends_it(
    tmp_path: Path, sig: signal.Signals
) -> None:
    code = """
import signal
from rocwright.system import process
def stop(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGTERM, stop)
signal.signal(signal.SIGINT, stop)
# Heard of once its output is read: on a busy machine it runs before whoever started it goes on.
started = lambda line: open("ready", "w").close()
process.run(["/bin/sh", "-c", "echo $$ > pid; echo up >&2; exec sleep 60"], watch=started)
"""
    child = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.PIPE)
    try:
        while not (tmp_path / "ready").exists():
            assert child.poll() is None
            time.sleep(0.02)
        child.send_signal(sig)
        _, stderr = child.communicate(timeout=120)
    finally:
        child.kill()
    assert b"KeyboardInterrupt" in stderr or b"Interrupted" in stderr
    assert gone(int((tmp_path / "pid").read_text()))

"""Bad command lines, each in a process of its own: none ends well, and each says what to do instead.

Among them one for every class of error, whose whole text stands in the table.
"""

import functools
import http.server
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from blocks.errors import error_classes
from needs import need, need_distribution
from wheels import write_variant, write_wheel

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LINES = tomllib.loads(Path(__file__).with_name("bad_lines.toml").read_text(encoding="utf-8"))["line"]
ERRORS = [line for line in LINES if "text" in line]
# Raised between rooms only: who catches it makes another error of it, or none. `NoObject` is seen by who
# reads while somebody deletes.
INNER = {"Contradiction", "NoObject", "NoRanges", "NotInstalled", "NotOffered"}


class Page(http.server.BaseHTTPRequestHandler):
    """Answers every question with a web page that is no index of packages."""

    def do_GET(self):
        body = b"<!DOCTYPE html><title>Welcome</title><p>It works! <a href='/about'>About us</a>"
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def page():
    """Return the address of a server that knows nothing of packages."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def dead():
    """Return an address that refuses every connection: nobody else gets the port, and nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/simple/"


@pytest.fixture
def served(tmp_path):
    """Return the address of a server of the directory's files; it knows no parts of files."""
    handler = functools.partial(Files, directory=str(tmp_path / "work"))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


class Files(http.server.SimpleHTTPRequestHandler):
    """Serves files, and says nothing on stderr."""

    def log_message(self, *_):
        pass


def prepare(work, files):
    """Make the files that a line finds."""
    for name, content in files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        elif content == "@empty-zip":
            zipfile.ZipFile(path, "w").close()
        elif content == "@torch-for-windows":
            dll = {"torch/__init__.py": "", "torch/version.py": "", "torch/lib/c10.dll": "MZ"}
            requires = ["rocm[libraries]==7.0.2"]
            write_wheel(path, "torch", "2.9.0", dll, requires=requires, tag="cp312-cp312-win_amd64")
        elif content == "@variant-cut-short":
            write_variant(path, "mine", "1.0", "gfx942", {}, stated="{", tag="py3-none-any")
        elif content.startswith("@"):
            project, version = content[1:].split()
            write_wheel(path, project, version, {f"{project}.py": ""}, tag="py3-none-any")
        else:
            path.write_text(content, encoding="utf-8")


def everything(work):
    """Return what lies in a directory: names, and what is in files."""
    return {str(path.relative_to(work)): path.is_file() and path.read_bytes() for path in work.rglob("*")}


# rocwright for whom ten minutes of waiting for another publisher have passed at once.
HURRIED = """-c '
from rocwright import cli
from rocwright.store.lease import PACE, Pace
PACE.set(Pace(patience=0))
cli.main()'"""


def run(line, work, home, *, hurried=False):
    """Run a line of a shell; return its exit code and what it printed. Nothing of it outlives the test."""
    programs = home / "bin"
    programs.mkdir(exist_ok=True)
    how = HURRIED if hurried else "-m rocwright"
    (programs / "rocwright").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} {how} "$@"\n')
    (programs / "rocwright").chmod(0o755)
    env = {
        "PATH": f"{programs}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(home),
        "TMPDIR": str(home),
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        **{
            f"GIT_{who}_{what}": "me@example.org"
            for who in ("AUTHOR", "COMMITTER")
            for what in ("NAME", "EMAIL")
        },
    }
    with subprocess.Popen(
        ["/bin/sh", "-c", line],
        cwd=work,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
        start_new_session=True,
    ) as process:
        try:
            result, message = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, result, message


# A process for each line.
@pytest.mark.slow
@pytest.mark.parametrize("line", LINES, ids=[line["name"] for line in LINES])
def test_a_bad_line_is_refused_and_says_what_to_do(line, page, dead, served, tmp_path):
    need(line.get("needs", "sh"))
    if "on" in line:
        need_distribution(line["on"])
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    prepare(work, line.get("files", {}))
    places = {"page": page, "dead": dead, "served": served, "work": str(work)}

    def filled(text):
        return re.sub(r"\{(page|dead|served|work)\}", lambda name: places[name[1]], text)

    if "before" in line:
        code, result, message = run(f"set -e\n{filled(line['before'])}", work, home)
        assert code == 0, result + message
    before = everything(work)

    code, result, message = run(filled(line["line"]), work, home, hurried=line.get("hurried", False))

    said = result + message
    assert code > 0, said
    assert code == line.get("exit", code), said
    assert "Traceback" not in said, said
    assert line.get("changes") or everything(work) == before, said
    if "text" in line:
        assert matches(message, filled(line["text"])), said
        assert f"error ({line['error']}): " in message, said
        assert len(told(message)) <= 6, said
        assert "\n  next: " in message, said
        return
    assert result == line.get("result", ""), said
    next_step = message.partition("\n  next: ")[2].strip()
    assert next_step, said
    assert line.get("next", "") in next_step, said
    assert len(said.splitlines()) <= 25, said


def told(message):
    """The lines of the error, without what was said on the way."""
    return ("error (" + message.rpartition("error (")[2]).strip().splitlines()


def matches(message, text):
    """Whether the error is the text of the table, in which … stands for what differs from run to run."""
    pattern = ".*".join(map(re.escape, text.strip().split("…")))
    return re.fullmatch(pattern, "\n".join(told(message))) is not None


def test_names_are_their_own():
    assert len({line["name"] for line in LINES}) == len(LINES) >= 60


def test_every_class_of_error_has_a_line():
    """A new class needs a line that provokes it."""
    assert sorted({*INNER, *(line["error"] for line in ERRORS)}) == sorted(
        {kind.__name__ for _, kind in error_classes()}
    )

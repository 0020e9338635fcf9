"""Sixty bad command lines, each in a process of its own: none ends well, and each says what to do instead."""

import http.server
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from needs import need

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

LINES = tomllib.loads(Path(__file__).with_name("bad_lines.toml").read_text(encoding="utf-8"))["line"]


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
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def dead():
    """Return an address that refuses every connection: nobody else gets the port, and nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}/simple/"


def prepare(work, files):
    """Make the files that a line finds."""
    for name, content in files.items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        elif content == "@empty-zip":
            zipfile.ZipFile(path, "w").close()
        else:
            path.write_text(content, encoding="utf-8")


def everything(work):
    """Return what lies in a directory: names, and what is in files."""
    return {str(path.relative_to(work)): path.is_file() and path.read_bytes() for path in work.rglob("*")}


def run(arguments, work, home):
    """Run a command line; return its exit code and what it printed. Nothing of it outlives the test."""
    with subprocess.Popen(
        [sys.executable, "-m", "rocwright", *arguments],
        cwd=work,
        env={"PATH": os.environ["PATH"], "HOME": str(home), "TMPDIR": str(home)},
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


@pytest.mark.parametrize("line", LINES, ids=[line["name"] for line in LINES])
def test_a_bad_line_is_refused_and_says_what_to_do(line, page, dead, tmp_path):
    need(line.get("needs", "sh"))
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    prepare(work, line.get("files", {}))
    before = everything(work)

    program, *arguments = shlex.split(line["line"].replace("{page}", page).replace("{dead}", dead))
    assert program == "rocwright"
    code, result, message = run(arguments, work, home)

    said = result + message
    assert code > 0, said
    assert code == line.get("exit", code), said
    assert "Traceback" not in said, said
    assert result == line.get("result", ""), said
    next_step = message.partition("\n  next: ")[2].strip()
    assert next_step, said
    assert line.get("next", "") in next_step, said
    assert len(said.splitlines()) <= 25, said
    assert everything(work) == before, said


def test_there_are_sixty_lines_with_names_of_their_own():
    assert len({line["name"] for line in LINES}) == len(LINES) == 60

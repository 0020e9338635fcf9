"""`rocwright store probe` and `rocwright store serve` at the door."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import urllib.request
from pathlib import Path

import pytest

import command_line
from rocwright.cli.store.options import StoreOptions
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.remote import RemoteStore


def run(capsys: pytest.CaptureFixture[str], *words: str) -> command_line.Ended:
    return command_line.run(capsys, "store", *words)


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    monkeypatch.delenv("ROCWRIGHT_STORE", raising=False)


def test_probe_for_people_and_for_programs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "probe", "--store", "shop")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == str(tmp_path / "shop")
    # A line that begins with a space goes on with the last cell.
    rows = dict(line.split()[:2] for line in out.splitlines()[2:] if line[0] != " ")
    assert rows["create-only"] == rows["range"] == rows["clock"] == rows["delete"] == "yes"
    code, out, _ = run(capsys, "probe", "--store", "shop", "--json")
    found = json.loads(out)
    assert code == 0 and found["place"] == str(tmp_path / "shop")
    assert {one["id"]: one["holds"] for one in found["findings"]} == dict.fromkeys(rows, True)


def test_probe_of_a_store_that_cannot_be_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("")
    for store, told in (
        ("file/below", "cannot write first"),
        ("file", "file is a file, and a store is a folder"),
    ):
        code, out, err = run(capsys, "probe", "--store", store)
        assert (code, out) == (3, "")
        assert f"error (InvalidInput): {told}" in err


@pytest.mark.parametrize("verb", ["probe", "serve"])
def test_addresses_that_are_none(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, verb, "--store", "gs://bucket")
    assert (code, out) == (3, "")
    assert "'gs://bucket' is not the address of a store" in err and "next: give a folder" in err


@pytest.mark.slow
@pytest.mark.parametrize("form", ["text", "json"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_serve_until_it_is_stopped(tmp_path: Path, form: str, number: signal.Signals) -> None:
    LocalStore(tmp_path / "store").put_bytes("v2/gfx/index.html", b"the page")
    words = ["store", "serve", "--port", "0", *(["--json"] if form == "json" else [])]
    with subprocess.Popen(
        [*command_line.PROGRAM, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "NO_COLOR": "1"},
    ) as process:
        assert process.stdout is not None and process.stderr is not None
        if form == "text":
            base = process.stdout.readline().strip()
            assert process.stdout.readline() == f"pip install --index-url {base}v2/gfx/ PACKAGE\n"
        else:
            said = ""
            while not said.endswith("}\n") or said.count("{") != said.count("}"):
                said += process.stdout.readline()
            found = json.loads(said)
            base = found["url"]
            assert [(one["channel"], one["url"]) for one in found["indexes"]] == [
                ("release", f"{base}v2/gfx/")
            ]
        assert process.stderr.readline() == "serving until Ctrl-C\n"
        with urllib.request.urlopen(f"{base}v2/gfx/", timeout=10) as answer:
            assert answer.read() == b"the page"
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err) == (0, "", "stopped\n")


def test_how_long_pages_may_be_kept_is_in_the_overlay(tmp_path: Path) -> None:
    (tmp_path / "rocwright.toml").write_text("[channels]\nmax_age = 5\n")
    for number, config in enumerate((tmp_path / "rocwright.toml", None)):
        # The one of the current directory counts, too.
        store = StoreOptions(store=f"memory://kept-{number}", config=config).opened()
        assert isinstance(store, RemoteStore)
        store.put_bytes("v2/fam/index.html", b"")
        assert store.headers("v2/fam/index.html")["Cache-Control"] == "public, max-age=5"

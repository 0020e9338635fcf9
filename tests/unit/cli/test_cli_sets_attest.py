"""`rocwright set attest` and `set project` at the door; what is served is read by others' clients.

Sigstore's public instance has a stand-in here (`sigstore_stand_in`): the clients are unchanged, their root of
trust is its.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pypi_simple
import pytest
from cli_sets import created, kept, run

from command_line import Run
from rocwright.store.objects.serve import serving
from rocwright.system.venv import uv_command
from sigstore_stand_in import StandIn

__all__ = ["run"]

MYLIB, HELPER = "mylib-1.0+r1-py3-none-any.whl", "helper-1.0-py3-none-any.whl"
DIST = Path("dist-1.0-0")
PUBLISHER = '[[channels.publisher]]\nrepository = "acme/wheels"\nworkflow = "release.yml"\n'
PUBLIC = "https://packages.example.org/rocm/"


@pytest.fixture
def instance(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> StandIn:
    cache = tmp_path_factory.mktemp("trust")
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    monkeypatch.setenv("ROCWRIGHT_PUBLIC_URL", PUBLIC)
    found = StandIn()
    found.trust(cache)
    return found


def attestation(instance: StandIn, name: str, **more: str) -> dict[str, Any]:
    return instance.attest(name, hashlib.sha256((DIST / name).read_bytes()).hexdigest(), **more)


def attested(run: Run, instance: StandIn, *stage: str, toml: str = PUBLISHER) -> str:
    """A set whose two files are attested, by files beside them."""
    digest = created(run, "1.0", *stage)
    Path("rocwright.toml").write_text(toml)
    for name in (MYLIB, HELPER):
        (DIST / f"{name}.publish.attestation").write_text(json.dumps(attestation(instance, name)))
    done = run("attest", digest, DIST, "--offline")
    assert done.code == 0, done.err
    assert len(done.lines) == 2
    return digest


def offered(url: str, project: str) -> dict[str, Any]:
    with urlopen(f"{url}_json/{project}/") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def client(*words: object) -> subprocess.CompletedProcess[str]:
    """pypi-attestations as its users run it, without a network."""
    command = [sys.executable, "-m", "pypi_attestations", "verify", "pypi", "--offline", *map(str, words)]
    return subprocess.run(command, text=True, capture_output=True)


# ---- provenance ----


def test_what_pip_downloads_verifies_by_what_the_index_points_at(
    run: Run, instance: StandIn, tmp_path: Path
) -> None:
    attested(run, instance, "--stage")
    assert run("repair", "staging:fam").code == 0
    with serving(Path("store")) as base:
        index = f"{base}v2-staging/fam/"
        words = ["download", "--no-cache-dir", "--index-url", index, "-d", "got", "mylib"]
        pip = subprocess.run([sys.executable, "-m", "pip", *words], text=True, capture_output=True)
        assert pip.returncode == 0, pip.stderr
        # A second reader says where.
        with pypi_simple.PyPISimple(endpoint=index) as simple:
            pages = {name: simple.get_project_page(name) for name in ("mylib", "helper")}
        for page in pages.values():
            [package] = page.packages
            assert page.repository_version == "1.3"
            assert package.provenance_url is not None
            assert package.provenance_url.startswith(PUBLIC)
            place = base + package.provenance_url.removeprefix(PUBLIC)
            with urlopen(place) as answer:
                Path("provenance.json").write_bytes(answer.read())
            file = Path("got", package.filename)
            there = ["--provenance-file", "provenance.json", file]
            done = client("--repository", "https://github.com/acme/wheels", *there)
            assert (done.returncode, f"OK: {package.filename}" in done.stderr) == (0, True), done.stderr
            assert client("--repository", "https://github.com/other/wheels", *there).returncode == 1
            file.write_bytes(file.read_bytes() + b"x")
            done = client("--repository", "https://github.com/acme/wheels", *there)
            assert (done.returncode, "does not match distribution digest" in done.stderr) == (1, True)


def test_uv_installs_from_pages_with_provenance(run: Run, instance: StandIn) -> None:
    digest = attested(run, instance)
    with serving(Path("store")) as base:
        words = ["--no-config", "--no-cache", "--default-index", f"{base}sets/{digest}/", "--target", "t"]
        uv = subprocess.run([uv_command(), "pip", "install", *words, "mylib"], text=True, capture_output=True)
    assert uv.returncode == 0, uv.stderr
    assert Path("t/mylib/__init__.py").exists()


def test_pages_give_the_whole_address_and_follow_the_store_to_another(
    run: Run, instance: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = attested(run, instance)

    def place() -> str:
        [file] = json.loads(Path(f"store/sets/{digest}/_json/mylib/index.html").read_bytes())["files"]
        found: str = file["provenance"]
        return found

    start = f"{PUBLIC}sets/{digest}/_provenance/"
    assert place().startswith(start)
    assert place().endswith("/mylib-1.0%2Br1-py3-none-any.whl.provenance")
    monkeypatch.setenv("ROCWRIGHT_PUBLIC_URL", "https://moved.example/")
    assert run("attest", digest, DIST, "--offline").code == 0
    assert place().startswith(f"https://moved.example/sets/{digest}/_provenance/")


def test_a_store_without_a_public_address_is_not_attested(
    run: Run, instance: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ROCWRIGHT_PUBLIC_URL")
    digest = created(run)
    Path("rocwright.toml").write_text(PUBLISHER)
    Path("a.attestation").write_text(json.dumps(attestation(instance, MYLIB)))
    done = run("attest", digest, "a.attestation", "--offline")
    assert (done.code, "ROCWRIGHT_PUBLIC_URL" in done.err) == (2, True)


def test_the_same_again_changes_nothing_and_another_is_added(run: Run, instance: StandIn) -> None:
    digest = attested(run, instance)
    before = kept()
    assert run("attest", digest, DIST, "--offline").code == 0
    assert kept() == before
    Path("more.attestation").write_text(json.dumps(attestation(instance, MYLIB, ref="refs/tags/v1")))
    [key] = run("attest", digest, "more.attestation", "--offline").lines
    [bundle] = json.loads(Path("store", key).read_bytes())["attestation_bundles"]
    assert bundle["publisher"] == {"kind": "GitHub", "repository": "acme/wheels", "workflow": "release.yml"}
    assert len(bundle["attestations"]) == 2
    assert run("verify", digest, "--offline").code == 0


def test_what_is_attested_of_one_file_says_nothing_of_another(run: Run, instance: StandIn) -> None:
    """Of two jobs, one for each file, the later would put back what it read of the other's."""
    digest = attested(run, instance)
    Path("more.attestation").write_text(json.dumps(attestation(instance, MYLIB, ref="refs/tags/v1")))
    assert run("attest", digest, "more.attestation", "--offline").code == 0
    said = [
        json.loads(path.read_bytes())["predicate"]
        for path in Path(f"store/sets/{digest}/_statements").glob("provenance-*.json")
    ]
    assert sorted((one["number"], sorted(one["files"])) for one in said) == [
        (1, [HELPER, MYLIB]),
        (2, [MYLIB]),
    ]


def _other_file(one: dict[str, Any], instance: StandIn) -> dict[str, Any]:
    return instance.attest("other-1.0-py3-none-any.whl", "0" * 64)


def _other_bytes(one: dict[str, Any], instance: StandIn) -> dict[str, Any]:
    return instance.attest(MYLIB, "0" * 64)


def _other_instance(one: dict[str, Any], instance: StandIn) -> dict[str, Any]:
    return attestation(StandIn(), MYLIB)


def _other_workflow(one: dict[str, Any], instance: StandIn) -> dict[str, Any]:
    instance.workflow = "ci.yml"
    return attestation(instance, MYLIB)


def _other_signature(one: dict[str, Any], instance: StandIn) -> dict[str, Any]:
    one["envelope"]["signature"] = attestation(instance, MYLIB)["envelope"]["signature"]
    return one


def _other_log(one: dict[str, Any], instance: StandIn) -> dict[str, Any]:
    material = one["verification_material"]
    other = attestation(instance, MYLIB)["verification_material"]
    material["transparency_entries"] = other["transparency_entries"]
    return one


def _unknown_kind(one: dict[str, Any], instance: StandIn) -> dict[str, Any]:
    return attestation(instance, MYLIB, kind="https://example.org/what/v1")


def _nothing(one: dict[str, Any], instance: StandIn) -> dict[str, Any]:
    return {"version": 1}


@pytest.mark.parametrize(
    ("forge", "code", "said"),
    [
        (_other_file, 3, "is about other-1.0-py3-none-any.whl, which is not in the set"),
        (_other_bytes, 3, "which is in the set with another sha256"),
        (_other_instance, 6, "does not hold for acme/wheels, release.yml: Verification failed"),
        (_other_workflow, 6, "does not hold for acme/wheels, release.yml: Verification failed"),
        (_other_signature, 6, "does not hold for acme/wheels, release.yml: Verification failed"),
        (_other_log, 6, "does not hold for acme/wheels, release.yml: Verification failed"),
        (_unknown_kind, 6, "unknown attestation type"),
        (_nothing, 3, "is no attestation"),
    ],
)
def test_what_the_client_would_refuse_is_not_published(
    run: Run,
    instance: StandIn,
    forge: Callable[[dict[str, Any], StandIn], dict[str, Any]],
    code: int,
    said: str,
) -> None:
    digest = created(run)
    Path("rocwright.toml").write_text(PUBLISHER)
    good, bad = Path("a.attestation"), Path("b.attestation")
    # Beside one that holds: all or none.
    good.write_text(json.dumps(attestation(instance, HELPER)))
    bad.write_text(json.dumps(forge(attestation(instance, MYLIB), instance)))
    before = kept()
    done = run("attest", digest, good, bad, "--offline")
    assert (done.code, said in " ".join(done.err.split())) == (code, True), done.err
    assert kept() == before


def test_nothing_is_taken_from_nobody(run: Run, instance: StandIn) -> None:
    digest = created(run)
    Path("a.attestation").write_text(json.dumps(attestation(instance, MYLIB)))
    done = run("attest", digest, "a.attestation", "--offline")
    assert (done.code, "no publisher is known" in done.err) == (2, True)
    assert run("attest", digest).code == 2


def test_without_the_library_nothing_is_attested_and_verify_says_what_it_did_not_do(
    run: Run, instance: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = attested(run, instance)
    monkeypatch.setitem(sys.modules, "pypi_attestations", None)
    done = run("verify", digest)
    assert (done.code, "2 files have provenance, not verified: pip install" in done.out) == (0, True)
    done = run("attest", digest, DIST)
    assert (done.code, "rocwright[attest]" in done.err) == (4, True)


def test_verify_tells_damaged_from_forged(run: Run, instance: StandIn) -> None:
    digest = attested(run, instance)
    done = run("verify", digest, "--offline")
    assert (done.code, "2 files have provenance, of 2 of them it was verified" in done.out) == (0, True)
    [path] = Path(f"store/sets/{digest}/_provenance").glob(f"*/{MYLIB}.provenance")
    whole = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(whole.replace(b"acme", b"evil"))
    done = run("verify", digest, "--offline")
    assert (done.code, f"{MYLIB}.provenance: it was changed: its name has another digest" in done.out) == (
        6,
        True,
    )
    # A forger who may write to the bucket names it by its digest, and states it: the client still refuses.
    path.unlink()
    data = whole.replace(b"acme", b"evil")
    forged = path.parent.parent / hashlib.sha256(data).hexdigest()[:32] / path.name
    forged.parent.mkdir()
    forged.write_bytes(data)
    for old in Path(f"store/sets/{digest}/_statements").glob("provenance-*.json"):
        text = old.read_bytes().replace(path.parent.name.encode(), forged.parent.name.encode())
        old.unlink()
        old.with_name(f"provenance-{hashlib.sha256(text).hexdigest()[:32]}.json").write_bytes(text)
    done = run("verify", digest, "--offline")
    assert (done.code, f"an attestation of {MYLIB} does not hold" in done.out) == (6, True)
    forged.unlink()
    assert "provenance: it is missing" in run("verify", digest, "--offline").out


def test_verify_takes_no_provenance_of_a_workflow_that_the_table_does_not_name(
    run: Run, instance: StandIn
) -> None:
    """Anybody has a repository, and signs what lies in a bucket that they may write to."""
    digest = attested(run, instance)
    Path("rocwright.toml").write_text(f'{PUBLISHER}environment = "pypi"\n')
    assert run("verify", digest, "--offline").code == 0
    for other in (PUBLISHER.replace("acme", "other"), PUBLISHER.replace("release.yml", "ci.yml")):
        Path("rocwright.toml").write_text(other)
        done = run("verify", digest, "--offline")
        assert (done.code, f"an attestation of {MYLIB} is of acme/wheels" in done.out) == (6, True)
    # Who names nobody is told that it holds, and of whom it is says the provenance.
    Path("rocwright.toml").write_text("")
    assert run("verify", digest, "--offline").code == 0


def test_provenance_of_an_adopted_index_stays_on_our_pages(
    rocwright: Run, run: Run, instance: StandIn, tmp_path: Path
) -> None:
    digest = attested(run, instance)
    with serving(Path("store")) as base:
        words = ("--from-index", f"{base}sets/{digest}/", "--store", tmp_path / "ours", "--project", "mylib")
        done = rocwright("set", "create", *words, "--no-install")
        assert done.code == 0, done.err
        [page] = (tmp_path / "ours").glob("sets/*/_json/mylib/index.html")
        [file] = json.loads(page.read_bytes())["files"]
        assert file["provenance"].startswith(f"{PUBLIC}sets/{digest}/_provenance/")


# ---- what a channel says of a project ----


def test_installers_find_nothing_of_a_project_in_quarantine_until_it_is_taken_back(run: Run) -> None:
    created(run, "1.0", "--stage")
    words = ("staging:fam", "helper", "--status", "quarantined", "--reason", "a build host was broken into")
    assert run("project", *words).code == 0
    pip = [sys.executable, "-m", "pip", "download", "--no-cache-dir", "-d", "got", "mylib"]
    with serving(Path("store")) as base:
        index = f"{base}v2-staging/fam/"
        with pypi_simple.PyPISimple(endpoint=index) as simple:
            page = simple.get_project_page("helper")
        assert (page.packages, page.repository_version) == ([], "1.4")
        environment = {**os.environ, "PIP_CONFIG_FILE": os.devnull}
        done = subprocess.run([*pip, "--index-url", index], text=True, capture_output=True, env=environment)
        assert (done.returncode, "helper==1.0" in done.stderr) == (1, True)
        assert run("repair", "staging:fam").code == 0
        assert offered(index, "helper")["project-status"]["reason"] == "a build host was broken into"
        assert run("project", "staging:fam", "helper").code == 0
        done = subprocess.run([*pip, "--index-url", index], text=True, capture_output=True, env=environment)
        assert done.returncode == 0, done.stderr


def test_a_second_reader_finds_status_and_other_places(run: Run) -> None:
    created(run, "1.0", "--stage")
    urls = ("--tracks", "https://a.example/mylib/", "--alternate", "https://b.example/mylib/")
    assert run("project", "staging:fam", "mylib", "--status", "archived", "--reason", "done", *urls).code == 0
    with serving(Path("store")) as base, pypi_simple.PyPISimple(endpoint=f"{base}v2-staging/fam/") as simple:
        for accept in (pypi_simple.ACCEPT_JSON_ONLY, pypi_simple.ACCEPT_HTML_ONLY):
            page = simple.get_project_page("mylib", accept=accept)
            assert page.tracks == ["https://a.example/mylib/"]
            assert page.alternate_locations == ["https://b.example/mylib/"]
            assert len(page.packages) == 1
            assert (str(page.status), page.status_reason) == ("archived", "done")


def test_a_project_that_is_not_listed_has_no_status(run: Run) -> None:
    created(run, "1.0", "--stage")
    before = kept()
    done = run("project", "staging:fam", "myilb", "--status", "archived")
    assert (done.code, "lists no project 'myilb'" in done.err) == (3, True)
    assert kept() == before
    assert run("project", "staging:fam", "mylib", "--tracks", "https://a.example/mylib").code == 3

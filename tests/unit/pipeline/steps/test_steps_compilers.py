"""Which compiler cache a step takes, and where it keeps what it has."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from rocwright.errors import UsageError
from rocwright.model.plan import Publication
from rocwright.pipeline.options import RunOptions, Workspace
from rocwright.pipeline.steps.compilers import CompilerCache, bucket_settings, choose_kind, compiler_cache
from rocwright.store.objects.address import open_store

MINIO = {"region": "us-east-1", "endpoint": "http://127.0.0.1:9000"}


@pytest.fixture
def options(tmp_path: Path) -> RunOptions:
    work = Workspace(tmp_path / "work")
    return RunOptions(work, tmp_path / "cache", ("gfx90a",), "main", profile="nightly")


@pytest.fixture(autouse=True)
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand-ins that are only found, never run."""
    folder = tmp_path / "programs"
    folder.mkdir()
    for name in ("ccache", "sccache"):
        (folder / name).write_text("")
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(folder))
    monkeypatch.setattr("sys.executable", str(tmp_path / "no" / "python"))
    return folder


def taken(options: RunOptions, **environment: str) -> tuple[CompilerCache, list[str]]:
    notes: list[str] = []
    with compiler_cache(options, notes.append, environment) as cache:
        return cache, notes


@pytest.mark.parametrize(
    ("said", "shared", "there", "kind"),
    [
        ("auto", True, ("ccache", "sccache"), "sccache"),
        ("auto", False, ("ccache", "sccache"), "ccache"),
        ("auto", False, ("sccache",), "sccache"),
        ("auto", True, ("ccache",), ""),
        ("auto", False, (), ""),
        ("none", True, ("ccache", "sccache"), ""),
        ("sccache", False, ("ccache",), "sccache"),
        ("ccache", True, ("ccache", "sccache"), "ccache"),
    ],
)
def test_the_store_decides_unless_somebody_says(
    said: str, shared: bool, there: tuple[str, ...], kind: str
) -> None:
    assert choose_kind(said, shared=shared, there=there) == kind


def test_a_bucket_keeps_results_apart_for_each_profile(
    options: RunOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a pull request compiled is in no release."""
    pytest.importorskip("obstore")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://minio.example")
    shared = msgspec.structs.replace(options, objects=open_store("s3://bucket/some/prefix"))
    cache, notes = taken(shared)
    socket = cache.settings.pop("SCCACHE_SERVER_UDS")
    assert len(socket) < 100 and not Path(socket).parent.exists()
    assert (cache.kind, notes) == ("sccache", [])
    assert cache.settings == {
        "SCCACHE_BUCKET": "bucket",
        "SCCACHE_REGION": "eu-west-1",
        "SCCACHE_ENDPOINT": "https://minio.example",
        "SCCACHE_S3_USE_SSL": "true",
        "SCCACHE_S3_KEY_PREFIX": "some/prefix/cache/nightly",
        "SCCACHE_S3_RW_MODE": "READ_WRITE",
        "SCCACHE_IDLE_TIMEOUT": "7200",
    }
    forked = msgspec.structs.replace(shared, publication=Publication(False, False, "a fork"))
    assert taken(forked)[0].settings["SCCACHE_S3_RW_MODE"] == "READ_ONLY"


def test_a_public_bucket_is_read_without_credentials() -> None:
    found = bucket_settings("b", "cache/ci", {**MINIO, "skip_signature": True}, writes=False)
    assert found["SCCACHE_S3_NO_CREDENTIALS"] == "true"
    assert found["SCCACHE_S3_USE_SSL"] == "false"
    assert "SCCACHE_ENDPOINT" not in bucket_settings("b", "cache/ci", {"region": "us-east-2"}, writes=True)


def test_on_one_machine_it_lies_in_the_machines_cache(options: RunOptions, programs: Path) -> None:
    folder = options.cache / "compilers"
    assert taken(options)[0] == CompilerCache("ccache", {"CCACHE_DIR": str(folder / "ccache")})
    (programs / "ccache").unlink()
    cache, _ = taken(options)
    assert cache.settings["SCCACHE_DIR"] == str(folder / "sccache")
    (programs / "sccache").unlink()
    assert taken(options) == (CompilerCache(), [])


@pytest.mark.parametrize("name", ["CCACHE_DIR", "CCACHE_REMOTE_STORAGE"])
def test_where_somebody_keeps_results_is_his(options: RunOptions, name: str) -> None:
    assert taken(options, **{name: "/mine"})[0] == CompilerCache("ccache")
    assert not (options.cache / "compilers").exists()


def test_a_folder_that_cannot_be_written_to_is_a_warning(options: RunOptions) -> None:
    options.cache.mkdir()
    (options.cache / "compilers").write_text("a file in the way")
    cache, notes = taken(options)
    assert cache == CompilerCache()
    folder = options.cache / "compilers" / "ccache"
    assert notes == [f"warning: compilers run without ccache, which cannot write to {folder}"]


def test_an_unknown_cache_is_refused(options: RunOptions) -> None:
    with pytest.raises(UsageError, match="ROCWRIGHT_COMPILER_CACHE is 'ccahe'") as caught:
        taken(options, ROCWRIGHT_COMPILER_CACHE="ccahe")
    assert caught.value.next_step == "set it to one of: auto none ccache sccache"

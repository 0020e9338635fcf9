from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rocwright.errors import InvalidInput, MissingTool
from rocwright.store.objects.address import open_store
from rocwright.store.objects.local import LocalStore


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No credentials and settings of whoever runs the tests, and no instance to ask for them."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "ROCWRIGHT_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("AWS_METADATA_ENDPOINT", "http://127.0.0.1:1")


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / ".aws"
    folder.mkdir(parents=True)
    (folder / "credentials").write_text(
        "[default]\naws_access_key_id = fromfile\naws_secret_access_key = secretfromfile\n"
    )
    (folder / "config").write_text(
        "[default]\nregion = eu-west-1\nendpoint_url = http://127.0.0.1:2\n"
        "[profile other]\nregion = ap-south-1\naws_access_key_id = other\naws_secret_access_key = s\n"
    )
    return folder


def test_a_folder_by_its_path_and_by_a_url(tmp_path: Path) -> None:
    for address in (str(tmp_path), f"file://{tmp_path}", f"file://localhost{tmp_path}", f"FILE://{tmp_path}"):
        store = open_store(address)
        assert isinstance(store, LocalStore) and store.root == tmp_path
    spaced = open_store(f"file://{tmp_path}/a%20b")
    assert isinstance(spaced, LocalStore) and spaced.root == tmp_path / "a b"
    assert not (tmp_path / "a b").exists(), "nothing is written yet"


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("", "is empty"),
        ("gs://bucket", "'gs://bucket' is not the address of a store"),
        ("http://host/x", "is not the address of a store"),
        ("https://user:sesame@host/x?key=sesame", "is not the address of a store"),
        ("file://other-host/x", "names no folder of this machine"),
        ("file://", "names no folder of this machine"),
        ("s3://", "names no bucket"),
        ("s3://UPPER", "names no bucket"),
        ("s3://a", "names no bucket"),
        ("s3://bucket/../x", "not a valid store key"),
        ("s3://bucket/a//b", "not a valid store key"),
        ("s3://key:sesame@bucket/x", "names no bucket"),
    ],
)
def test_what_is_no_address(address: str, said: str) -> None:
    with pytest.raises(InvalidInput, match=said) as refused:
        open_store(address)
    assert "sesame" not in str(refused.value), "what stands in an address may be a secret"


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    assert isinstance(open_store(str(tmp_path)), LocalStore), "a folder needs nothing"
    for address in ("s3://bucket", "memory://x"):
        with pytest.raises(MissingTool, match="needs the library obstore") as missing:
            open_store(address)
        assert "rocwright[store]" in str(missing.value)


def test_memory_is_shared_by_name() -> None:
    open_store("memory://one").put_bytes("a", b"1")
    assert open_store("memory://one").read("a") == b"1"
    assert open_store("memory://one/").exists("a")
    assert not open_store("memory://two").exists("a")
    assert open_store("memory://one").url("v2/fam/") == "memory://one/v2/fam/"


@pytest.mark.parametrize(
    ("address", "environment", "url"),
    [
        ("s3://bkt", {}, "https://bkt.s3.us-east-1.amazonaws.com/a%2Bb"),
        ("s3://bkt/p/q/", {"AWS_REGION": "eu-west-1"}, "https://bkt.s3.eu-west-1.amazonaws.com/p/q/a%2Bb"),
        ("s3://bkt/p", {"AWS_DEFAULT_REGION": "eu-west-2"}, "https://bkt.s3.eu-west-2.amazonaws.com/p/a%2Bb"),
        ("s3://bkt/p", {"AWS_ENDPOINT_URL": "http://127.0.0.1:9/"}, "http://127.0.0.1:9/bkt/p/a%2Bb"),
        (
            "s3://bkt",
            {"AWS_ENDPOINT_URL": "http://no", "AWS_ENDPOINT_URL_S3": "https://s3.example"},
            "https://s3.example/bkt/a%2Bb",
        ),
        ("s3://bkt/p", {"ROCWRIGHT_PUBLIC_URL": "https://cdn.example/r/"}, "https://cdn.example/r/a%2Bb"),
    ],
)
def test_where_clients_find_a_bucket(
    monkeypatch: pytest.MonkeyPatch, address: str, environment: dict[str, str], url: str
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert open_store(address).url("a+b") == url


def test_a_folder_can_have_a_public_address(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ROCWRIGHT_PUBLIC_URL", "https://cdn.example/r/")
    assert open_store(str(tmp_path)).url("v2/") == "https://cdn.example/r/v2/"


@pytest.mark.parametrize(
    "url", ["cdn.example", "ftp://cdn.example", "https://", "https://me:sesame@cdn.example"]
)
def test_a_public_address_that_is_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, url: str) -> None:
    monkeypatch.setenv("ROCWRIGHT_PUBLIC_URL", url)
    with pytest.raises(
        InvalidInput, match="ROCWRIGHT_PUBLIC_URL is not an address that clients can read"
    ) as refused:
        open_store(str(tmp_path))
    assert "sesame" not in str(refused.value)


def test_a_profile_gives_credentials_region_and_endpoint(
    profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("boto3", reason="the extra `aws` is not installed")
    assert open_store("s3://bkt").url("a") == "http://127.0.0.1:2/bkt/a"
    monkeypatch.setenv("AWS_PROFILE", "other")
    assert open_store("s3://bkt").url("a") == "https://bkt.s3.ap-south-1.amazonaws.com/a"
    monkeypatch.setenv("AWS_PROFILE", "none")
    with pytest.raises(InvalidInput, match=r"the AWS profile cannot be used.*none"):
        open_store("s3://bkt")


def test_keys_in_the_environment_come_before_the_profile(
    profile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(MissingTool, match="an AWS profile need the library boto3") as missing:
        open_store("s3://bkt")
    assert "rocwright[aws]" in str(missing.value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    assert open_store("s3://bkt").url("a") == "https://bkt.s3.us-east-1.amazonaws.com/a"


@pytest.mark.slow
def test_no_credentials_at_all_are_said(monkeypatch: pytest.MonkeyPatch) -> None:
    # The endpoint is a closed port, too: nothing leaves this machine.
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(InvalidInput, match="there are no credentials for s3://bkt") as refused:
        open_store("s3://bkt").list("")
    assert "AWS_SKIP_SIGNATURE" in str(refused.value)


@pytest.mark.parametrize(
    "endpoint",
    ["not a url", "http://", "http://[::1", "http://127.0.0.1:99999", "ftp://host", "https://a:sesame@host"],
)
def test_an_endpoint_that_is_none(monkeypatch: pytest.MonkeyPatch, endpoint: str) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "sesame-sesame")
    monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
    with pytest.raises(InvalidInput, match="the S3 endpoint is not the address of a server") as refused:
        open_store("s3://bkt")
    assert "sesame" not in str(refused.value)


@pytest.mark.parametrize(
    "content", [None, "-----BEGIN CERTIFICATE-----\nbm9uZQ==\n-----END CERTIFICATE-----\n"]
)
def test_certificates_that_are_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str | None
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    if content is not None:
        (tmp_path / "ca.pem").write_text(content)
    with pytest.raises(InvalidInput, match=r"AWS_CA_BUNDLE|cannot be used"):
        open_store("s3://bkt")


@pytest.mark.parametrize("region", ["nowhere at all", "x/y", "é"])
def test_a_region_that_is_none(monkeypatch: pytest.MonkeyPatch, region: str) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    monkeypatch.setenv("AWS_REGION", region)
    with pytest.raises(InvalidInput, match="is not an S3 region"):
        open_store("s3://bkt")


def test_a_file_is_no_empty_store(tmp_path: Path) -> None:
    (tmp_path / "a.whl").write_bytes(b"")
    for address in (str(tmp_path / "a.whl"), (tmp_path / "a.whl").as_uri()):
        with pytest.raises(InvalidInput, match="is a file, and a store is a folder"):
            open_store(address)

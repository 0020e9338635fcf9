"""From the address of a store to the store: a folder, an S3 bucket, memory."""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, unquote, urlsplit

from rocwright.data import load_table
from rocwright.errors import InvalidInput, MissingTool
from rocwright.model.channels import Channels
from rocwright.store.layout import check_key
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import ObjectStore

if TYPE_CHECKING:
    from obstore.store import MemoryStore

    from rocwright.store.objects.remote import RemoteStore

# Where clients find what is in the store, when that is not the store itself: a CDN, a web server.
PUBLIC_URL = "ROCWRIGHT_PUBLIC_URL"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_REGION = re.compile(r"[A-Za-z0-9-]+")
_HOST = re.compile(r"[A-Za-z0-9._:-]+")
# As the AWS tools have them, and obstore's own.
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
# Where a container or a workflow is told which role it has.
_ROLES = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
# Temporary credentials of a profile are asked for again after this time.
_FRESH = timedelta(minutes=15)

_memory: dict[str, MemoryStore] = {}
_memory_lock = threading.Lock()


def open_store(
    address: str, *, max_age: int | None = None, region: str | None = None, reading: bool = False
) -> ObjectStore:
    """The store at a path, a `file://` or `s3://bucket/prefix` URL, or `memory://NAME` (within this process).

    Nothing is read or written yet. Endpoint, region and credentials of S3 come from the `AWS_…` variables,
    or from a profile in `~/.aws`. `max_age` is for how many seconds clients may keep a page (default: as in
    the table of channels). `region` counts where the environment names none. A bucket that is only for
    `reading` is taken for a public bucket where there are no credentials, rather than asking the machine for
    some. Raises `InvalidInput` for an address of another kind, `MissingTool` where the
    extra `rocwright[store]` is not installed.
    """
    environment = os.environ
    public = _public_url(environment)
    found = _SCHEME.match(address)
    scheme = found.group(1).lower() if found else ""
    if scheme in ("", "file"):
        folder = _folder(address, scheme)
        if folder.exists() and not folder.is_dir():
            # To list it would show an empty store.
            raise InvalidInput(
                f"{address} is a file, and a store is a folder",
                where=folder,
                next_step="name the folder: --store DIR",
            )
        return LocalStore(folder, public=public)
    if scheme not in ("s3", "memory"):
        raise InvalidInput(
            f"{_without_query(address)!r} is not the address of a store",
            next_step="give a folder, file:///path, s3://bucket/prefix or memory://name",
        )
    _require_obstore()
    keep = load_table("channels", Channels).max_age if max_age is None else max_age
    if scheme == "memory":
        return _in_memory(address, public, keep)
    settings = _settings(environment, region)
    if reading and not (_has_keys(environment) or _has_profile(environment) or _has_role(environment)):
        # The role of a virtual machine stands in no variable: AWS_SKIP_SIGNATURE=false asks for it.
        settings["skip_signature"] = "AWS_SKIP_SIGNATURE" not in environment
    return _s3(address, public, keep, settings, environment)


def _folder(address: str, scheme: str) -> Path:
    if not address:
        raise InvalidInput("the address of the store is empty", next_step="give a folder or a URL")
    if not scheme:
        return Path(address)
    parts = urlsplit(address)
    if parts.netloc not in ("", "localhost") or not parts.path:
        raise InvalidInput(f"{address!r} names no folder of this machine", next_step="write file:///path")
    return Path(unquote(parts.path))


def _public_url(environment: Mapping[str, str]) -> str | None:
    url = environment.get(PUBLIC_URL)
    if not url:
        return None
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.username is not None:
        raise InvalidInput(
            f"{PUBLIC_URL} is not an address that clients can read",
            next_step="set it to https://host/path, without a login",
        )
    return url.rstrip("/")


def _without_query(address: str) -> str:
    return address.partition("?")[0].rpartition("@")[2]


def _require_obstore() -> None:
    try:
        import obstore  # noqa: F401 - only whether it is there
    except ImportError as missing:
        raise MissingTool(
            "a store other than a folder needs the library obstore",
            next_step="pip install 'rocwright[store]'",
        ) from missing


def _in_memory(address: str, public: str | None, max_age: int) -> RemoteStore:
    from obstore.store import MemoryStore

    from rocwright.store.objects.remote import RemoteStore

    name = address.partition("://")[2].strip("/")
    with _memory_lock:
        backend = _memory.setdefault(name, MemoryStore())
    place = f"memory://{name}"
    return RemoteStore(backend, place, public or place, max_age=max_age)


def _s3(
    address: str,
    public: str | None,
    max_age: int,
    settings: Mapping[str, Any],
    environment: Mapping[str, str],
) -> RemoteStore:
    from rocwright.store.objects.bucket import Bucket
    from rocwright.store.objects.remote import RemoteStore

    bucket, _, prefix = address.partition("://")[2].partition("/")
    prefix = prefix.strip("/")
    if _BUCKET.fullmatch(bucket) is None:
        raise InvalidInput(
            f"{_without_query(address)!r} names no bucket",
            next_step="write s3://bucket or s3://bucket/prefix",
        )
    if prefix:
        check_key(prefix)
    endpoint = str(settings.get("endpoint", ""))
    where = Bucket(bucket, prefix, settings, _authorities(environment))
    try:
        backend = where.connect()
    except Exception as error:
        # Whatever it is, it is about a setting; its text could repeat a secret value.
        raise InvalidInput(
            f"the settings for s3://{bucket} cannot be used ({type(error).__name__})",
            next_step="look at AWS_ENDPOINT_URL, AWS_REGION and AWS_CA_BUNDLE",
        ) from None
    place = f"s3://{bucket}/{prefix}".rstrip("/")
    seen = public or _seen_from_outside(bucket, prefix, endpoint, str(settings["region"]))
    return RemoteStore(backend, place, seen, max_age=max_age, bucket=where)


def _seen_from_outside(bucket: str, prefix: str, endpoint: str, region: str) -> str:
    root = f"{endpoint.rstrip('/')}/{bucket}" if endpoint else f"https://{bucket}.s3.{region}.amazonaws.com"
    return f"{root}/{quote(prefix)}".rstrip("/")


def _settings(environment: Mapping[str, str], usual: str | None) -> dict[str, Any]:
    """What the environment and the profile say of S3; keys in the environment are obstore's own to read."""
    endpoint = next((environment[name] for name in _ENDPOINTS if environment.get(name)), None)
    region = environment.get("AWS_REGION") or environment.get("AWS_DEFAULT_REGION")
    settings: dict[str, Any] = {}
    if not _has_keys(environment) and _has_profile(environment):
        provider, profile_region, profile_endpoint = _profile()
        settings["credential_provider"] = provider
        region, endpoint = region or profile_region, endpoint or profile_endpoint
    if endpoint:
        settings["endpoint"] = _checked_endpoint(endpoint)
    region = region or usual or "us-east-1"
    if _REGION.fullmatch(region) is None:
        raise InvalidInput(f"{region!r} is not an S3 region", next_step="correct AWS_REGION")
    return {**settings, "region": region}


def _checked_endpoint(endpoint: str) -> str:
    """The endpoint, when it is an address of a server: obstore panics at others."""
    try:
        parts = urlsplit(endpoint)
        good = bool(parts.hostname) and parts.port != 0 and _HOST.fullmatch(parts.hostname or "") is not None
    except ValueError:
        good = False
    if not good or parts.scheme not in ("http", "https") or parts.username is not None or parts.query:
        raise InvalidInput(
            "the S3 endpoint is not the address of a server",
            next_step="set AWS_ENDPOINT_URL to https://host or http://host:port",
        )
    return endpoint.rstrip("/")


def _authorities(environment: Mapping[str, str]) -> bytes | None:
    """Certificates of a company's own authority, where the AWS tools look for them."""
    named = environment.get("AWS_CA_BUNDLE")
    if not named:
        return None
    try:
        return Path(named).read_bytes()
    except OSError as error:
        raise InvalidInput(
            f"the certificates that AWS_CA_BUNDLE names cannot be read: {error.strerror}",
            where=named,
            next_step="unset AWS_CA_BUNDLE, or set it to a file of certificates in PEM",
        ) from error


def _has_keys(environment: Mapping[str, str]) -> bool:
    return bool(environment.get("AWS_ACCESS_KEY_ID")) or (
        environment.get("AWS_SKIP_SIGNATURE", "").lower() in ("1", "true", "yes", "on")
    )


def _has_role(environment: Mapping[str, str]) -> bool:
    return any(environment.get(name) for name in _ROLES)


def _has_profile(environment: Mapping[str, str]) -> bool:
    home = Path(environment.get("HOME", "~")).expanduser()
    named = [
        environment.get("AWS_SHARED_CREDENTIALS_FILE") or home / ".aws" / "credentials",
        environment.get("AWS_CONFIG_FILE") or home / ".aws" / "config",
    ]
    return "AWS_PROFILE" in environment or any(Path(one).is_file() for one in named)


def _profile() -> tuple[Callable[[], dict[str, Any]], str | None, str | None]:
    """Credentials of the profile, asked for when they are needed, its region and its endpoint."""
    try:
        import boto3
        import botocore.exceptions
    except ImportError as missing:
        raise MissingTool(
            "the credentials of an AWS profile need the library boto3",
            next_step="pip install 'rocwright[aws]', or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ) from missing
    try:
        session = boto3.Session()
        scoped = session._session.get_scoped_config()
        credentials = session.get_credentials()
    except botocore.exceptions.BotoCoreError as error:
        raise InvalidInput(
            f"the AWS profile cannot be used: {error}", next_step="look at AWS_PROFILE and ~/.aws"
        ) from error
    if credentials is None:
        raise InvalidInput(
            "the AWS profile has no credentials",
            next_step="run `aws sso login`, or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        )

    def provide() -> dict[str, Any]:
        frozen = credentials.get_frozen_credentials()
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(timezone.utc) + _FRESH,
        }

    return provide, session.region_name, scoped.get("endpoint_url")

"""The store of a repository: asked with the credentials at hand, and judged.

A probe is written and removed again.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from rocwright.errors import RocwrightError
from rocwright.pipeline.doctor.conditions import Condition, Unasked
from rocwright.pipeline.setup.publication import has_credentials
from rocwright.store.objects.address import open_store
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.pins import PINS
from rocwright.system.http import Refused, Web

# As what tries a store writes, too: nobody reads there.
_PROBE = "_probe/"
NO_CREDENTIALS = Unasked(
    "there are no credentials of AWS here", "set AWS_PROFILE, or run it with the profile's role"
)
# Of a client of AWS: what does not answer within that is told, not waited for.
PATIENCE: Mapping[str, Any] = {"connect_timeout": 10, "read_timeout": 20, "retries": {"max_attempts": 2}}
NO_BOTO3 = Unasked("boto3 is not installed here", "pip install 'rocwright[aws]'")


class LifeRule(msgspec.Struct, frozen=True):
    """A rule of a bucket that is on: what it is for, and after how many days it does what (0: never)."""

    prefix: str
    expires: int = 0
    aborts: int = 0
    old_versions: int = 0


class StoreFacts(msgspec.Struct, frozen=True):
    """What was found out: of each the answer, or why there is none.

    `public` is which address was read without credentials, and whether that was allowed. `prefix` is the
    store's own part of the bucket, ending with `/` where there is one.
    """

    address: str
    prefix: str
    listed: str | Unasked
    written: str | Unasked
    public: tuple[str, bool] | Unasked
    rules: tuple[LifeRule, ...] | Unasked
    versioned: bool | Unasked


def ask_store(address: str, region: str, pages: Sequence[str], environment: Mapping[str, str]) -> StoreFacts:
    """Ask a bucket everything; `pages` are keys that people are served, as far as they are there."""
    prefix = address.partition("://")[2].partition("/")[2].strip("/")
    prefix = f"{prefix}/" if prefix else ""
    none = NO_CREDENTIALS
    try:
        if not has_credentials(environment):
            # Who may only read is not let list: what is served is asked for by its address.
            public = _read_by_all(open_store(address, region=region, reading=True), pages)
            return StoreFacts(address, prefix, none, none, public, none, none)
        store = open_store(address, region=region)
        # What is below a name that only a probe has: every store answers at once.
        store.list(_PROBE)
    except RocwrightError as error:
        why = Unasked(error.what, error.next_step or error.usual_step, wrong=True)
        return StoreFacts(address, prefix, why, none, none, none, none)
    written, served = _tried(store, pages)
    rules, versioned = _settings(address, region)
    return StoreFacts(address, prefix, address, written, served, rules, versioned)


def _tried(store: ObjectStore, pages: Sequence[str]) -> tuple[str | Unasked, tuple[str, bool] | Unasked]:
    """Write a probe, have it read by everybody, remove it; else only the pages are read."""
    key = f"{_PROBE}{secrets.token_hex(8)}/doctor.txt"
    try:
        store.put_bytes(key, b"rocwright pipeline doctor\n")
    except RocwrightError as error:
        return Unasked(error.what, error.next_step or error.usual_step, wrong=True), _served(store, pages)
    try:
        served = _served(store, (*pages, key))
    finally:
        # Also where somebody interrupts it.
        left = _removed(store, key)
    return left or key, served


def _removed(store: ObjectStore, key: str) -> Unasked | None:
    """Remove the probe; what is told where it stays."""
    try:
        store.delete(key)
        there = store.exists(key)
    except RocwrightError as error:
        step = f"{error.next_step or error.usual_step}; then remove {key}"
        return Unasked(f"the probe {key} was written and not removed: {error.what}", step, wrong=True)
    why = f"the probe {key} was removed, and is still there"
    return Unasked(why, "ask whoever runs the store", wrong=True) if there else None


def _served(store: ObjectStore, keys: Sequence[str]) -> tuple[str, bool] | Unasked:
    """Whether the first of these that is there can be read by anybody."""
    try:
        there = [key for key in keys if store.exists(key)][:1]
    except RocwrightError as error:
        return Unasked(error.what, error.next_step or error.usual_step)
    if not there:
        return Unasked("nothing is served yet, and no probe could be written", "see `store-write`")
    return _read_by_all(store, there, known=True)


def _read_by_all(
    store: ObjectStore, keys: Sequence[str], *, known: bool = False
) -> tuple[str, bool] | Unasked:
    """Whether one of these can be read without credentials; `known` where they are there."""
    with Web(timeout_s=20, pauses=(0.5,)) as web:
        for url in map(store.url, keys):
            try:
                web.size(web.enter(url))
            except Refused as error:
                if known and error.status in (401, 403):
                    return url, False
                if known:
                    step = "is ROCWRIGHT_PUBLIC_URL where this bucket is served?"
                    return Unasked(error.what, step, wrong=True)
                # Who may not list is told 403 of what is not there, too.
            except RocwrightError as error:
                return Unasked(error.what, error.next_step or error.usual_step, wrong=True)
            else:
                return url, True
    return Unasked(
        "no page of a channel can be read: none is there, or not everybody may", NO_CREDENTIALS.next_step
    )


def _settings(address: str, region: str) -> tuple[tuple[LifeRule, ...] | Unasked, bool | Unasked]:
    """The rules of the bucket, which no object store client asks: by boto3, where it is there."""
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        return NO_BOTO3, NO_BOTO3
    bucket = address.partition("://")[2].partition("/")[0]
    client = boto3.client("s3", region_name=region, config=Config(**PATIENCE))
    rules: tuple[LifeRule, ...] | Unasked
    versioned: bool | Unasked
    try:
        said = client.get_bucket_lifecycle_configuration(Bucket=bucket)
        rules = read_rules(said.get("Rules", ()))
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        rules = () if code == "NoSuchLifecycleConfiguration" else _refused(code, "GetLifecycleConfiguration")
    except BotoCoreError as error:
        rules = _refused(type(error).__name__, "GetLifecycleConfiguration")
    try:
        versioned = client.get_bucket_versioning(Bucket=bucket).get("Status") == "Enabled"
    except ClientError as error:
        versioned = _refused(error.response.get("Error", {}).get("Code", ""), "GetBucketVersioning")
    except BotoCoreError as error:
        versioned = _refused(type(error).__name__, "GetBucketVersioning")
    return rules, versioned


def _refused(code: str, right: str) -> Unasked:
    return Unasked(f"the bucket does not say it ({code})", f"give these credentials the right s3:{right}")


def read_rules(said: Sequence[Mapping[str, Any]]) -> tuple[LifeRule, ...]:
    """Rules that are on, as S3 tells them; one for a tag alone counts as one for everything it may be on."""
    found = []
    for rule in said:
        if rule.get("Status") != "Enabled":
            continue
        chosen = rule.get("Filter") or {}
        both = chosen.get("And") or {}
        ends = rule.get("Expiration") or {}
        found.append(
            LifeRule(
                str(rule.get("Prefix") or chosen.get("Prefix") or both.get("Prefix") or ""),
                # A date is once and for all.
                int(ends.get("Days") or (1 if ends.get("Date") else 0)),
                int((rule.get("AbortIncompleteMultipartUpload") or {}).get("DaysAfterInitiation") or 0),
                int((rule.get("NoncurrentVersionExpiration") or {}).get("NoncurrentDays") or 0),
            )
        )
    return tuple(found)


# -- judged


def judge_store(
    facts: StoreFacts, channels: Sequence[str], *, serves: bool, role: str
) -> tuple[Condition, ...]:
    """How the store stands; it `serves` where the profile changes the `channels`, given by their prefixes."""
    if isinstance(facts.listed, Unasked):
        first = facts.listed.condition("store")
        return (first,) if facts.listed.wrong else (first, _judge_public(facts))
    found = [Condition("store", "ok", f"{facts.address} answers, and can be listed")]
    if isinstance(facts.written, Unasked):
        found.append(facts.written.condition("store-write"))
    else:
        detail = f"a probe was written and removed with the credentials here, not with {role}"
        found.append(Condition("store-write", "ok", detail))
    return (*found, _judge_public(facts), *_judge_lifetimes(facts, channels if serves else ()))


def _judge_public(facts: StoreFacts) -> Condition:
    if isinstance(facts.public, Unasked):
        return facts.public.condition("store-public")
    url, readable = facts.public
    if readable:
        return Condition("store-public", "ok", f"{url} can be read without credentials")
    bucket = facts.address.partition("://")[2].partition("/")[0]
    return Condition(
        "store-public",
        "missing",
        f"{url} cannot be read without credentials, so nobody can install from this store",
        f"aws s3api put-bucket-policy --bucket {bucket} --policy file://bucket-policy.json",
    )


def kept(prefix: str, channels: Sequence[str]) -> tuple[str, ...]:
    """Beginnings of keys that no rule of a bucket may end: what channels and sets are made of."""
    return tuple(f"{prefix}{one}" for one in ("files/", "sets/", PINS, *(f"{name}/" for name in channels)))


def _judge_lifetimes(facts: StoreFacts, channels: Sequence[str]) -> tuple[Condition, ...]:
    bucket = facts.address.partition("://")[2].partition("/")[0]
    if isinstance(facts.rules, Unasked):
        return (facts.rules.condition("store-lifetimes"),)
    found = []
    for rule in facts.rules:
        ends = [one for one in kept(facts.prefix, channels) if channels and _meet(rule.prefix, one)]
        if rule.expires and ends:
            what = f"what begins with {rule.prefix!r}" if rule.prefix else "everything"
            found.append(
                Condition(
                    "store-lifetimes",
                    "wrong",
                    f"a rule deletes {what} after {rule.expires} days: {', '.join(ends)} is served",
                    "take Expiration out of that rule; `rocwright set gc --delete` knows what nothing holds",
                    rule.prefix or "everything",
                )
            )
    if not any(rule.aborts and facts.prefix.startswith(rule.prefix) for rule in facts.rules):
        found.append(
            Condition(
                "store-lifetimes",
                "missing",
                "no rule ends uploads that were broken off: their parts are paid for, and never seen",
                f"aws s3api put-bucket-lifecycle-configuration --bucket {bucket} "
                "--lifecycle-configuration file://lifecycle.json",
                "uploads",
            )
        )
    if facts.versioned is True and not any(rule.old_versions for rule in facts.rules):
        detail = "the bucket keeps versions and no rule ends old ones: nothing that is deleted goes"
        step = "add NoncurrentVersionExpiration to a rule"
        found.append(Condition("store-lifetimes", "note", detail, step, "versions"))
    if isinstance(facts.versioned, Unasked):
        found.append(facts.versioned.condition("store-lifetimes", "versions"))
    return tuple(found) or (Condition("store-lifetimes", "ok", "broken uploads end, what is served stays"),)


def _meet(one: str, other: str) -> bool:
    return one.startswith(other) or other.startswith(one)

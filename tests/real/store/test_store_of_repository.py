"""The bucket and the role of a repository: as the guide makes them, and where a part of it was skipped.

S3, IAM and STS are moto's server, GitHub an imitation; the documents are those of the guide, word for word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from real.store.servers import KEY, SECRET, S3Server, use
from unit.pipeline.doctor.imitation import TOKEN, Imitation, imitated
from unit.pipeline.doctor.visits import PATHS, of, visited

GUIDE = Path(__file__).resolve().parents[3] / "docs/how-to/github-day-one.md"
DOCUMENTS = re.findall(r"```json\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
BUCKET_POLICY, LIFECYCLE, TRUST, RIGHTS = DOCUMENTS


@dataclass
class Account:
    """A bucket in an account of moto's, and the repository that names both."""

    server: S3Server
    github: Imitation
    bucket: str

    def client(self, service: str) -> Any:
        return boto3.client(
            service,
            endpoint_url=self.server.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )

    def document(self, text: str) -> str:
        """A document of the guide for this bucket and this repository."""
        return text.replace("my-wheels", self.bucket).replace("OWNER/", "me/")

    def ask(self) -> tuple[bool, list[dict[str, Any]]]:
        return visited("nightly")

    def trust(self, text: str, longest: int = 43200) -> None:
        """The role, trusting whom the document says."""
        self.client("iam").create_role(
            RoleName=f"nightly-{self.bucket}", AssumeRolePolicyDocument=text, MaxSessionDuration=longest
        )


@pytest.fixture
def account(moto: S3Server, monkeypatch: pytest.MonkeyPatch) -> Iterator[Account]:
    use(monkeypatch, moto.environment())
    for name in ("GITHUB_TOKEN", "GITHUB_REPOSITORY", "GITHUB_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    with imitated() as github:
        bucket = moto.new_bucket()
        github.workflows = dict.fromkeys(PATHS, "active")
        github.variables = {
            "ROCWRIGHT_SOURCES": "miniature",
            "ROCWRIGHT_STORE": f"s3://{bucket}/rocm",
            "ROCWRIGHT_NIGHTLY_ROLE": f"arn:aws:iam::123456789012:role/nightly-{bucket}",
        }
        monkeypatch.setenv("GITHUB_API_URL", github.url)
        monkeypatch.setenv("GH_TOKEN", TOKEN)
        yield Account(moto, github, bucket)


def verdicts(found: list[dict[str, Any]]) -> dict[str, str]:
    return {one["id"]: one["verdict"] for one in found if one["id"].startswith(("store", "role"))}


def test_a_bucket_and_a_role_as_the_guide_makes_them(account: Account) -> None:
    s3 = account.client("s3")
    s3.put_bucket_policy(Bucket=account.bucket, Policy=account.document(BUCKET_POLICY))
    s3.put_bucket_lifecycle_configuration(Bucket=account.bucket, LifecycleConfiguration=json.loads(LIFECYCLE))
    account.trust(account.document(TRUST))
    well, found = account.ask()
    assert verdicts(found) == dict.fromkeys(
        ("store", "store-write", "store-public", "store-lifetimes", "role"), "ok"
    )
    assert well
    # The probe is gone.
    assert s3.list_objects_v2(Bucket=account.bucket)["KeyCount"] == 0
    # Of a page that is served the doctor needs no probe.
    s3.put_object(Bucket=account.bucket, Key="rocm/v2/index.html", Body=b"<!DOCTYPE html>")
    assert of(account.ask()[1], "store-public")["detail"].partition(" ")[0].endswith("/rocm/v2/index.html")
    assert json.loads(account.document(RIGHTS))["Statement"][1]["Resource"].startswith("arn:aws:s3:::wheels-")


def test_a_bucket_and_a_role_of_which_half_is_missing(account: Account) -> None:
    well, found = account.ask()
    assert not well
    assert verdicts(found) == {
        "store": "ok",
        "store-write": "ok",
        "store-public": "missing",
        "store-lifetimes": "missing",
        "role": "wrong",
    }
    assert of(found, "role")["detail"].startswith("there is no role nightly-wheels-")
    account.trust(account.document(TRUST).replace("me/rocwright", "you/rocwright"), longest=3600)
    roles = [one["next_step"].split()[2] for one in account.ask()[1] if one["id"] == "role"]
    assert roles == ["update-assume-role-policy", "update-role"]
    del account.github.variables["ROCWRIGHT_NIGHTLY_ROLE"]
    assert of(account.ask()[1], "role")["verdict"] == "missing"


def test_a_bucket_that_may_only_be_read(account: Account) -> None:
    s3 = account.client("s3")
    policy = json.loads(account.document(BUCKET_POLICY))
    resource = f"arn:aws:s3:::{account.bucket}/*"
    policy["Statement"].append(
        {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObject", "Resource": resource}
    )
    s3.put_bucket_policy(Bucket=account.bucket, Policy=json.dumps(policy))
    well, found = account.ask()
    assert not well
    condition = of(found, "store-write")
    assert condition["verdict"] == "wrong"
    assert "s3:PutObject" in condition["next_step"]
    assert of(found, "store-public")["verdict"] == "unlooked"


def test_a_rule_that_would_delete_what_people_install(account: Account) -> None:
    rules = json.loads(LIFECYCLE)
    rules["Rules"].append(
        {"ID": "x", "Status": "Enabled", "Filter": {"Prefix": "rocm/"}, "Expiration": {"Days": 14}}
    )
    s3 = account.client("s3")
    s3.put_bucket_lifecycle_configuration(Bucket=account.bucket, LifecycleConfiguration=rules)
    s3.put_bucket_versioning(Bucket=account.bucket, VersioningConfiguration={"Status": "Enabled"})
    condition = of(account.ask()[1], "store-lifetimes")
    assert (condition["verdict"], condition["about"]) == ("wrong", "rocm/")


def test_a_bucket_that_is_not_there(account: Account) -> None:
    account.github.variables["ROCWRIGHT_STORE"] = "s3://nobodys-bucket/rocm"
    well, found = account.ask()
    assert not well
    assert of(found, "store")["detail"] == "there is no bucket for s3://nobodys-bucket/rocm"


def test_without_credentials_only_what_everybody_may_is_looked_at(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("HOME", "/nonexistent")
    s3 = account.client("s3")
    assert verdicts(account.ask()[1]) == dict.fromkeys(("store", "store-public", "role"), "unlooked")
    s3.put_bucket_policy(Bucket=account.bucket, Policy=account.document(BUCKET_POLICY))
    s3.put_object(Bucket=account.bucket, Key="rocm/v2/index.html", Body=b"<!DOCTYPE html>")
    well, found = account.ask()
    assert verdicts(found) == {"store": "unlooked", "store-public": "ok", "role": "unlooked"}
    assert well


def test_a_probe_that_may_not_be_removed_is_named(account: Account) -> None:
    policy = json.loads(account.document(BUCKET_POLICY))
    resource = f"arn:aws:s3:::{account.bucket}/*"
    policy["Statement"].append(
        {"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject", "Resource": resource}
    )
    account.client("s3").put_bucket_policy(Bucket=account.bucket, Policy=json.dumps(policy))
    well, found = account.ask()
    assert not well
    condition = of(found, "store-write")
    assert "was written and not removed" in condition["detail"]
    assert "s3:DeleteObject" in condition["next_step"]
    assert "then remove _probe/" in condition["next_step"]

"""What the doctor says of a store and of a role, by facts as S3 and IAM tell them."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Any

import msgspec
import pytest

from rocwright.pipeline.doctor.bucket import LifeRule, StoreFacts, judge_store, read_rules
from rocwright.pipeline.doctor.conditions import CONDITIONS, Condition, Unasked
from rocwright.pipeline.doctor.role import ISSUER, RoleFacts, ask_role, judge_role, trust_problems
from rocwright.pipeline.doctor.variables import longest_role

NOBODY = Unasked("nobody says", "ask somebody")
WELL = StoreFacts(
    address="s3://wheels/rocm",
    prefix="rocm/",
    listed="s3://wheels/rocm",
    written="_probe/0/doctor.txt",
    public=("https://wheels.example/rocm/v2/index.html", True),
    rules=(LifeRule("", aborts=7, old_versions=30),),
    versioned=True,
)
CHANNELS = ("v2-staging", "v2")


def judged(*, serves: bool = True, **changes: Any) -> dict[tuple[str, str], Condition]:
    facts = StoreFacts(**{**msgspec.structs.asdict(WELL), **changes})
    found = judge_store(facts, CHANNELS, serves=serves, role="ROCWRIGHT_NIGHTLY_ROLE")
    return {(one.id, one.about): one for one in found}


def test_a_store_that_is_well() -> None:
    assert {key: one.verdict for key, one in judged().items()} == {
        ("store", ""): "ok",
        ("store-write", ""): "ok",
        ("store-public", ""): "ok",
        ("store-lifetimes", ""): "ok",
    }
    # With whose credentials, since they are not the role's.
    assert "not with ROCWRIGHT_NIGHTLY_ROLE" in judged()["store-write", ""].detail


def test_a_store_that_does_not_answer_is_one_finding() -> None:
    why = Unasked("there is no bucket for s3://wheels/rocm", "create it", wrong=True)
    found = judged(listed=why)
    assert list(found) == [("store", "")]
    assert found["store", ""].finding is not None


def test_a_bucket_that_only_some_may_read() -> None:
    condition = judged(public=("https://wheels.example/rocm/v2/index.html", False))["store-public", ""]
    assert condition.verdict == "missing"
    assert condition.next_step == (
        "aws s3api put-bucket-policy --bucket wheels --policy file://bucket-policy.json"
    )


@pytest.mark.parametrize(
    ("prefix", "ends"),
    [
        ("", "rocm/files/, rocm/sets/, rocm/pins/, rocm/v2-staging/, rocm/v2/"),
        ("rocm/", "rocm/files/, rocm/sets/, rocm/pins/, rocm/v2-staging/, rocm/v2/"),
        ("rocm/files/ab", "rocm/files/"),
        ("rocm/v2", "rocm/v2-staging/, rocm/v2/"),
    ],
)
def test_a_rule_that_deletes_what_is_served(prefix: str, ends: str) -> None:
    rules = (*WELL.rules, LifeRule(prefix, expires=14))
    condition = judged(rules=rules)["store-lifetimes", prefix or "everything"]
    assert condition.verdict == "wrong"
    assert f"after 14 days: {ends} is served" in condition.detail
    # A store of runs alone may end as it likes.
    assert ("store-lifetimes", "") in judged(rules=rules, serves=False)


def test_a_rule_beside_what_is_served_is_nobodys_business() -> None:
    rules = (*WELL.rules, LifeRule("logs/", expires=14), LifeRule("rocm/_probe/", expires=1))
    assert judged(rules=rules)["store-lifetimes", ""].verdict == "ok"


def test_broken_uploads_that_never_end() -> None:
    assert judged(rules=())["store-lifetimes", "uploads"].verdict == "missing"
    # One for another part of the bucket is none for this store.
    assert judged(rules=(LifeRule("other/", aborts=1),))["store-lifetimes", "uploads"].verdict == "missing"
    assert judged(rules=(LifeRule("", aborts=1),))["store-lifetimes", "versions"].verdict == "note"


def test_what_could_not_be_asked_is_no_fault() -> None:
    found = judged(written=NOBODY, public=NOBODY, rules=NOBODY, versioned=NOBODY)
    assert [one.verdict for one in found.values()] == ["ok", "unlooked", "unlooked", "unlooked"]
    assert all(one.finding is None for one in found.values())


def test_rules_as_s3_tells_them() -> None:
    said = [
        {"ID": "a", "Status": "Enabled", "Prefix": "old/", "Expiration": {"Days": 3}},
        {"ID": "b", "Status": "Disabled", "Filter": {"Prefix": ""}, "Expiration": {"Days": 3}},
        {"ID": "c", "Status": "Enabled", "Filter": {"And": {"Prefix": "x/", "Tags": []}}},
        {"ID": "d", "Status": "Enabled", "Filter": {}, "Expiration": {"Date": "2027-01-01"}},
        {
            "ID": "e",
            "Status": "Enabled",
            "Filter": {"Prefix": "y/"},
            "Expiration": {"ExpiredObjectDeleteMarker": True},
            "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 7},
            "NoncurrentVersionExpiration": {"NoncurrentDays": 30},
        },
    ]
    assert read_rules(said) == (
        LifeRule("old/", expires=3),
        LifeRule("x/"),
        LifeRule("", expires=1),
        LifeRule("y/", aborts=7, old_versions=30),
    )


# -- the role


def trust(subject: object, *, operator: str = "StringEquals", issuer: str = ISSUER) -> dict[str, Any]:
    audience = {f"{issuer}:aud": "sts.amazonaws.com"}
    condition: dict[str, Any] = {"StringEquals": audience}
    if subject is not None:
        condition.setdefault(operator, {})[f"{issuer}:sub"] = subject
    return {
        "Version": "2012-10-17",
        "Statement": [
            {
                "Effect": "Allow",
                "Principal": {"Federated": f"arn:aws:iam::123456789012:oidc-provider/{issuer}"},
                "Action": "sts:AssumeRoleWithWebIdentity",
                "Condition": condition,
            }
        ],
    }


MAIN = "repo:me/rocwright:ref:refs/heads/main"
WILD = "repo:me/rocwright:*"


@pytest.mark.parametrize(
    ("policy", "said"),
    [
        (trust(MAIN), []),
        (trust([MAIN, "repo:me/rocwright:pull_request"]), []),
        (trust(WILD, operator="StringLike"), []),
        (trust(MAIN, operator="ForAnyValue:StringEquals"), []),
        # An asterisk is one only for StringLike: nobody gets in.
        (trust(WILD), [f"does not trust {MAIN}; it trusts {WILD} (StringEquals)"]),
        (trust("repo:Me/rocwright:*", operator="StringLike"), [f"does not trust {MAIN}"]),
        (trust("repo:you/rocwright:*", operator="StringLike"), [f"does not trust {MAIN}"]),
        (trust("repo:me/*", operator="StringLike"), ["trusts repo:me/*, which fits other repositories"]),
        (trust("repo:me/rocwright*", operator="StringLike"), ["which fits other repositories"]),
        (trust("*", operator="StringLike"), ["trusts *, which fits other repositories"]),
        (trust(None), ["asks for no sub, so every repository on GitHub can take it"]),
        # Also holds for a token that has no such claim.
        (trust(MAIN, operator="ForAllValues:StringEquals"), ["asks for no sub"]),
        (trust(MAIN, issuer="accounts.google.com"), [f"does not trust {ISSUER}"]),
        ({"Version": "2012-10-17", "Statement": []}, [f"does not trust {ISSUER}"]),
        ({}, [f"does not trust {ISSUER}"]),
    ],
)
def test_whom_a_role_trusts(policy: dict[str, Any], said: list[str]) -> None:
    found = list(trust_problems(policy, "me/rocwright", "main", ISSUER))
    assert len(found) == len(said), found
    assert all(part in text for part, text in zip(said, found, strict=True)), found


def test_a_role_without_an_audience() -> None:
    policy = trust(MAIN)
    del policy["Statement"][0]["Condition"]["StringEquals"][f"{ISSUER}:aud"]
    found = list(trust_problems(policy, "me/rocwright", "main", ISSUER))
    assert found == ["does not ask for the audience sts.amazonaws.com"]


def test_a_role_that_is_had_for_less_than_a_job_needs() -> None:
    def judge(longest: int) -> list[str]:
        found = judge_role(
            "arn:aws:iam::123456789012:role/ci",
            RoleFacts(trust(MAIN), 3600),
            variable="ROCWRIGHT_CI_ROLE",
            repository="me/rocwright",
            branch="main",
            issuer=ISSUER,
            longest=longest,
        )
        return [one.next_step for one in found]

    assert judge(3600) == [""]
    assert judge(36000) == ["aws iam update-role --role-name ci --max-session-duration 36000"]


@pytest.mark.parametrize("arn", ["ci", "arn:aws:iam::12:role/ci", "arn:aws:iam::123456789012:user/ci"])
def test_what_is_no_role(arn: str) -> None:
    found = ask_role(arn, {})
    assert isinstance(found, Unasked)
    assert found.wrong


def test_a_role_is_asked_for_as_long_as_the_workflows_say() -> None:
    files = {
        PurePosixPath("a.yml"): "        seconds: 14400\n    role-duration-seconds: '900'\n",
        PurePosixPath("b.yml"): "        seconds: ${{ vars.BIG && 25200 || 21600 }}\n",
    }
    assert longest_role(files, {}) == 21600
    assert longest_role(files, {"BIG": "my-label"}) == 25200
    assert longest_role({}, {}) == 3600


def test_every_condition_is_one_of_the_table() -> None:
    assert len({row.id for row in CONDITIONS}) == len(CONDITIONS) == 14

"""The role that a profile writes with: asked of AWS where there are credentials, and judged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

import msgspec

from rocwright.pipeline.doctor.bucket import NO_BOTO3, NO_CREDENTIALS, PATIENCE
from rocwright.pipeline.doctor.conditions import Condition, Unasked
from rocwright.pipeline.setup.publication import has_credentials

# By GitHub's documentation of OpenID Connect in AWS.
ISSUER, AUDIENCE = "token.actions.githubusercontent.com", "sts.amazonaws.com"
_ARN = re.compile(
    r"arn:(aws[a-z-]*):iam::(?P<account>[0-9]{12}):role/(?:[\w+=,.@/-]*/)?(?P<name>[\w+=,.@-]+)"
)
_COMPARE = ("StringEquals", "StringLike", "StringEqualsIgnoreCase")
_ASSUME = "sts:AssumeRoleWithWebIdentity"


class RoleFacts(msgspec.Struct, frozen=True):
    """A role as AWS tells it: whom it `trusts`, and for how many seconds it can be had at most."""

    trust: Mapping[str, Any]
    longest: int


def ask_role(arn: str, environment: Mapping[str, str]) -> RoleFacts | Unasked:
    """What AWS knows of the role of this ARN; `Unasked` where that cannot be known from here."""
    found = _ARN.fullmatch(arn)
    if found is None:
        return Unasked(
            f"{arn!r} is not the ARN of a role", "write arn:aws:iam::ACCOUNT:role/NAME", wrong=True
        )
    if not has_credentials(environment):
        return NO_CREDENTIALS
    try:
        import boto3
        from botocore.config import Config
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        return NO_BOTO3
    try:
        # IAM is in no region; a client wants one all the same.
        session = boto3.Session(region_name=environment.get("AWS_REGION") or "us-east-1")
        account = session.client("sts", config=Config(**PATIENCE)).get_caller_identity()["Account"]
        if account != found["account"]:
            return Unasked(
                f"these credentials are of account {account}, and the role is of {found['account']}",
                "set AWS_PROFILE to that account",
            )
        iam = session.client("iam", config=Config(**PATIENCE))
        role = iam.get_role(RoleName=found["name"])["Role"]
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        if code == "NoSuchEntity":
            return Unasked(
                f"there is no role {found['name']} in account {found['account']}",
                f"aws iam create-role --role-name {found['name']} "
                "--assume-role-policy-document file://trust.json --max-session-duration 43200",
                wrong=True,
            )
        return Unasked(f"AWS does not tell it ({code})", "give these credentials the right iam:GetRole")
    except BotoCoreError as error:
        return Unasked(f"AWS was not reached ({type(error).__name__})", "see AWS_PROFILE and the network")
    return RoleFacts(role.get("AssumeRolePolicyDocument") or {}, int(role.get("MaxSessionDuration") or 3600))


# -- judged


def judge_role(
    arn: str,
    facts: RoleFacts | Unasked,
    *,
    variable: str,
    repository: str,
    branch: str,
    issuer: str,
    longest: int,
) -> tuple[Condition, ...]:
    """Whether jobs of the repository can take the role, and nobody else's; `longest` as a job asks for it."""
    if isinstance(facts, Unasked):
        return (facts.condition("role", variable),)
    found = _ARN.fullmatch(arn)
    name = found["name"] if found else arn
    update = f"aws iam update-assume-role-policy --role-name {name} --policy-document file://trust.json"
    problems = [
        Condition("role", "wrong", f"{name} {why}", update, variable)
        for why in trust_problems(facts.trust, repository, branch, issuer)
    ]
    if facts.longest < longest:
        problems.append(
            Condition(
                "role",
                "wrong",
                f"{name} can be had for {facts.longest} s, and a job asks for {longest} s: it is refused",
                f"aws iam update-role --role-name {name} --max-session-duration {longest}",
                variable,
            )
        )
    return tuple(problems) or (Condition("role", "ok", f"{name} trusts {repository}", about=variable),)


def trust_problems(policy: Mapping[str, Any], repository: str, branch: str, issuer: str) -> Iterator[str]:
    """What is wrong with whom a role trusts: a document as `AssumeRolePolicyDocument` is one."""
    statements = [one for one in _listed(policy.get("Statement")) if _federated(one, issuer)]
    if not statements:
        yield f"does not trust {issuer}: no job of GitHub can take it"
        return
    subjects = [claim for one in statements for claim in _claims(one, issuer, "sub")]
    audiences = [claim for one in statements for claim in _claims(one, issuer, "aud")]
    if not any(claim.fits(AUDIENCE) for claim in audiences):
        yield f"does not ask for the audience {AUDIENCE}"
    if any(not _claims(one, issuer, "sub") for one in statements):
        yield "asks for no sub, so every repository on GitHub can take it"
        return
    wanted = f"repo:{repository}:ref:refs/heads/{branch}"
    if not any(claim.fits(wanted) for claim in subjects):
        yield f"does not trust {wanted}; it trusts {', '.join(map(str, subjects))}"
    for claim in subjects:
        if any(claim.fits(f"repo:{one}:ref:refs/heads/main") for one in _strangers(repository)):
            yield f"trusts {claim}, which fits other repositories, too"


def _strangers(repository: str) -> tuple[str, ...]:
    """Repositories that somebody could make: what fits one of them lets others in."""
    owner, _, name = repository.partition("/")
    return (f"{owner}-x/{name}", f"x-{owner}/{name}", f"{owner}/{name}-x", f"{owner}/x", f"x/{name}", "x/y")


class _Claim(msgspec.Struct, frozen=True):
    """What a claim has to be: a text, or with StringLike a pattern of * and ?."""

    operator: str
    text: str

    def __str__(self) -> str:
        return self.text if self.operator == "StringLike" else f"{self.text} ({self.operator})"

    def fits(self, value: str) -> bool:
        """Whether a token with this value gets through."""
        if self.operator == "StringLike":
            pattern = re.escape(self.text).replace(r"\*", ".*").replace(r"\?", ".")
            return re.fullmatch(pattern, value) is not None
        if self.operator == "StringEqualsIgnoreCase":
            return self.text.lower() == value.lower()
        return self.text == value


def _federated(statement: Mapping[str, Any], issuer: str) -> bool:
    principal = statement.get("Principal")
    named = _listed(principal.get("Federated")) if isinstance(principal, Mapping) else []
    return (
        statement.get("Effect") == "Allow"
        and any(fnmatchcase(_ASSUME, str(one)) for one in _listed(statement.get("Action")))
        and any(str(one).partition("oidc-provider/")[2] == issuer for one in named)
    )


def _claims(statement: Mapping[str, Any], issuer: str, name: str) -> list[_Claim]:
    """What a claim may be, by the operators that compare texts."""
    found: list[_Claim] = []
    for said, keys in (statement.get("Condition") or {}).items():
        quantity, _, operator = said.rpartition(":")
        # `ForAllValues:` also holds where the claim is not there.
        if quantity == "ForAllValues" or operator not in _COMPARE or not isinstance(keys, Mapping):
            continue
        for key, values in keys.items():
            if key.lower() == f"{issuer}:{name}".lower():
                found += (_Claim(operator, str(value)) for value in _listed(values))
    return found


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [] if value is None else [value]

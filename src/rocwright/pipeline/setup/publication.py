"""What a run may publish: decided once, from the profile, the store, the event and the credentials."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rocwright.errors import InvalidInput
from rocwright.model.plan import Choice, Profile, Publication
from rocwright.pipeline.define.inputs import STORE, carries
from rocwright.pipeline.setup.event import from_fork

_ROLES = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)
_PROFILE_FILES = ("AWS_SHARED_CREDENTIALS_FILE", "AWS_CONFIG_FILE")


def publication(
    profile: Profile, choice: Choice, store_address: str | None, environment: Mapping[str, str]
) -> Publication:
    """What the run may write. `store_address` is None for the folder in the run's own directory.

    `environment` holds the variables of the machine, those of a workflow's event among them. Whatever is
    refused is told in `why`; only a fork and missing credentials stop the run's own uploads, and an event
    that cannot be read counts as a fork's.
    """
    if store_address is None and carries(environment):
        # Whoever proposes a change from elsewhere is told that first; nothing of it is anybody's to publish.
        why = _fork(environment) or f"no store is named (the variable {STORE} of the repository)"
        return Publication(True, False, f"{why}: results are artifacts of this run, and nothing is published")
    if store_address is None:
        if profile.publish == "never":
            return Publication(True, False, f"the profile {profile.name} publishes nothing")
        return Publication(True, True)
    fork = _fork(environment)
    if fork:
        return Publication(False, False, f"{fork}: nothing is uploaded")
    if _is_s3(store_address) and not has_credentials(environment):
        why = "there are no credentials for the store (AWS_… variables, AWS_PROFILE): nothing is uploaded"
        return Publication(False, False, why)
    if not profile.stage:
        return Publication(True, False, f"the profile {profile.name} names no channel")
    if profile.publish != "asked":
        what = "publishes nothing" if profile.publish == "never" else "publishes to a run's own folder only"
        return Publication(True, False, f"the profile {profile.name} {what}")
    if not choice.publish:
        return Publication(True, False, "channels are changed only with --publish")
    return Publication(True, True)


def has_credentials(environment: Mapping[str, str]) -> bool:
    """Whether anything says how to sign requests to S3: keys, a role, or a profile.

    The role of a virtual machine stands in no variable: AWS_SKIP_SIGNATURE=false says that there is a role.
    """
    if environment.get("AWS_ACCESS_KEY_ID"):
        return bool(environment.get("AWS_SECRET_ACCESS_KEY"))
    if environment.get("AWS_SKIP_SIGNATURE", "").lower() in ("false", "0", "no", "off"):
        return True
    if any(environment.get(name) for name in (*_ROLES, "AWS_PROFILE")):
        return True
    home = environment.get("HOME")
    usual = [Path(home) / ".aws" / name for name in ("credentials", "config")] if home else []
    named = [Path(environment[name]) for name in _PROFILE_FILES if environment.get(name)]
    return any(path.is_file() for path in (*named, *usual))


def _fork(environment: Mapping[str, str]) -> str:
    try:
        return "the pull request is a fork's" if from_fork(environment) else ""
    except InvalidInput as error:
        return f"the event cannot be read ({error.what})"


def _is_s3(address: str) -> bool:
    return address.lower().startswith("s3://")

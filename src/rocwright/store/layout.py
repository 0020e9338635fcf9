"""Where things stand in a store: every key is made here, from validated parts.

The run and channel layouts are those that users of ROCm's CI and nightly indexes know:
`{external_repo}{run_id}-{platform}/{python,pytorch}/{artifact_group}/` and `{v2-staging,v2}/{family}/`.
"""

from __future__ import annotations

import re
from typing import Literal

from rocwright.errors import InvalidInput
from rocwright.system.files import PARTIAL

Kind = Literal["python", "pytorch"]
KINDS: tuple[Kind, ...] = ("python", "pytorch")
PLATFORMS = ("linux", "windows")
STAGING = "v2-staging"
RELEASE = "v2"
# Under a channel: which sets it lists. A channel's pages are rendered from it, never from a listing.
CHANNEL_LOG = "channel.json"

_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_KEY_PART = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+!-]*")


def check_key(key: str) -> str:
    """The key itself, when it is relative, without `..`, backslashes or empty parts; else `InvalidInput`."""
    parts = key.split("/")
    if any(_KEY_PART.fullmatch(part) is None for part in parts) or key.endswith(PARTIAL):
        raise InvalidInput(
            f"{key!r} is no valid key of a store",
            next_step="join parts of letters, digits and . _ + ! - by /; each starts with a letter or digit",
        )
    return key


def _part(value: str, what: str) -> str:
    if _PART.fullmatch(value) is None or ".." in value:
        raise InvalidInput(
            f"{value!r} is no valid {what}",
            next_step=f"give a {what} of letters, digits, dots, dashes and underscores",
        )
    return value


def run_prefix(
    run_id: str, platform: str, kind: Kind, artifact_group: str, *, external_repo: str = ""
) -> str:
    """Prefix of one run's packages, ending with `/`.

    `external_repo` is `""` or `owner-repo/` for runs of a fork or another repository. Raises
    `InvalidInput` for parts that could leave their place.
    """
    if platform not in PLATFORMS:
        raise InvalidInput(f"{platform!r} is no platform; known: {', '.join(PLATFORMS)}")
    if kind not in KINDS:
        raise InvalidInput(f"{kind!r} is no kind of package; known: {', '.join(KINDS)}")
    if external_repo:
        if not external_repo.endswith("/"):
            raise InvalidInput(f"external repository {external_repo!r} must end with /")
        external_repo = _part(external_repo[:-1], "external repository") + "/"
    run = f"{_part(run_id, 'run id')}-{platform}"
    return f"{external_repo}{run}/{kind}/{_part(artifact_group, 'artifact group')}/"


def channel_prefix(channel: str, family: str) -> str:
    """Prefix of a family in a channel, ending with `/`: `v2-staging/<family>/` or `v2/<family>/`."""
    if channel not in (STAGING, RELEASE):
        raise InvalidInput(f"{channel!r} is no channel; known: {STAGING}, {RELEASE}")
    return f"{channel}/{_part(family, 'GPU family')}/"


def staging_prefix(family: str) -> str:
    """`v2-staging/<family>/`: checked, not yet tested."""
    return channel_prefix(STAGING, family)


def release_prefix(family: str) -> str:
    """`v2/<family>/`: promoted."""
    return channel_prefix(RELEASE, family)


def set_prefix(set_digest: str) -> str:
    """`sets/<id>/`: the manifest of a set and the statements about it."""
    return f"sets/{_part(set_digest, 'set id')}/"

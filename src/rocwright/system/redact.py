"""What of a command may be shown: values of secret-looking names, and logins in addresses, may not."""

from __future__ import annotations

import re
from collections.abc import Mapping

# GIT_CONFIG_VALUE_0 and so on carry settings of git, headers with a login among them.
_SECRET = re.compile(
    r"TOKEN|SECRET|PASSWORD|CREDENTIAL|(API|SIGNING|PRIVATE)_?KEY|_AUTH|GIT_CONFIG_VALUE", re.IGNORECASE
)
_SECRET_OPTION = re.compile(
    r"^(--?[\w-]*(?:token|secret|password|api-?key)[\w-]*=).*", re.IGNORECASE | re.DOTALL
)
_SECRET_LENGTH = 8
_URL_LOGIN = re.compile(r"(?<=://)[^/\s]+@")


def redact(env: Mapping[str, str]) -> dict[str, str]:
    """A copy of `env` in which the values of secret-looking names are `***`."""
    return {key: "***" if _SECRET.search(key) else value for key, value in sorted(env.items())}


def secrets_in(env: Mapping[str, str]) -> list[str]:
    """The values of secret-looking names, the longest first; short ones would stand in ordinary text, too.

    Of several lines, as keys have them, each counts by itself: output is shown line by line.
    """
    values = {value for name, value in env.items() if _SECRET.search(name)}
    lines = {line.strip() for value in values for line in value.splitlines()}
    # What frames a key is no secret.
    values |= {line for line in lines if not line.startswith("-----")}
    return sorted(
        (value for value in values if len(value) >= _SECRET_LENGTH), key=lambda value: (-len(value), value)
    )


def without_secret(word: str) -> str:
    """A word of a command line; what an option named after a secret is given becomes `***`."""
    return _SECRET_OPTION.sub(r"\1***", word)


def without_login(text: str) -> str:
    """Text in which the logins of addresses are `***`."""
    return _URL_LOGIN.sub("***@", text) if "://" in text else text

"""What of a command may be shown: values of secret-looking names, and logins in addresses, may not."""

from __future__ import annotations

import re
from collections.abc import Mapping

# GIT_CONFIG_VALUE_0 and so on carry settings of git, headers with a login among them.
_SECRET = re.compile(r"TOKEN|SECRET|PASSWORD|CREDENTIAL|API_?KEY|_AUTH|GIT_CONFIG_VALUE", re.IGNORECASE)
_SECRET_OPTION = re.compile(
    r"^(--?[\w-]*(?:token|secret|password|api-?key)[\w-]*=).*", re.IGNORECASE | re.DOTALL
)
_SECRET_LENGTH = 8
_URL_LOGIN = re.compile(r"(?<=://)[^/\s]+@")


def redact(env: Mapping[str, str]) -> dict[str, str]:
    """A copy of `env` in which the values of secret-looking names are `***`."""
    return {key: "***" if _SECRET.search(key) else value for key, value in sorted(env.items())}


def secrets_in(env: Mapping[str, str]) -> list[str]:
    """The values of secret-looking names, the longest first; short ones would stand in ordinary text, too."""
    values = {value for name, value in env.items() if _SECRET.search(name) and len(value) >= _SECRET_LENGTH}
    return sorted(values, key=lambda value: (-len(value), value))


def without_secret(word: str) -> str:
    """A word of a command line; what an option named after a secret is given becomes `***`."""
    return _SECRET_OPTION.sub(r"\1***", word)


def without_login(text: str) -> str:
    """Text in which the logins of addresses are `***`."""
    return _URL_LOGIN.sub("***@", text) if "://" in text else text

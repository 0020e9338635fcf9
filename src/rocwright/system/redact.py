"""What is secret, by name and by form, and text without it: the one door before logs, records and pages.

Secret are the values of variables and options with the name of a secret, logins and signatures in addresses,
what follows `Authorization:`, and tokens whose form tells what they are.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from urllib.parse import quote

# Words of names, in capitals, as `_` parts them; what only looks like one (COMPASS, PATH, AUTHOR) is none.
_SECRET = re.compile(
    r"SECRET|PASSWORD|PASSWD|PASSPHRASE|PASSCODE|CREDENTIAL|COOKIE|BEARER"
    r"|TOKEN(?!I[SZ])"
    r"|(API|ACCESS|SIGNING|PRIVATE|ENCRYPTION|MASTER|DEPLOY|STORAGE|ACCOUNT|SSH|GPG|HMAC|SAS)_?KEY(?!_(?:ID|FILE|PATH|DIR)(?:_|$))"
    r"|(?:^|[^A-Z])AUTH(?!_SOCK|OR(?!IZ))"
    # What only ends like that: BYPASS, COMPASS, ENCOMPASS, SUBPASS, ASKPASS (a program), TRESPASS.
    r"|(?<!BY)(?<!COM)(?<!SUB)(?<!ASK)(?<!TRES)(?<!MULTI)PASS(?=$|_|[0-9])"
    # PWD and OLDPWD are directories.
    r"|(?<=_)(?<!OLD_)(?<!ORIG_)(?<!INIT_)PWD(?=$|_|[0-9])"
    r"|(?:^|_)PAT(?=$|_|[0-9])"
    r"|JWT(?=$|_|[0-9])"
    r"|(?:^|_)(SAS|SIG|SIGNATURE|CREDS|WEBHOOK|CONNECTION_STRING)(?=$|_|[0-9])"
    # GIT_CONFIG_VALUE_0 and so on carry settings of git, headers with a login among them.
    r"|^GIT_CONFIG_(VALUE|PARAMETERS)"
)
_SHORTEST = 8
_OPTION = re.compile(r"(?P<name>--?[A-Za-z][\w.-]*)(?:=(?P<value>.*))?", re.DOTALL)
_URL_LOGIN = re.compile(r"(?<=://)[^/\s]+@")
# Parameters of addresses: of S3, Google and Azure, and those that servers invent.
_QUERY = re.compile(
    r"(?i)([?&](?:X-(?:Amz|Goog)-(?:Signature|Credential|Security-Token)|AWSAccessKeyId|Signature|sig|se?cret"
    r"|(?:[a-z]+_)*token|(?:[a-z]+_)?api_?key|access_?key|password|passwd|pwd|auth|jwt)=)[^&#\s\"'<>]+"
)
_HEADER = re.compile(
    r"(?i)(authorization[\"']?\s*[:=]\s*[\"']?(?:(?:basic|bearer|token|digest|negotiate)\s+)?"
    r"|(?:private-token|job-token|x-api-key|x-auth-token|x-amz-security-token)[\"']?\s*:\s*[\"']?)"
    r"(?!\*\*\*)[^\s\"',;]+"
)
_COOKIE = re.compile(r"(?i)(\bcookie[\"']?\s*:\s*[\"']?)[^\r\n\"']+")
# What may be a part of a signature, in an address that is written down for good.
_SIGNING = re.compile(r"sig|token|secret|key|credential|password|auth|policy", re.IGNORECASE)
# Their makers gave them these beginnings so that they are found.
_FORMS = re.compile(
    r"\b(?:gh[opsur]_[A-Za-z0-9]{36,}|github_pat_\w{22,}|gl(?:pat|ptt|dt|rt|cbt|soat|ft)-[\w.-]{20,}"
    r"|hf_[A-Za-z0-9]{30,}|npm_[A-Za-z0-9]{36,}|pypi-[\w-]{50,}|xox[abprs]-[\w-]{20,}|AIza[\w-]{35}"
    r"|eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,})"
)
# Looked for first, because a build prints a million lines without any.
_MARKS = (
    "gho_", "ghp_", "ghs_", "ghu_", "ghr_", "github_pat_", "gl", "hf_", "npm_", "pypi-", "xox", "AIza", "eyJ"
)  # fmt: skip
_HEADER_MARKS = ("authorization", "-token", "x-api-key", "cookie")


def is_secret(name: str) -> bool:
    """Whether a variable, option or parameter of this name holds a secret."""
    return _SECRET.search(name.upper().replace("-", "_").replace(".", "_").lstrip("_")) is not None


def signs(parameter: str) -> bool:
    """Whether a parameter of an address may be a part of a signature; more are than a log hides."""
    return _SIGNING.search(parameter) is not None or is_secret(parameter)


def redact(env: Mapping[str, str]) -> dict[str, str]:
    """A copy of `env` in which the values of secret-looking names are `***`."""
    return {key: "***" if is_secret(key) else value for key, value in sorted(env.items())}


def secrets_in(env: Mapping[str, str], argv: Sequence[str] = ()) -> list[str]:
    """The values of secret-looking names and options, the longest first, in all forms that they are shown in.

    Short values would stand in ordinary text, too. Of several lines, as keys have them, each counts by
    itself: output is shown line by line.
    """
    values = {value for name, value in env.items() if is_secret(name)}
    values |= {value for _, value in _options(argv) if value is not None}
    lines = {line.strip() for value in values for line in value.splitlines()}
    # What frames a key is no secret.
    values |= {line for line in lines if not line.startswith("-----")}
    long = {value for value in values if len(value) >= _SHORTEST}
    long |= {form for value in long for form in _forms(value)}
    return sorted(long, key=lambda value: (-len(value), value))


def _forms(value: str) -> Iterable[str]:
    """As addresses, JSON and shells spell it."""
    return quote(value, safe=""), json.dumps(value)[1:-1], shlex.quote(value)


def _options(argv: Sequence[str]) -> list[tuple[int, str | None]]:
    """Of each word of a command, which word's value is secret: `--token=X` its own, `--token X` the next."""
    found: list[tuple[int, str | None]] = []
    for place, word in enumerate(argv):
        option = _OPTION.fullmatch(word)
        if option is None or not is_secret(option["name"].lstrip("-")):
            continue
        if option["value"] is not None:
            found.append((place, option["value"]))
        elif place + 1 < len(argv) and not argv[place + 1].startswith("-"):
            found.append((place + 1, argv[place + 1]))
    return found


def without_secrets(argv: Sequence[str]) -> list[str]:
    """The words of a command; what options named after a secret are given becomes `***`."""
    words = list(argv)
    for place, _ in _options(argv):
        name, equals, _ = words[place].partition("=")
        words[place] = f"{name}=***" if equals and name.startswith("-") else "***"
    return words


def without_login(text: str) -> str:
    """Text in which the logins of addresses are `***`."""
    return _URL_LOGIN.sub("***@", text) if "://" in text else text


def hidden(text: str, secrets: Sequence[str] = ()) -> str:
    """Text in which `secrets` (longest first), and what has the form of one, are `***`."""
    text = without_login(text)
    for secret in secrets:
        text = text.replace(secret, "***")
    lower = text.lower()
    if any(mark in lower for mark in _HEADER_MARKS):
        text = _COOKIE.sub(r"\1***", _HEADER.sub(r"\1***", text))
    if "=" in text and ("?" in text or "&" in text):
        text = _QUERY.sub(r"\1***", text)
    return _FORMS.sub("***", text) if any(mark in text for mark in _MARKS) else text

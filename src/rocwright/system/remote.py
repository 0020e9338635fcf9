"""Repositories elsewhere: their addresses, how far a transfer is, why it failed and what helps."""

from __future__ import annotations

import re
from base64 import b64encode
from typing import NamedTuple
from urllib.parse import unquote

from rocwright.errors import NotOffered, RocwrightError, Unreachable
from rocwright.system import redact

# What passes by itself (a restarted server, a lost connection) is tried again after so many seconds.
PAUSES_S = (0.5, 2.0)

_HTTP_LOGIN = re.compile(r"(?P<scheme>https?://)(?P<login>[^/\s]*)@(?P<host>[^/\s@]*)", re.IGNORECASE)
_SSH_SECRET = re.compile(r"((?:git\+)?ssh(?:\+git)?://[^/:@\s]*):[^/\s]*@", re.IGNORECASE)
_ASKED_TOO_MUCH = re.compile(
    r"not our ref|unadvertised object|remote ref|does not contain|Server does not allow", re.IGNORECASE
)
_PASSING = re.compile(
    r"\b(?:returned error:|HTTP) (?:5\d\d|408|429)|connection (?:was )?(?:refused|reset|closed|abort)"
    r"|timed? ?out|could not resolve (?:host|proxy)|temporary failure in name|network is unreachable"
    r"|failed to connect|couldn't connect|empty reply|early EOF|disconnect|hung up unexpectedly"
    r"|transfer closed|too slow|recv failure|send failure|handshake|SSL_ERROR_SYSCALL"
    r"|stream \d+ was not closed|RPC failed|invalid index-pack output|expected flush"
    r"|broken pipe|of body are still expected",
    re.IGNORECASE | re.MULTILINE,
)
_STEP = re.compile(r"(?:remote: )?(\w+) (?:\w+): +(\d+)%")


class _Refusal(NamedTuple):
    """A failure that comes back every time: how git says it, what to tell the user."""

    said: re.Pattern[str]
    what: str
    next_step: str


_REFUSALS = (
    _Refusal(
        re.compile(
            r"host key verification failed|host identification has changed|no .*host key is known",
            re.IGNORECASE,
        ),
        "the ssh key of the host of {origin} is not known here, or is another one than before",
        "compare its fingerprint with the one that the host publishes, then add it to ~/.ssh/known_hosts",
    ),
    _Refusal(
        re.compile(
            r"authentication failed|could not read (?:username|password)|permission denied \("
            r"|(?:error:|HTTP) (?:401|403|407)|access denied|invalid (?:username|credentials)",
            re.IGNORECASE,
        ),
        "{origin} denies access (some hosts answer so for repositories that do not exist, too)",
        "check the address; for a private repository give git a credential helper or an ssh key, it is never "
        "asked for a password here",
    ),
    _Refusal(
        re.compile(
            r"repository .*not found|(?:error:|HTTP) (?:404|410)|does not appear to be a git repository"
            r"|is this a git repository|repository .*does not exist|could not be found"
            r"|no such file or directory",
            re.IGNORECASE,
        ),
        "there is no repository at {origin}",
        "check the address",
    ),
    _Refusal(
        re.compile(r"certificate", re.IGNORECASE),
        "the certificate of {origin} is not accepted",
        "check this machine's clock and certificate authorities (git's setting http.sslCAInfo names them)",
    ),
)


def is_local(origin: str) -> bool:
    """Whether `origin` is a repository of this machine: a path or a file:// address."""
    if origin.startswith("file://"):
        return True
    # host:path is ssh; C:/path is a Windows drive.
    return "://" not in origin and (re.match(r"[^/\\]{2,}:", origin) is None)


def shown(text: str) -> str:
    """An address, or a message that holds some, with `***` for logins."""
    return redact.without_login(text)


def without_login(origin: str) -> str:
    """`origin` as it may be written down: over http without a login, over ssh without a password."""
    return _SSH_SECRET.sub(r"\1@", _HTTP_LOGIN.sub(r"\g<scheme>\g<host>", origin))


def login_environment(origin: str) -> dict[str, str]:
    """Variables that hand git the login of an http address.

    On the command line, in a configuration or in an error message others could read it.
    """
    found = _HTTP_LOGIN.match(origin)
    if found is None:
        return {}
    user, _, secret = found["login"].partition(":")
    encoded = b64encode(f"{unquote(user)}:{unquote(secret)}".encode()).decode()
    return {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": f"http.{found['scheme']}{found['host']}/.extraHeader",
        "GIT_CONFIG_VALUE_0": f"Authorization: Basic {encoded}",
    }


def progress(line: str) -> str | None:
    """What a line of `git fetch --progress` says for people: `receiving 43 %`; `None` for other lines."""
    found = _STEP.match(line)
    return f"{found[1].lower()} {found[2]} %" if found else None


def reason(tail: str) -> str:
    """The line of what git printed that says why it failed, without logins."""
    lines = [line.strip() for line in tail.splitlines() if line.strip()]
    first = next(
        (line for line in lines if line.startswith(("fatal:", "error:"))), lines[-1] if lines else ""
    )
    return shown(first)


def may_pass(origin: str, tail: str) -> bool:
    """Whether what git printed tells of a failure that may be gone in a moment."""
    if is_local(origin) or _asked_too_much(tail) or any(refusal.said.search(tail) for refusal in _REFUSALS):
        return False
    return _PASSING.search(tail) is not None


def _asked_too_much(tail: str) -> bool:
    return _ASKED_TOO_MUCH.search(tail) is not None and "Could not read from remote" not in tail


def failure(origin: str, tail: str, tries: int = 1) -> RocwrightError:
    """The named error for what git printed when it failed to talk to `origin` (`tries` times)."""
    name = shown(origin)
    if _asked_too_much(tail):
        return NotOffered(f"{name} does not offer what was asked for: {reason(tail)}", where=name)
    for refusal in _REFUSALS:
        if not is_local(origin) and refusal.said.search(tail):
            return Unreachable(
                f"{refusal.what.format(origin=name)}: {reason(tail)}", where=name, next_step=refusal.next_step
            )
    often = f" (tried {tries} times)" if tries > 1 else ""
    return Unreachable(
        f"repository {name} cannot be read{often}: {reason(tail)}",
        where=name,
        next_step="check the address, the network and your access rights, then run again",
    )

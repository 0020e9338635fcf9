"""The signature of a failure: its words without what differs from run to run.

Failures with one signature are taken for one cause, whatever GPU, Python, machine or shard they came from.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from functools import lru_cache
from pathlib import PurePosixPath

import msgspec

from rocwright.model.testing import CaseResult, SignatureTable, infra_kind

_LONGEST = 240
# What a machine printed last is searched for its own causes: so many characters of it.
_TAIL = 20_000
_ENDED = ("crashed", "hung", "memory", "error")

_LETTERS = str.maketrans("0123456789-", "abcdefghijk")
_BACK = str.maketrans("abcdefghijk", "0123456789-")
# A character of the private area; in no message.
_MARK = "\ue000"
_NUMBER = r"(?<![\w.<])[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?%?(?![\w>])"
# In this order: what one leaves behind the next does not take for something else.
_REPLACED: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\x1b\[[0-9;]*[A-Za-z]"), ""),
    (re.compile(r"\b[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}\b|\bGPU-[0-9a-f]{16}\b"), "<uuid>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b0x[0-9a-fA-F]+\b"), "<address>"),
    # Below a directory of temporary files nothing tells anything.
    (
        re.compile(
            r"(?<![\w.])(?:/(?:var/|private/)*(?:tmp|folders)/[^\s'\":,;)\]]*"
            r"|[A-Za-z]:\\[^\s'\":,;)\]]*\\Te?mp\\[^\s'\":,;)\]]*)",
            re.IGNORECASE,
        ),
        "<temporary>",
    ),
    # Of other paths the last part.
    (re.compile(r"(?<![\w.<])(?:~|\.{1,3})?/(?:[^\s'\":,;()\[\]/]+/)*([^\s'\":,;()\[\]/]+)"), r"<path>/\1"),
    (re.compile(r"\b[A-Za-z]:\\(?:[^\s'\":,;()\[\]\\]+\\)*([^\s'\":,;()\[\]\\]+)"), r"<path>/\1"),
    (re.compile(r"(\.py|\.cpp|\.cu|\.h|\.hip|\.cc):\d+(?::\d+)?"), r"\1"),
    (re.compile(r",? (?:at|on|in)? ?\bline \d+"), ""),
    (re.compile(r"\b(cuda|hip|gpu|rank|device|node)([:\[ #-]|id=| = )\s*\d+\b\]?", re.IGNORECASE), r"\1 <n>"),
    (re.compile(r"\b(pid|process|thread|tid|worker|gw)([ =:#]*)\d+\b", re.IGNORECASE), r"\1 <n>"),
    (re.compile(r"\bgfx[0-9]+[0-9a-f]*(?::(?:xnack|sramecc)[+-])*"), "<target>"),
    (re.compile(r"\bsm_\d+\b"), "<target>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,64}\b"), "<hash>"),
    # Codes tell causes apart, all other numbers do not.
    (
        re.compile(r"\b(status|code|signal|errno|error|Signals\.SIG\w+)([: =(]+)(-?\d+)\b", re.IGNORECASE),
        lambda found: f"{found[1]} {_spelled(found[3])}",
    ),
    (re.compile(_NUMBER + r" ?(?:[KMGT]i?B|bytes)\b", re.IGNORECASE), "<size>"),
    (re.compile(_NUMBER), "<n>"),
    (re.compile(r"<n>(?:(?:, ?| ?x ?)<n>)+"), "<n>"),
    (re.compile(r"\s+"), " "),
)
_FRAME = re.compile(r'File "(?P<file>[^"]+)", line \d+ in (?P<function>\S+)')
_PACKAGE = re.compile(r".*[/\\](?:site|dist)-packages[/\\]")


class Signature(msgspec.Struct, frozen=True, order=True):
    """Words of a cause; `infra` is its kind where it is the machine's, else empty."""

    text: str
    infra: str = ""

    @property
    def id(self) -> str:
        """Twelve hex digits that stand for the words."""
        return hashlib.sha256(self.text.encode("utf-8", "surrogatepass")).hexdigest()[:12]


def signature(case: CaseResult, table: SignatureTable) -> Signature:
    """The signature of a result that is bad or flaky.

    A cause of the machine's is its kind alone. What ended its process is told apart by the function that it
    was in, where Python could say that; a message that says nothing by the name of the test.
    """
    searched = case.message
    if case.verdict in _ENDED:
        searched = f"{case.message}\n{case.detail[-_TAIL:]}"
    infra = infra_kind(searched, table)
    if infra:
        return Signature(infra, infra)
    text = normalised(case.message)
    if case.verdict in ("crashed", "hung", "memory"):
        place = "" if case.verdict == "memory" else _function(case.detail, case.file)
        return Signature(f"{case.verdict}: {text} in {place or variant_free(case.id, table)}")
    if case.verdict == "xpassed" or any(
        re.search(pattern, case.message, re.IGNORECASE) for pattern in table.vague
    ):
        return Signature(f"{text} in {variant_free(case.id, table)}")
    return Signature(text)


# A run without a GPU fails ten thousand times with the same words.
@lru_cache(maxsize=4096)
def normalised(message: str) -> str:
    """A message without addresses, paths, numbers and whatever else differs between two runs."""
    text = message.strip()
    for pattern, instead in _REPLACED:
        text = pattern.sub(instead, text)
    # The codes as they were.
    text = re.sub(f"{_MARK}([a-k]+)", lambda found: found[1].translate(_BACK), text)
    text = text.strip()
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


def _spelled(digits: str) -> str:
    """A code in letters, which no later rule takes for a number."""
    return _MARK + digits.translate(_LETTERS)


def variant_free(test: str, table: SignatureTable) -> str:
    """A node id without parameters, and without the devices and data types at its end."""
    head, colons, name = test.partition("[")[0].rpartition("::")
    again = True
    while again:
        again = False
        for ending in table.variants:
            if name.lower().endswith(f"_{ending}") and len(name) > len(ending) + len("test_"):
                name, again = name[: -len(ending) - 1], True
    for device in ("CPU", "CUDA", "META", "XPU"):
        head = head.removesuffix(device) if colons else head
    return head + colons + name


def _function(detail: str, test_file: str) -> str:
    """The innermost function of the thread with the fatal error, as Python's fault handler tells."""
    _, found, stack = detail.rpartition("Current thread")
    if not found:
        return ""
    frame = _FRAME.search(stack.partition("\n\n")[0])
    if frame is None:
        return ""
    path = frame["file"].replace("\\", "/")
    if _PACKAGE.match(path):
        file = _PACKAGE.sub("", path)
    else:
        # Of a checkout in a temporary directory, too, the test file is the same in every run.
        file = (
            f"<path>/{PurePosixPath(test_file).name}" if path.endswith(f"/{test_file}") else normalised(path)
        )
    return f"{file} {frame['function']}"

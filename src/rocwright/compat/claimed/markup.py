"""Text of the compatibility tables, with `code` and [links](address), as Markdown, reStructuredText or plain.

Addresses are those of the web, `doc:PROJECT:PAGE` and `ref:PROJECT:LABEL` of another documentation of ROCm,
and `version:LIBRARY`, the place of a library's version.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

import msgspec

from rocwright.errors import InvalidData

_SPAN = re.compile(r"`(?P<code>[^`]+)`|\[(?P<text>[^]]+)\]\((?P<address>[^)\s]*(?: [^)\s]+)*)\)")


class Markup(msgspec.Struct, frozen=True):
    """What a text needs to become a page: where references lead, and the version of each library.

    `version_set` is the set that reStructuredText refers to instead of a version.
    """

    addresses: Mapping[str, str]
    labels: Mapping[str, str]
    version_set: str
    versions: Mapping[str, str] = msgspec.field(default_factory=dict)

    def web(self, address: str) -> str:
        """Where an address leads on the web; raises `InvalidData` for a project that is not known."""
        kind, _, rest = address.partition(":")
        if kind not in ("doc", "ref"):
            return address
        project, _, page = rest.partition(":")
        if kind == "ref" and rest in self.labels:
            return self.labels[rest]
        if kind == "ref" or project not in self.addresses:
            table = "labels" if kind == "ref" else "addresses"
            raise InvalidData(
                f"a text refers to {address!r}, which is not in [compat.{table}]",
                next_step=f"add {rest if kind == 'ref' else project!r} to [compat.{table}]",
            )
        return f"{self.addresses[project]}{page.lstrip('/')}.html"

    def markdown(self, text: str) -> str:
        """As Markdown."""

        def span(match: re.Match[str]) -> str:
            if match["code"]:
                return match[0]
            if match["address"].startswith("version:"):
                return self._version(match["address"])
            return f"[{match['text']}]({self.web(match['address'])})"

        return _SPAN.sub(span, text)

    def plain(self, text: str) -> str:
        """As plain text: code and links by their words alone."""

        def span(match: re.Match[str]) -> str:
            if match["code"]:
                return match["code"]
            return (
                self._version(match["address"]) if match["address"].startswith("version:") else match["text"]
            )

        return _SPAN.sub(span, text)

    def rst(self, text: str) -> str:
        """As reStructuredText with the roles of ROCm's documentation; versions only by reference."""
        parts: list[str] = []
        end = 0
        for match in _SPAN.finditer(text):
            parts += [_escaped(text[end : match.start()]), self._rst_span(match)]
            end = match.end()
        return "".join([*parts, _escaped(text[end:])])

    def _rst_span(self, match: re.Match[str]) -> str:
        if match["code"]:
            return f"``{match['code']}``"
        kind, _, rest = match["address"].partition(":")
        if kind == "version":
            name = f'"{rest}"' if " " in rest else rest
            return f":version-ref:`{name} {self.version_set}`"
        if kind in ("doc", "ref"):
            # A page without a project is one of ROCm's own documentation.
            return f":{kind}:`{match['text']} <{rest.removeprefix(':')}>`"
        return f"`{match['text']} <{match['address']}>`__"

    def _version(self, address: str) -> str:
        return self.versions.get(address.removeprefix("version:"), "")


def plain(text: str) -> str:
    """A text without markup."""
    return Markup({}, {}, "").plain(text)


def _escaped(text: str) -> str:
    """Text in which nothing is markup to reStructuredText."""
    return re.sub(r"([\\*|]|\b_(?=\W|$)|_\b)", r"\\\1", text)

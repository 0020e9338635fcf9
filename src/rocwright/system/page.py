"""An HTML page for people: one file that asks nobody for anything, whatever stands in it."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib import resources

_PAGE = """<!DOCTYPE html>
<html lang="en"{attributes}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
{head}</header>
<main>
{body}</main>
{script}</body>
</html>
"""


def html_page(title: str, head: str, body: str, *, style: str = "", script: str = "", base: str = "") -> str:
    """The page; `head` and `body` are HTML, `style` comes after that of all, and no script but this can run.

    `base` is the address of what the page belongs to, for scripts and for programs that find the page.
    """
    style = "\n" + shared_style() + style
    allowed = f"script-src '{source(script)}'; " if script else ""
    policy = (
        f"default-src 'none'; img-src data:; style-src '{source(style)}'; {allowed}"
        "base-uri 'none'; form-action 'none'"
    )
    return _PAGE.format(
        attributes=f' data-base="{escape(base)}"' if base else "",
        policy=escape(policy, quote=False),
        title=escape(title),
        style=style,
        head=head,
        body=body,
        script=f"<script>{script}</script>\n" if script else "",
    )


@cache
def shared_style() -> str:
    """What all pages look like, in light and dark."""
    return resources.files("rocwright.system").joinpath("page.css").read_text("utf-8")


def source(text: str) -> str:
    """How a policy names a style or script that stands in the page."""
    return f"sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def linked(value: str) -> str:
    """Text, as a link where it is an address of the web."""
    if value.startswith(("https://", "http://")):
        return f'<a href="{escape(value)}">{escape(value)}</a>'
    return escape(value)


def facts(rows: Sequence[tuple[str, str]]) -> str:
    """Names and values, as text; nothing without any."""
    items = "".join(f"<dt>{escape(name)}</dt><dd>{linked(value)}</dd>\n" for name, value in rows if value)
    return f'<dl class="about">\n{items}</dl>\n' if items else ""


def tiles(counted: Sequence[tuple[str, str, str]]) -> str:
    """Numbers with what they count, and the class of each."""
    items = "".join(
        f'<li><b class="{kind}">{escape(value)}</b><span>{escape(name)}</span></li>\n'
        for value, name, kind in counted
    )
    return f'<ul class="tiles">\n{items}</ul>\n'


# Of a hundred: what is there can be seen, however little it is.
_THIN = 1.0


def shares(parts: Sequence[tuple[str, float]], words: str, *, of: float = 0) -> str:
    """A bar of parts, each with class and size, of a whole (default: all of them); `words` say the same."""
    whole = of or sum(size for _, size in parts) or 1
    wide = [(kind, max(_THIN, 100 * size / whole)) for kind, size in parts if size > 0]
    over = max(1.0, sum(width for _, width in wide) / 100)
    drawn, at = "", 0.0
    for kind, width in wide:
        drawn += f'<rect class="{kind}" x="{at:.1f}" width="{width / over:.1f}" height="8"/>'
        at += width / over
    return (
        '<svg class="bar" viewBox="0 0 100 8" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(words)}">{drawn}</svg>'
    )


def legend(parts: Sequence[tuple[str, str]], words: str) -> str:
    """What the colours of a bar, or marks, stand for: the class and name of each, and what the whole is."""
    named = "".join(f'<span><i class="{kind}"></i> {escape(name)}</span> ' for kind, name in parts)
    return f'<p class="legend">{named}{escape(words)}</p>\n'


def heads(names: Sequence[str], numbers: Sequence[int] = ()) -> str:
    """The cells of a table's head; `numbers` are the columns of numbers."""
    return "".join(
        f'<th scope="col"{" class=number" if at in numbers else ""}>{name}</th>' if name else "<td></td>"
        for at, name in enumerate(names)
    )


def table(head: str, rows: str, label: str) -> str:
    """A table that scrolls by itself where the screen is small."""
    return (
        f'<div class="table" role="region" aria-label="{escape(label)}" tabindex="0">\n<table>\n'
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{rows}</tbody>\n</table>\n</div>\n"
    )

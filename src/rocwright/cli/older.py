"""Older spellings of options that documents still print: accepted, and told in a line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rocwright.system import console

# By command, older to newer. Those whose meaning needs more than a name are told where they are read.
_OLDER: Mapping[tuple[str, ...], Mapping[str, str]] = {
    ("store", "fetch"): {"--target": "--artifact-group"},
    ("test", "setup-venv"): {"--find-links-url": "--find-links"},
}


def tell_older(words: Sequence[str]) -> None:
    """Say a line for each older spelling among the words of a command; they work all the same."""
    older = _OLDER.get(tuple(words[:2]), {})
    own = words[: words.index("--")] if "--" in words else words
    for name in dict.fromkeys(word.partition("=")[0] for word in own):
        if name in older:
            console.say(f"warning: {name} is an older spelling; give {older[name]}")

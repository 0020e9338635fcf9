"""How each command is called for what: the table `data/examples.toml`."""

from __future__ import annotations

import msgspec


class ExampleTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Command lines by the words that call a command, without the program: `set promote`."""

    examples: dict[str, tuple[str, ...]]

"""What a served store offers to installers: an index for each family of each channel."""

from __future__ import annotations

from dataclasses import dataclass

from rocwright.model.channels import Channels
from rocwright.store.layout import channel_prefix
from rocwright.store.objects.protocol import ObjectStore


@dataclass(frozen=True)
class ServedIndex:
    """An index at `url`, how pip is told to use it, and the channel's page for people; empty without one."""

    channel: str
    family: str
    url: str
    pip: str
    page: str = ""


def served_indexes(store: ObjectStore, channels: Channels, base: str) -> tuple[ServedIndex, ...]:
    """The indexes below `base` (ending with `/`), channel by channel; of families without a page none."""
    found = []
    for channel in channels.channel:
        page = f"{base}{channel.prefix}/" if store.exists(f"{channel.prefix}/index.html") else ""
        for family in store.folders(f"{channel.prefix}/"):
            if family.startswith("_"):
                continue
            prefix = channel_prefix(channel.prefix, family)
            if store.exists(f"{prefix}index.html"):
                url = base + prefix
                pip = f"pip install --index-url {url} PACKAGE"
                found.append(ServedIndex(channel.name, family, url, pip, page))
    return tuple(found)

"""Write the pages of a view: those that differ from what is there, and no others.

What is there is read, not remembered: a record of what was written is wrong as soon as a writer was killed
in the middle, or two wrote at the same time. One listing and one reading for each page, none for a file.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping

from rocwright.store.layout import FLAT_PAGE, JSON_PAGES
from rocwright.store.objects.protocol import ObjectStore, read_there

_PAGE = re.compile(
    rf"(?:{re.escape(JSON_PAGES)})?(?:[a-z0-9][a-z0-9-]*/)?index\.html|{re.escape(FLAT_PAGE)}", re.ASCII
)


def write_pages(
    store: ObjectStore,
    prefix: str,
    pages: Mapping[str, bytes],
    *,
    order: Iterable[str] = (),
    reverse: bool = False,
    right: Collection[str] = (),
) -> tuple[str, ...]:
    """Bring the pages below `prefix` into line with `pages`; returns the keys that changed, in order.

    `order` names keys in publishing order, of pages that are and of those that go (`page_keys` of both
    views together); `reverse` walks it backwards, to withdraw. A page of the view before that is not among
    `pages` is removed at its place in that order, one that `order` does not name at the very end.
    Pages `right` stay as they are, whether or not they are among `pages`.
    """
    found = {one.key: one.size for one in store.list(prefix) if _PAGE.fullmatch(one.key[len(prefix) :])}
    turns = list(dict.fromkeys([*order, *pages]))
    if reverse:
        turns.reverse()
    turns += sorted(set(found) - set(turns))
    changed = []
    for key in (key for key in turns if key not in right):
        page = pages.get(key)
        if page is None:
            if key in found:
                store.delete(key)
                changed.append(key)
        elif found.get(key) != len(page) or read_there(store, key) != page:
            store.put_bytes(key, page, overwrite=True)
            changed.append(key)
    return tuple(changed)

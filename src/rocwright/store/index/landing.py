"""A channel's landing page, as HTML for people and as JSON, kept in line with the channel's log."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib import resources

import msgspec

from rocwright.data import load_table
from rocwright.errors import IntegrityError, NoObject
from rocwright.model.channels import Channel, LandingTable
from rocwright.model.gpu import in_order
from rocwright.model.sets import canonical_json, set_id
from rocwright.model.testing import on_device
from rocwright.store.channel_log import read_log
from rocwright.store.damage import as_damage
from rocwright.store.index.listed import ListedSet
from rocwright.store.index.lock import lock_name
from rocwright.store.index.offers import (
    TARGET,
    Offer,
    index_of,
    offers_of,
    pip_line,
    require_address,
    uv_line,
)
from rocwright.store.index.set_pages import CONSTRAINTS, UV_SNIPPET
from rocwright.store.index.untested import Untested, untested_in
from rocwright.store.layout import channel_prefix, set_prefix
from rocwright.store.objects.durable import together
from rocwright.store.objects.protocol import ObjectStore, read_there
from rocwright.store.sets.records import read_listed
from rocwright.system import console
from rocwright.system.page import html_page

LANDING_SCHEMA = "rocwright.landing/1"


class _Family(msgspec.Struct, frozen=True):
    """What is known of a family; None for what an older edition did not write."""

    log: str
    offers: tuple[Offer, ...]
    bypasses: tuple[Untested, ...] | None = None


class _Earlier(msgspec.Struct, frozen=True):
    """What an earlier page was made of."""

    schema: str
    table: str
    families: dict[str, _Family]


def landing_pages(
    channel: Channel,
    families: Mapping[str, Sequence[ListedSet]],
    base: str,
    table: LandingTable | None = None,
    bypasses: Mapping[str, tuple[Untested, ...]] | None = None,
) -> Mapping[str, bytes]:
    """The page of a channel and its JSON, by key; `families` are the listed sets, oldest first.

    `bypasses` are the tests that they went without, by family.
    `base` is the address of the store as clients know it, ending with `/`. Raises `InvalidInput` for an
    address that cannot stand in a command line.
    """
    table = table or load_table("landing", LandingTable)
    offered = {
        family: _Family("", offers_of(family, sets, table), (bypasses or {}).get(family, ()))
        for family, sets in families.items()
    }
    return _pages(channel, offered, base, table)


def write_landing(
    store: ObjectStore, channel: Channel, *, base: str | None = None, table: LandingTable | None = None
) -> tuple[str, ...]:
    """Bring the landing page of a channel into line with the logs of its families; returns the keys written.

    `base` is the address of the store as clients know it (default: what the store says). Families whose log
    has not changed since the last page are taken from its JSON, so that one promotion reads one family.
    """
    table = table or load_table("landing", LandingTable)
    written: dict[str, None] = {}
    seen = None
    # Two publishers of different families write the same page: whoever writes looks again afterwards.
    while (logs := _logs(store, channel)) != seen:
        seen = logs
        pages = _from_logs(store, channel, logs, base, table)
        with together():
            changed = [key for key, data in pages.items() if read_there(store, key) != data]
            for key in changed:
                store.put_bytes(key, pages[key], overwrite=True)
        written |= dict.fromkeys(changed)
    return tuple(written)


def _logs(store: ObjectStore, channel: Channel) -> dict[str, tuple[str, tuple[str, ...]]]:
    """For each family the digest of its log, and the sets to offer."""
    found = {}
    for family in store.folders(f"{channel.prefix}/"):
        log = read_log(store, channel_prefix(channel.prefix, family))
        if log.events:
            # The names of events are digests of what they say.
            digest = hashlib.sha256(canonical_json([one.key for one in log.events])).hexdigest()
            # What such a log says is not known: it is looked at again next time.
            digest = "" if log.unsure else digest
            state = log.state
            found[family] = (digest, tuple(one for one in state.sets if one not in state.yanked))
    return found


def _from_logs(
    store: ObjectStore,
    channel: Channel,
    logs: Mapping[str, tuple[str, tuple[str, ...]]],
    base: str | None,
    table: LandingTable,
) -> Mapping[str, bytes]:
    key = f"{channel.prefix}/_landing.json"
    earlier = _earlier(store, key)
    named = hashlib.sha256(canonical_json(table)).hexdigest()
    known = earlier.families if earlier is not None and earlier.table == named else {}
    offered = {}
    for family, (digest, sets) in logs.items():
        before = known.get(family)
        if before is not None and digest and before.log == digest and before.bypasses is not None:
            offered[family] = before
            continue
        listed = []
        for one in sets:
            try:
                listed.append(read_listed(store, one))
            except (IntegrityError, NoObject) as error:
                # One family that is damaged does not take the page from the others.
                console.say(f"damaged, so not on the page of {channel.name}: {as_damage(error)}")
                digest = ""
        without = untested_in(store, channel, [set_id(one.manifest) for one in reversed(listed)])
        offered[family] = _Family(digest, offers_of(family, listed, table), without)
    if base is None:
        base = store.url(f"{channel.prefix}/").removesuffix(f"{channel.prefix}/")
    return _pages(channel, offered, base, table)


def _earlier(store: ObjectStore, key: str) -> _Earlier | None:
    try:
        data = read_there(store, key)
        found = msgspec.json.decode(data, type=_Earlier) if data is not None else None
    except msgspec.MsgspecError:
        # Of another version, or spoiled: it is no source of facts, only saves reading them again.
        return None
    return found if found is not None and found.schema == LANDING_SCHEMA else None


def _pages(
    channel: Channel,
    offered: Mapping[str, _Family],
    base: str,
    table: LandingTable,
) -> Mapping[str, bytes]:
    require_address(base)
    ordered = {family: offered[family] for family in sorted(offered)}
    offers = [offer for found in ordered.values() for offer in found.offers]
    bypasses = [one for found in ordered.values() for one in found.bypasses or ()]
    data = {
        "schema": LANDING_SCHEMA,
        "channel": channel.name,
        "base": base,
        "table": hashlib.sha256(canonical_json(table)).hexdigest(),
        "families": {
            family: {
                "log": found.log,
                "offers": [_with_lines(offer, channel, base) for offer in found.offers],
                "bypasses": found.bypasses or (),
            }
            for family, found in ordered.items()
        },
    }
    return {
        f"{channel.prefix}/_landing.json": canonical_json(data),
        f"{channel.prefix}/index.html": landing_page(channel, offers, base, table, bypasses).encode(),
    }


def _with_lines(offer: Offer, channel: Channel, base: str) -> dict[str, object]:
    index = index_of(offer, channel.prefix, base)
    lines = {"index": index, "pip": pip_line(offer, index), "uv": uv_line(offer, index)}
    return {**msgspec.structs.asdict(offer), **lines}


# -- the page as HTML: one file, nothing from elsewhere, complete without its script


_PICKER = """<section id="picker" aria-label="Choose what to install" hidden>
<form autocomplete="off">
<div class="pick"><label for="gpu">GPU</label><select id="gpu"></select></div>
<div class="pick later"><label for="version">Version</label><select id="version"></select></div>
<fieldset class="later"><legend>Platform</legend><div class="choices" id="platform"></div></fieldset>
<fieldset class="later"><legend>Python</legend><div class="choices" id="python"></div></fieldset>
<fieldset class="later"><legend>Packages for</legend><div class="choices" id="family"></div></fieldset>
</form>
<p id="hint" class="quiet">Choose your GPU to see the lines that install its packages, for pip and for uv.</p>
<div class="result" id="result" hidden>
<h2 id="for" aria-live="polite"></h2>
{blocks}<p id="about"></p>
<p id="copied" class="quiet" role="status"></p>
</div>
</section>
"""
_BLOCK = """<div class="head-line">
<h3>{tool}</h3><button type="button" data-copy="{tool}" aria-label="Copy the line for {tool}">Copy</button>
</div>
<pre><code id="{tool}"></code></pre>
"""
_UNTESTED = (
    '<p class="note">The sets here passed the checks of their files. Whether they work on a GPU has not been '
    "decided yet: what has been tested goes on to the next channel.</p>\n"
)
_EMULATED = (
    '<p class="note">The sets here were tested on emulated GPUs: a program played the GPU. Whether they work '
    "on a GPU has not been decided.</p>\n"
)


def landing_page(
    channel: Channel,
    offers: Sequence[Offer],
    base: str,
    table: LandingTable,
    bypasses: Sequence[Untested] = (),
) -> str:
    """The page of a channel for these offers (newest first in each family); `base` is the store's address.

    `bypasses` are the tests that sets went without.
    """
    families = {offer.family for offer in offers}
    sets = {offer.set for offer in offers}
    summary = (
        f"Channel {escape(channel.name)}: {_count(len(sets), 'set')} for "
        f"{_count(len(families), 'family', 'families')} of GPUs"
    )
    blocks = _BLOCK.format(tool="pip") + _BLOCK.format(tool="uv")
    names = {"gpus": _gpus(offers, table), "platforms": table.platforms}
    note = _UNTESTED if channel.gate == "checked" else _EMULATED if channel.device == "emulated" else ""
    return html_page(
        "PyTorch and ROCm packages for AMD GPUs",
        f'<p class="quiet">{summary}</p>\n{note}',
        _PICKER.format(blocks=blocks)
        + _body(channel, offers, base, table)
        + _not_tested(bypasses)
        + f'<script type="application/json" id="names">{_json(names)}</script>\n',
        style=_part("landing.css"),
        script=_part("landing.js"),
        base=base,
    )


def _part(name: str) -> str:
    return "\n" + resources.files("rocwright.store.index").joinpath(name).read_text(encoding="utf-8")


def _json(value: object) -> str:
    # No `<`: a name that holds </script> must not end the element.
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).replace("<", "\\u003c")


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"


def _gpus(offers: Iterable[Offer], table: LandingTable) -> list[tuple[str, tuple[str, ...]]]:
    targets = {target for offer in offers for target in offer.targets}
    return [(target, table.gpus.get(target, ())) for target in in_order(targets)]


def _body(channel: Channel, offers: Sequence[Offer], base: str, table: LandingTable) -> str:
    if not offers:
        return "<p>Nothing is listed in this channel yet.</p>\n"
    # What is current is there in full for people without the script; of others one entry each, without names.
    current, earlier = [], []
    for offer in offers:
        if not offer.current:
            earlier.append(_entry(offer, offer.targets, TARGET, channel, base, table))
        elif offer.per_target:
            current += [_entry(offer, [target], target, channel, base, table) for target in offer.targets]
        else:
            current.append(_entry(offer, offer.targets, TARGET, channel, base, table))
    hint = (
        f"<p>Put the target of your GPU where a line has <code>{TARGET}</code>.</p>\n"
        if any(offer.per_target and not offer.current for offer in offers)
        else ""
    )
    text = '<h2>What is here</h2>\n<details id="current" open>\n'
    text += f"<summary>All lines, by GPU ({len(current)})</summary>\n"
    text += f"{''.join(current)}</details>\n"
    if earlier:
        text += f"<details>\n<summary>Earlier sets ({len(earlier)})</summary>\n{hint}"
        text += f"{''.join(earlier)}</details>\n"
    return text


def _not_tested(bypasses: Sequence[Untested]) -> str:
    """Which sets went without which test, and who answers for that to which day."""
    if not bypasses:
        return ""
    lines = []
    for one in bypasses:
        where = on_device(one.target, emulated=one.device == "emulated")
        test = f"{one.suite} on {where}" if where else one.suite
        test += ", which passed on an emulated GPU alone" if one.emulated is True else ""
        by = f", by {one.by}" if one.by else ""
        link = f'<a href="../{set_prefix(one.set)}index.html">{escape(one.set[:12])}</a>'
        said = f"without {test}: {one.reason} (until {one.expires}{by})"
        lines.append(f"<li>Set {link}, {escape(said)}</li>\n")
    return (
        '<h2 id="bypassed">Not tested</h2>\n<p class="note">No machine could run these tests. Somebody '
        "answers for each of these sets, to the last day that is named.</p>\n"
        f"<ul>\n{''.join(lines)}</ul>\n"
    )


def _entry(
    offer: Offer, targets: Sequence[str], target: str, channel: Channel, base: str, table: LandingTable
) -> str:
    index = index_of(offer, channel.prefix, base)
    version = f"{offer.product} {offer.version}"
    facts = {
        "family": offer.family,
        "targets": " ".join(targets),
        "pythons": " ".join(offer.pythons),
        "version": version,
        "platform": offer.platform,
    }
    attributes = "".join(f' data-{name}="{escape(value)}"' for name, value in facts.items())
    platform = table.platforms.get(offer.platform, offer.platform)
    what = f"{version} on {platform}, for Python {', '.join(offer.pythons)}; family {offer.family}"
    return (
        f"<section{attributes}>\n<h3>{escape(', '.join(targets) or offer.family)}</h3>\n"
        f"{_boards(targets, table) if offer.current else ''}<p>{escape(what)}</p>\n"
        f'<pre><code class="pip">{escape(pip_line(offer, index, target))}</code></pre>\n'
        f'<pre><code class="uv">{escape(uv_line(offer, index, target))}</code></pre>\n'
        f'<p class="set">{_about(offer, targets)}{_by_itself(offer, index)}</p>\n</section>\n'
    )


def _by_itself(offer: Offer, index: str) -> str:
    """What installs it without a choice of a GPU, where the set has variants."""
    if not offer.variants:
        return ""
    line = f"rocwright-detect view {index}"
    return f"<br>Without choosing a GPU: <code>{escape(line)}</code>, then the line for uv that it prints"


def _boards(targets: Sequence[str], table: LandingTable) -> str:
    """The names of the GPUs; where there are several targets, each with its own."""
    named = [(target, ", ".join(table.gpus.get(target, ()))) for target in targets]
    texts = [
        f"{escape(target)}: {escape(names)}" if len(targets) > 1 else escape(names)
        for target, names in named
        if names
    ]
    return f'<p class="quiet">{"; ".join(texts)}</p>\n' if texts else ""


def _about(offer: Offer, targets: Sequence[str]) -> str:
    day = f" of {escape(offer.uploaded[:10])}" if offer.uploaded else ""
    text = f"Set {_link(offer, 'index.html', offer.set[:12])}{day}: {_link(offer, UV_SNIPPET, UV_SNIPPET)}"
    if offer.pinned:
        text += f", {_link(offer, CONSTRAINTS, CONSTRAINTS)}"
        if targets:
            locks = (_link(offer, lock_name(one), one, f' data-lock="{escape(one)}"') for one in targets)
            text += f", lock for {' '.join(locks)}"
    if offer.outside:
        text += (
            "<br>Not in this index; install from another one first: "
            f"<code>{escape(' '.join(offer.outside))}</code>"
        )
    return text


def _link(offer: Offer, name: str, text: str, attributes: str = "") -> str:
    return f'<a{attributes} href="../{set_prefix(offer.set)}{escape(name)}">{escape(text)}</a>'

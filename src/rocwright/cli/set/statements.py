"""`rocwright set state | sign | verify`: what is said about a set, its signature, whether all holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rocwright.check.loading import ask_waivers
from rocwright.cli.options import Count, Text
from rocwright.cli.reply import Reply, replies
from rocwright.cli.set.look import policy_lines, show_verified
from rocwright.cli.store.options import StoreOptions, WhichSet
from rocwright.model.channels import Asked
from rocwright.store.sets.find import resolve_set
from rocwright.store.sets.records import read_set
from rocwright.store.sets.sign import sign_set, sign_statements
from rocwright.store.sets.state import Said, state_set
from rocwright.store.sets.verify import require_sound, verify_set
from rocwright.store.statements import Result
from rocwright.store.trust.keys import read_private, read_public
from rocwright.system import console, days

_DEFAULTS = StoreOptions()


@replies
def set_state(
    which: WhichSet,
    /,
    *,
    suite: str | None = None,
    target: Text = "",
    device: Asked = "gpu",
    result: Result | None = None,
    runner: bool = True,
    attempt: Count = 1,
    detail: Text = "",
    build: Literal["success", "failure", "cancelled", "skipped"] | None = None,
    bypass: bool = False,
    allow: Annotated[
        tuple[str, ...], Parameter(name=("--waive", "--allow"), negative=(), show_default=False)
    ] = (),
    reason: str | None = None,
    expires: str | None = None,
    by: Text = "",
    options: StoreOptions = _DEFAULTS,
) -> Reply:
    """Record what was found out about a set: a test's result, a build's, a waiver, or a bypass of a test.

    Statements are written once and never taken back; the set itself does not change. A bypass makes up for a
    missing result, never for a failure.

    Parameters
    ----------
    suite
        The suite of tests that the result or bypass is about.
    target
        The GPU target that it ran on, for a suite that runs for each of them; several separated by commas.
    device
        What the target is of: a GPU, or one that an emulator plays. The second never stands for the first.
    result
        How the suite ended.
    runner
        Whether a machine that can run it exists; --no-runner goes with --result skipped.
    attempt
        Which run of the suite this is; a later one replaces an earlier one.
    detail
        A sentence for people.
    build
        How the build of the set ended.
    bypass
        Let the set be promoted without this suite; needs --reason and --expires, a day that the table of
        channels allows.
    allow
        A rule whose errors pass (RULE, or RULE:PATTERN over file names); needs --reason and --expires.
    reason
        Why.
    expires
        The last day on which the bypass or waiver holds, such as 2030-01-31.
    by
        Who decides; recorded with a bypass.
    json
        Print the keys of the statements as JSON.
    """
    store, channels = options.opened(), options.channels()
    today = days.today()
    said = Said(
        suite=suite,
        target=target,
        device=device,
        result=result,
        runner=runner,
        attempt=attempt,
        detail=detail,
        build=build,
        bypass=bypass,
        reason=reason,
        expires=expires,
        by=by,
        waivers=ask_waivers(allow, reason, expires, today) if allow else (),
    )
    digest = resolve_set(store, channels, which)
    for line in policy_lines(options.policy() if bypass else (), options):
        console.say(line)
    keys = state_set(store, channels, digest, said, today)

    def show() -> None:
        for key in keys:
            console.out(key)

    return Reply({"set": digest, "statements": keys}, show)


@replies
def set_sign(
    which: WhichSet,
    /,
    *,
    key: Annotated[tuple[Path, ...], Parameter(negative=(), show_default=False)] = (),
    statements: Annotated[bool, Parameter(negative=())] = False,
    options: StoreOptions = _DEFAULTS,
) -> Reply:
    """Sign a set with an Ed25519 key; prints the public key, for `set verify --key` and rocwright.toml.

    Whoever signs vouches for every file of the set. With --statements, also for what is said about it: read
    that first, with `set show`.

    Parameters
    ----------
    key
        A file with the private key in PEM (default: the content of ROCWRIGHT_SIGNING_KEY). The password of an
        encrypted one is in ROCWRIGHT_SIGNING_PASSWORD. May be repeated.
    statements
        Sign all that is stated about the set, too, such as what was stated before the channel trusted keys.
    json
        Print the result as JSON.
    """
    keys = read_private(key)
    store, channels = options.opened(), options.channels()
    digest = resolve_set(store, channels, which)
    signed = sign_set(store, read_set(store, digest), keys)
    also = sign_statements(store, digest, keys) if statements else ()

    def show() -> None:
        for one in signed:
            console.say(f"wrote {one.key}")
            console.out(one.public)
        for where in also:
            console.say(f"wrote {where}")

    first = signed[0]
    told = {"set": digest, "signature": first.key, "public": first.public}
    return Reply(told | {"signatures": signed, "statements": also}, show)


@replies
def set_verify(
    which: WhichSet,
    /,
    *,
    key: Annotated[tuple[str, ...], Parameter(negative=(), show_default=False)] = (),
    quick: bool = False,
    offline: bool = False,
    options: StoreOptions = _DEFAULTS,
) -> Iterator[Reply]:
    """Read a set again: manifest, every file, METADATA, what is said of it. Lists all that is wrong.

    Exit code 6 when anything is.

    Parameters
    ----------
    key
        A public key that must have signed it, as ed25519:… or a PEM file; may be repeated.
    quick
        Compare sizes only; no file is read.
    offline
        Verify provenance by the root of trust that is on this machine, and ask nobody for a newer one.
    json
        Print the result as JSON.
    """
    store, channels = options.opened(), options.channels()
    keys = tuple(map(read_public, key))
    digest = resolve_set(store, channels, which)
    found = verify_set(store, digest, keys=keys, quick=quick, offline=offline, channels=channels)
    yield Reply(found, lambda: show_verified(found))
    require_sound(found)

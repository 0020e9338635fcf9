"""Channels at their door: lists, withdrawals, rivals, and what a log is worth when somebody changed it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest
from forger import Key
from watched_store import WatchedStore

from rocwright.data import load_table
from rocwright.errors import (
    ChannelBusy,
    ContractBroken,
    GateClosed,
    IntegrityError,
    InvalidInput,
    Unreachable,
)
from rocwright.model.channels import Channels
from rocwright.model.sets import PROVENANCE, SetManifest, about_set, new_set, set_id
from rocwright.model.trusted import Trusted
from rocwright.store.channel_log import ChannelState, Event, append, fold, mark_shown, read_log, read_state
from rocwright.store.lease import PACE, WHOLE_STORE, LeaseLost, Pace, leased
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.protocol import Stored
from rocwright.store.pool import describe_files
from rocwright.store.publish import change, list_set, repair, write_view
from rocwright.store.sets.find import current_of
from rocwright.store.sets.records import save_statement
from rocwright.store.sets.report import history_of
from rocwright.store.sets.stage import record_set
from rocwright.store.trust.guard import Guarded
from rocwright.store.trust.keys import signing_keys
from rocwright.store.withdraw import rollback, withdraw
from wheels import ANY

PREFIX = "v2/fam/"
AT = "2026-11-21T00:00:00Z"
NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)


@dataclass
class Clock:
    """A clock that only sleeping moves."""

    now: float = 0.0
    slept: list[float] = field(default_factory=list)

    def pace(self, *, ttl: float = 120.0, patience: float = 600.0) -> Pace:
        return Pace(ttl, patience, clock=lambda: self.now, sleep=self.sleep, chance=lambda: 0.5)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        self.slept.append(seconds)


@pytest.fixture
def store(tmp_path: Path) -> WatchedStore:
    return WatchedStore(tmp_path / "store")


@pytest.fixture
def recorded(store: LocalStore, make_wheel: Callable[..., Path]) -> Callable[..., SetManifest]:
    """Records a set of two wheels in the store."""

    def record(version: str, platform: str = "linux") -> SetManifest:
        folder = store.root.parent / version / platform
        tag = "py3-none-win_amd64" if platform == "windows" else ANY
        paths = [
            make_wheel("rocm", version, folder=folder, tag=tag),
            make_wheel("torch", version, requires=[f"rocm=={version}"], folder=folder, tag=tag),
        ]
        manifest = new_set(
            family="fam", targets=["gfx90a"], platform=platform, files=describe_files(paths), sources={}
        )
        record_set(store, manifest, {path.name: path for path in paths}, [], NOW)
        return manifest

    return record


def page(store: LocalStore, project: str = "torch") -> str:
    return store.read(f"{PREFIX}{project}/index.html").decode()


def back(store: LocalStore, to: str | None = None, max_age: float = 0.0) -> ChannelState:
    return rollback(store, PREFIX, to=to, reason="it is <bad>", at=AT, max_age=max_age)


def test_listing_again_changes_nothing(store: LocalStore, recorded: Callable[[str], SetManifest]) -> None:
    manifest = recorded("1")
    list_set(store, PREFIX, manifest, at=AT)
    before = {one.key: store.digest(one.key) for one in store.list("")}
    list_set(store, PREFIX, manifest, at="2027-01-01T00:00:00Z")
    assert {one.key: store.digest(one.key) for one in store.list("")} == before
    assert store.list("_leases/") == ()


def test_a_set_that_is_not_there_is_not_listed(
    store: LocalStore, recorded: Callable[[str], SetManifest]
) -> None:
    manifest = recorded("1")
    key = next(one.key for one in store.list("files/") if one.key.endswith("torch-1-py3-none-any.whl"))
    store.delete(key)
    with pytest.raises(IntegrityError, match="is not in the store"):
        list_set(store, PREFIX, manifest, at=AT)
    assert store.list("v2/") == ()


def test_a_rollback_yanks_what_is_newer_and_can_be_taken_back(
    store: LocalStore, recorded: Callable[[str], SetManifest]
) -> None:
    ids = []
    for version in ("1", "2", "3"):
        manifest = recorded(version)
        list_set(store, PREFIX, manifest, at=AT)
        ids.append(set_id(manifest))
    assert current_of(store, back(store)) == ids[1]
    assert current_of(store, back(store, to=ids[0])) == ids[0]
    assert page(store).count('data-yanked="it is &lt;bad&gt;"') == 2
    assert "torch-3-py3-none-any.whl" in page(store)
    assert back(store, to=ids[2]).yanked == {ids[1]: "it is <bad>"}
    assert page(store).count("data-yanked") == 1
    assert [one.action for one in history_of(store, PREFIX).events] == ["list"] * 3 + ["yank", "yank", "list"]


@pytest.mark.parametrize("completed", [False, True])
def test_a_rollback_that_is_run_again_withdraws_no_second_set(
    store: LocalStore, recorded: Callable[[str], SetManifest], completed: bool
) -> None:
    """Killed right behind its event; whoever publishes or repairs next completes the pages, perhaps."""
    for version in ("1", "2", "3"):
        manifest = recorded(version)
        list_set(store, PREFIX, manifest, at=AT)

    class Killed(LocalStore):
        def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
            if key.startswith(f"{PREFIX}torch/"):
                raise KeyboardInterrupt
            super().put_bytes(key, data, overwrite=overwrite)

    with pytest.raises(KeyboardInterrupt):
        back(Killed(store.root))
    if completed:
        repair(store, PREFIX)
    for _ in range(2):
        assert set(back(store).yanked) == {set_id(manifest)}
    # For another reason it is another rollback.
    assert len(rollback(store, PREFIX, reason="so is 2", at=AT, max_age=0).yanked) == 2


def test_what_was_listed_late_but_is_older_is_no_newer_set(
    store: LocalStore, recorded: Callable[[str], SetManifest]
) -> None:
    new, old, older = recorded("3"), recorded("2"), recorded("1")
    for manifest in (new, old, older):
        list_set(store, PREFIX, manifest, at=AT)
    # Installers take 3, so that is what goes; people then get 2.
    state = back(store)
    assert set(state.yanked) == {set_id(new), set_id(older)}
    assert state.open == (set_id(old),)


def test_going_back_to_a_yanked_set_waits_for_the_clients(
    store: LocalStore, recorded: Callable[[str], SetManifest]
) -> None:
    first, second = recorded("1"), recorded("2")
    list_set(store, PREFIX, first, at=AT)
    list_set(store, PREFIX, second, at=AT)
    rollback(store, PREFIX, to=set_id(second), reason="x", at=AT, max_age=0)
    state = back(store)
    assert current_of(store, state) == set_id(first)
    back(store, to=set_id(second))
    withdraw(store, PREFIX, "yank", lambda _: (set_id(first),), reason="old", at=AT, max_age=0)
    clock = Clock()
    waits: list[float] = []

    class Enough(Exception):
        pass

    def waiting(seconds: float) -> None:
        # While it waits, both can be installed.
        assert "data-yanked" not in page(store)
        waits.append(seconds)
        raise Enough

    token = PACE.set(clock.pace())
    try:
        with pytest.raises(Enough):
            rollback(store, PREFIX, to=set_id(first), reason="x", at=AT, max_age=300, waiting=waiting)
    finally:
        PACE.reset(token)
    assert 299 < waits[0] <= 300
    # Interrupted while it waited; run again, it goes on.
    assert current_of(store, back(store, to=set_id(first))) == set_id(first)
    assert set(read_state(store, PREFIX).yanked) == {set_id(second)}


def test_a_rollback_is_one_of_the_sets_for_a_platform(
    store: LocalStore, recorded: Callable[..., SetManifest]
) -> None:
    sets = [recorded(version, platform) for version in ("5", "6") for platform in ("linux", "windows")]
    for manifest in sets:
        list_set(store, PREFIX, manifest, at=AT)
    linux5, windows5, linux6, windows6 = map(set_id, sets)
    with pytest.raises(InvalidInput, match="has sets for linux and windows") as unclear:
        back(store)
    assert unclear.value.next_step.endswith(f"came {linux5[:12]} for linux, {windows5[:12]} for windows")
    assert set(back(store, to=linux5).yanked) == {linux6}
    assert set(back(store, to=windows5).yanked) == {linux6, windows6}
    # Nobody is left without a set for their platform, whatever others have.
    with pytest.raises(InvalidInput, match="v2/fam/, for windows, would be left without a set"):
        withdraw(store, PREFIX, "yank", lambda state: (windows5,), reason="old", at=AT, max_age=0)
    assert read_state(store, PREFIX).open == (linux5, windows5)


def test_a_set_for_both_platforms_is_a_set_for_each(
    store: LocalStore, recorded: Callable[..., SetManifest]
) -> None:
    both, linux = recorded("5", "any"), recorded("6", "linux")
    for manifest in (both, linux):
        list_set(store, PREFIX, manifest, at=AT)
    assert back(store).open == (set_id(both),)


def test_a_set_that_retention_drops_meanwhile_is_not_listed_again(
    store: LocalStore, recorded: Callable[[str], SetManifest]
) -> None:
    """Whoever lists it anew shows what the channel asks for; a rollback does not."""
    first, second = recorded("1"), recorded("2")
    for manifest in (first, second):
        list_set(store, PREFIX, manifest, at=AT)
    change(store, PREFIX, Event("yank", (set_id(first),), at=AT, reason="old"))

    class Meanwhile(LocalStore):
        """Retention comes between a rollback's first look and its lease."""

        def read(self, key: str) -> bytes:
            if key.startswith(f"sets/{set_id(first)}/") and set_id(first) in read_state(store, PREFIX).sets:
                change(store, PREFIX, Event("drop", (set_id(first),), at=AT, reason="old"))
            return super().read(key)

    with pytest.raises(InvalidInput, match=f"does not list set {set_id(first)[:12]}") as refused:
        back(Meanwhile(store.root), to=set_id(first))
    assert "or promote the set again" in refused.value.next_step
    assert read_state(store, PREFIX).sets == (set_id(second),)
    assert read_state(store, PREFIX).open == (set_id(second),)


def test_a_rollback_to_a_set_that_is_withdrawn_while_it_waits_is_none(
    store: LocalStore, recorded: Callable[[str], SetManifest]
) -> None:
    first, second = recorded("1"), recorded("2")
    for manifest in (first, second):
        list_set(store, PREFIX, manifest, at=AT)
    yank = Event("yank", (set_id(first),), at=AT, reason="older than the newest")
    change(store, PREFIX, yank)

    def waiting(seconds: float) -> None:
        change(store, PREFIX, yank)

    token = PACE.set(Clock().pace())
    try:
        with pytest.raises(InvalidInput, match="was withdrawn from v2/fam/ meanwhile: older than the newest"):
            rollback(store, PREFIX, to=set_id(first), reason="x", at=AT, max_age=300, waiting=waiting)
    finally:
        PACE.reset(token)
    assert read_state(store, PREFIX).open == (set_id(second),)


def test_where_two_have_to_sign_who_lists_or_withdraws_alone_is_told(
    store: LocalStore, recorded: Callable[[str], SetManifest]
) -> None:
    """The event waits for the other one, and nothing is done yet."""
    [mine], [yours] = signing_keys(Key().pem.encode()), signing_keys(Key().pem.encode())
    trusted = Trusted(release=(mine.public, yours.public), thresholds={"release": 2})
    release = load_table("channels", Channels).named("release")
    channel = msgspec.structs.replace(release, trust=trusted)
    alone, both = (Guarded(store, [channel], NOW.date(), keys) for keys in ((mine,), (mine, yours)))
    first, second = recorded("1"), recorded("2")
    list_set(both, PREFIX, first, at=AT)
    with pytest.raises(GateClosed, match=r"listing set .* in v2/fam/ waits for more signatures") as told:
        list_set(alone, PREFIX, second, at=AT)
    assert told.value.next_step == (
        "rocwright store trust sign v2:fam, with another key; then rocwright set repair v2:fam"
    )
    assert read_state(alone, PREFIX).open == (set_id(first),)
    list_set(both, PREFIX, second, at=AT)
    with pytest.raises(GateClosed, match="withdrawing sets in v2/fam/ waits for more signatures"):
        back(alone)
    assert read_state(alone, PREFIX).open == (set_id(first), set_id(second))
    assert back(both).open == (set_id(first),)
    with pytest.raises(GateClosed, match=r"listing set .* waits for more signatures"):
        back(alone, to=set_id(second))


def test_where_nothing_can_be_installed_anyhow_nobody_is_waited_for(
    store: LocalStore, recorded: Callable[[str], SetManifest]
) -> None:
    only = recorded("1")
    list_set(store, PREFIX, only, at=AT)
    change(store, PREFIX, Event("yank", (set_id(only),), at=AT, reason="broken"))
    state = withdraw(store, PREFIX, "drop", lambda now: now.sets, reason="old", at=AT, max_age=300)
    assert (state.sets, state.open) == ((), ())


def test_a_rollback_says_why_it_cannot(store: LocalStore, recorded: Callable[[str], SetManifest]) -> None:
    first = recorded("1")
    list_set(store, PREFIX, first, at=AT)
    with pytest.raises(InvalidInput, match="no earlier set"):
        back(store)
    with pytest.raises(InvalidInput, match="does not list set ffffffffffff"):
        back(store, to="f" * 64)
    with pytest.raises(InvalidInput, match="needs a reason"):
        rollback(store, PREFIX, reason=" ", at=AT, max_age=0)
    with pytest.raises(InvalidInput, match="nothing was ever listed"):
        repair(store, "v2/other/")
    with pytest.raises(InvalidInput, match="left without a set that can be installed") as last:
        withdraw(store, PREFIX, "yank", lambda now: now.sets, reason="old", at=AT, max_age=0)
    assert last.value.next_step == "list another set first"
    assert read_log(store, PREFIX).state.yanked == {}


def test_sets_and_pages_of_a_distant_store_are_read_side_by_side(
    store: LocalStore, recorded: Callable[[str], SetManifest]
) -> None:
    for manifest in (recorded("1"), recorded("2")):
        list_set(store, PREFIX, manifest, at=AT)
    together = threading.Barrier(2, timeout=20)

    class Distant(LocalStore):
        """Answers only who asks for two objects at the same time."""

        at_once = 2

        def read(self, key: str) -> bytes:
            if key.endswith(("/manifest.json", f"{PREFIX}torch/index.html", f"{PREFIX}rocm/index.html")):
                together.wait()
            return super().read(key)

    list_set(Distant(store.root), PREFIX, manifest, at=AT)


def test_what_another_publisher_wrote_of_a_set_stays_on_the_pages(
    store: LocalStore, recorded: Callable[[str], SetManifest]
) -> None:
    """Sets are read before the lease is had; what is said about them changes."""
    first, second = recorded("1"), recorded("2")
    list_set(store, PREFIX, first, at=AT)
    name = first.files[1].name
    attested = {"files": {name: f"https://p.example/{name}.provenance"}}
    rivals = [store]

    class Waiting(LocalStore):
        """Another one attests a set and writes the pages, before the lease is had."""

        def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
            if key.startswith("_leases/") and rivals:
                rival = rivals.pop()
                save_statement(rival, set_id(first), about_set(first, PROVENANCE, attested))
                repair(rival, PREFIX)
                assert page(rival).count("data-provenance") == 1
            super().put_bytes(key, data, overwrite=overwrite)

    list_set(Waiting(store.root), PREFIX, second, at=AT)
    assert page(store).count("data-provenance") == 1
    assert page(store).count("<a ") == 2


def test_what_never_changes_is_read_before_the_channel_is_held(
    store: WatchedStore, recorded: Callable[[str], SetManifest]
) -> None:
    first, second = recorded("1"), recorded("2")
    list_set(store, PREFIX, first, at=AT)

    class Held(WatchedStore):
        def put_bytes(self, key: str, data: bytes, *, overwrite: bool = False) -> None:
            if key.startswith("_leases/") and not overwrite:
                self.asked.clear()
            super().put_bytes(key, data, overwrite=overwrite)

    held = Held(store.root)
    list_set(held, PREFIX, second, at=AT)
    of_first = [(how, key.partition(set_id(first))[2]) for how, key in held.asked if set_id(first) in key]
    assert of_first == [("list", "/_statements/")]


def test_pages_that_somebody_changed_are_repaired(
    store: LocalStore, recorded: Callable[[str], SetManifest]
) -> None:
    list_set(store, PREFIX, recorded("1"), at=AT)
    before = {one.key: store.digest(one.key) for one in store.list(PREFIX)}
    store.put_bytes(f"{PREFIX}torch/index.html", b"<html>mine</html>", overwrite=True)
    store.delete(f"{PREFIX}_json/torch/index.html")
    store.put_bytes(f"{PREFIX}evil/index.html", b"<html>", overwrite=True)
    write_view(store, PREFIX)
    assert {one.key: store.digest(one.key) for one in store.list(PREFIX)} == before


def test_a_log_is_read_with_one_listing_one_mark_and_what_is_newer(store: WatchedStore) -> None:
    for number in range(20):
        append(store, PREFIX, Event("list", (f"{number:064x}",), at=AT), after=number)
    store.asked.clear()
    read_log(store, PREFIX)
    assert len(store.asked) == 21
    mark_shown(store, PREFIX, read_log(store, PREFIX))
    append(store, PREFIX, Event("yank", ("0" * 64,), at=AT, reason="x"), after=20)
    store.asked.clear()
    log = read_log(store, PREFIX)
    assert [kind for kind, _ in store.asked] == ["list", "read", "read"]
    assert (log.state.count, len(log.state.sets), dict(log.state.yanked)) == (21, 20, {"0" * 64: "x"})


def test_a_mark_that_does_not_fit_is_left_aside(store: LocalStore) -> None:
    append(store, PREFIX, Event("list", ("a" * 64,), at=AT), after=0)
    mark_shown(store, PREFIX, read_log(store, PREFIX))
    [mark] = [one.key for one in store.list(PREFIX) if "shown" in one.key]
    # Somebody who was slow wrote an event with the same number.
    append(store, PREFIX, Event("list", ("b" * 64,), at=AT), after=0)
    assert set(read_state(store, PREFIX).sets) == {"a" * 64, "b" * 64}
    spoiled = json.loads(store.read(mark)) | {"sets": ["c" * 64]}
    store.put_bytes(mark, json.dumps(spoiled).encode(), overwrite=True)
    assert set(read_state(store, PREFIX).sets) == {"a" * 64, "b" * 64}


@pytest.mark.parametrize("what", ["changed", "half", "empty", "missing"])
def test_a_damaged_event_counts_for_nothing_and_is_named(store: LocalStore, what: str) -> None:
    for number, one in enumerate("abc"):
        append(store, PREFIX, Event("list", (one * 64,), at=AT), after=number)
    event = store.list(PREFIX)[1].key
    data = store.read(event)
    store.delete(event)
    if what != "missing":
        bad = {"changed": data.replace(b"bbb", b"ddd"), "half": data[:20], "empty": b""}
        store.put_bytes(event, bad[what])
    log = read_log(store, PREFIX)
    assert log.state.sets == ("a" * 64, "c" * 64)
    [damage] = log.unsure
    assert damage.key.startswith(f"{PREFIX}_log/00000002-")
    with pytest.raises(IntegrityError, match=r"_log/00000002.*\n.*set repair v2:fam"):
        change(store, PREFIX, Event("drop", ("a" * 64,), at=AT))


def test_a_mark_tells_what_a_damaged_event_did(store: LocalStore) -> None:
    for number, one in enumerate("ab"):
        append(store, PREFIX, Event("list", (one * 64,), at=AT), after=number)
    mark_shown(store, PREFIX, read_log(store, PREFIX))
    event = store.list(PREFIX)[0].key
    store.put_bytes(event, b"", overwrite=True)
    log = read_log(store, PREFIX)
    assert log.state.sets == ("a" * 64, "b" * 64)
    assert [one.key for one in log.damaged] == [event]
    assert log.unsure == ()


def test_strays_in_a_log_are_passed_over_with_a_word(
    store: LocalStore, capsys: pytest.CaptureFixture[str]
) -> None:
    append(store, PREFIX, Event("list", ("a" * 64,), at=AT), after=0)
    for name in ("Thumbs.db", "x.json"):
        store.put_bytes(f"{PREFIX}_log/{name}", b"mine")
    assert read_log(store, PREFIX).damaged == read_log(store, PREFIX).damaged == ()
    assert read_state(store, PREFIX).sets == ("a" * 64,)
    said = capsys.readouterr().err
    assert said.count("note: ignored") == 1
    assert "Thumbs.db and 1 more" in said


def test_events_of_the_same_number_have_one_order_for_all() -> None:
    one, other = Event("list", ("a",), at=AT), Event("list", ("b",), at=AT)
    state = fold([(1, one), (1, other), (2, Event("yank", ("a",), at=AT, reason="r"))])
    assert (state.number, state.count, state.sets, dict(state.yanked)) == (2, 3, ("a", "b"), {"a": "r"})
    # What is dropped is not there; what is yanked twice keeps its first reason.
    after = fold(
        [(3, Event("yank", ("a",), at=AT, reason="later")), (4, Event("drop", ("b",), at=AT))], state
    )
    assert (after.sets, dict(after.yanked), after.open) == (("a",), {"a": "r"}, ())
    assert dict(after.since) == {"a": 3, "b": 5}


def test_a_holder_is_named_to_those_who_wait_in_vain(store: LocalStore) -> None:
    clock = Clock()
    token = PACE.set(clock.pace(patience=30))
    try:
        with leased(store, PREFIX, by="the nightly"):
            named = pytest.raises(ChannelBusy, match="v2/fam/ is being changed by the nightly")
            with named, leased(store, PREFIX):
                pass
            with pytest.raises(ChannelBusy), leased(store, WHOLE_STORE):
                pass
            # Another family is nobody's business.
            with leased(store, "v2/other/"):
                pass
        with leased(store, WHOLE_STORE), pytest.raises(ChannelBusy), leased(store, "v2/other/"):
            pass
        assert 30 <= sum(clock.slept) < 150
    finally:
        PACE.reset(token)
    assert store.list("_leases/") == ()


def test_who_cannot_list_leaves_no_lease_that_others_wait_for(store: LocalStore) -> None:
    class Unlisted(LocalStore):
        def list(self, prefix: str) -> tuple[Stored, ...]:
            raise Unreachable("the store did not list")

    for _ in range(2):
        with pytest.raises(Unreachable, match="did not list"), leased(Unlisted(store.root), PREFIX):
            pass
    assert store.list("_leases/") == ()
    with leased(store, PREFIX):
        pass


def test_nothing_is_called_done_while_its_event_is_not_listed(
    store: LocalStore, recorded: Callable[[str], SetManifest]
) -> None:
    first, second = recorded("1"), recorded("2")
    list_set(store, PREFIX, first, at=AT)
    known = store.list(f"{PREFIX}_log/")

    class Lagging(LocalStore):
        def list(self, prefix: str) -> tuple[Stored, ...]:
            return known if prefix == f"{PREFIX}_log/" else super().list(prefix)

    with pytest.raises(ChannelBusy, match=r"00000002-.* was written but is not in the listing"):
        list_set(Lagging(store.root), PREFIX, second, at=AT)
    assert "torch-2" not in page(store)
    # The same again, when the store lists it: one event, and its pages.
    list_set(store, PREFIX, second, at=AT)
    assert "torch-2" in page(store)
    assert read_state(store, PREFIX).count == 2


def test_what_went_wrong_is_told_and_not_that_the_lease_could_not_be_given_back(store: LocalStore) -> None:
    class ReadOnly(LocalStore):
        def delete(self, key: str) -> None:
            raise InvalidInput("cannot write: Read-only file system")

    with pytest.raises(ContractBroken, match="the reason"), leased(ReadOnly(store.root), PREFIX):
        raise ContractBroken("the reason")
    with pytest.raises(InvalidInput, match="Read-only"), leased(ReadOnly(store.root), "v2/other/"):
        pass


def test_a_holder_that_ends_while_it_is_asked_for_its_name_is_no_error(store: LocalStore) -> None:
    class Ends(LocalStore):
        """The lease of the other one goes in the moment before it is read."""

        def read(self, key: str) -> bytes:
            self.delete(left)
            return super().read(key)

    left = f"_leases/{PREFIX}other.json"
    store.put_bytes(left, b"{}")
    token = PACE.set(Clock().pace(patience=-1))
    try:
        named = pytest.raises(ChannelBusy, match="is being changed by one publisher after the other")
        with named, leased(Ends(store.root), PREFIX):
            pass
        with leased(store, PREFIX):
            pass
    finally:
        PACE.reset(token)


def test_what_a_dead_publisher_left_expires_by_the_clock_of_the_store(store: LocalStore) -> None:
    class Ago(LocalStore):
        """A folder whose clock says that what is there came three minutes ago."""

        def list(self, prefix: str) -> tuple:
            found = super().list(prefix)
            return tuple(
                msgspec.structs.replace(one, modified=one.modified - timedelta(minutes=3))
                if "dead" in one.key
                else one
                for one in found
            )

    left = f"_leases/{PREFIX}dead.json"
    store.put_bytes(left, b"not even JSON")
    token = PACE.set(Clock().pace(patience=5))
    try:
        with pytest.raises(ChannelBusy, match="another publisher"), leased(store, PREFIX):
            pass
        with leased(Ago(store.root), PREFIX):
            assert not store.exists(left)
    finally:
        PACE.reset(token)


def test_a_holder_that_was_too_slow_stops_by_itself(store: LocalStore) -> None:
    clock = Clock()
    token = PACE.set(clock.pace())
    try:
        with leased(store, PREFIX) as lease:
            began = store.read(lease.key)
            clock.now += 20
            lease.check()
            assert store.read(lease.key) == began, "not written anew with each write"
            clock.now += 1
            lease.check()
            assert store.read(lease.key) != began
            clock.now += 30
            lease.check()
            clock.now += 61
            with pytest.raises(LeaseLost):
                lease.check()
        with leased(store, PREFIX) as lease:
            store.delete(lease.key)
            with pytest.raises(LeaseLost):
                lease.renew()
    finally:
        PACE.reset(token)


def test_a_lease_is_renewed_while_its_holder_only_computes(store: LocalStore) -> None:
    """To list a million objects, or to render as many lines, takes longer than a lease lasts."""
    clock = Clock()
    token = PACE.set(msgspec.structs.replace(clock.pace(), ttl=6.0))
    try:
        with leased(store, PREFIX) as lease:
            for _ in range(2):
                clock.now += 2.5
                until = time.monotonic() + 60
                while lease.began != clock.now and time.monotonic() < until:
                    time.sleep(0.05)
            lease.check()
    finally:
        PACE.reset(token)
    assert not [one.name for one in threading.enumerate() if one.name == "lease"]
    assert store.list("_leases/") == ()


def test_publishers_side_by_side_lose_nothing(
    store: LocalStore, recorded: Callable[[str], SetManifest]
) -> None:
    manifests = [recorded(str(number)) for number in range(6)]
    problems: list[BaseException] = []

    def run(manifest: SetManifest) -> None:
        try:
            list_set(LocalStore(store.root), PREFIX, manifest, at=AT)
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=run, args=(manifest,)) for manifest in manifests]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert set(read_state(store, PREFIX).sets) == {set_id(manifest) for manifest in manifests}
    for project in ("rocm", "torch"):
        assert page(store, project).count("<a ") == 6
    assert store.list("_leases/") == ()

from __future__ import annotations

import hashlib
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from rocwright.errors import InvalidInput, Unreachable
from rocwright.store.objects.address import open_store
from rocwright.store.objects.local import LocalStore
from rocwright.store.objects.probe import probe
from rocwright.store.objects.protocol import Stored


def answers(found) -> dict[str, bool | None]:
    return {one.id: one.holds for one in found.findings}


def test_a_folder_does_all_that_publishing_needs(tmp_path: Path) -> None:
    store = LocalStore(tmp_path / "store")
    store.put_bytes("v2/fam/index.html", b"page")
    found = probe(store)
    assert found.place == str(tmp_path / "store")
    assert found.missing == ()
    assert answers(found) == dict.fromkeys(
        (
            "read-after-write",
            "list-after-write",
            "create-only",
            "replace",
            "range",
            "hard-links",
            "clock",
            "delete",
        ),
        True,
    )
    assert [one.key for one in store.list("")] == ["v2/fam/index.html"], "nothing of the probe stays"
    assert [path.name for path in (tmp_path / "store").iterdir()] == ["v2"]


def test_memory() -> None:
    pytest.importorskip("obstore", reason="the extra `store` is not installed")
    store = open_store("memory://probed")
    found = probe(store)
    assert found.missing == ()
    assert answers(found)["wrong-checksum-refused"] is None, "nothing travels"
    assert {name for name, holds in answers(found).items() if holds is False} == set()
    assert store.list("") == ()


@pytest.mark.parametrize(
    ("minutes", "holds"), [(0, True), (14, True), (16, False), (-16, False), (60 * 24, False)]
)
def test_a_clock_that_is_wrong(tmp_path: Path, minutes: int, holds: bool) -> None:
    found = probe(LocalStore(tmp_path), now=lambda: datetime.now(timezone.utc) + timedelta(minutes=minutes))
    assert answers(found)["clock"] is holds
    assert found.missing == (() if holds else ("clock",))
    means = next(one.means for one in found.findings if one.id == "clock")
    assert ("more than 15 minutes apart" in means) is not holds


class Forgetful(LocalStore):
    """A stand-in for a server that lists late, keeps what is removed and answers a range with everything."""

    def list(self, prefix: str):
        return ()

    def read_range(self, key: str, start: int, length: int) -> bytes:
        return self.read(key)

    def delete(self, key: str) -> None:
        raise InvalidInput("no")


def test_what_a_store_does_not_do_is_said(tmp_path: Path) -> None:
    found = probe(Forgetful(tmp_path))
    assert found.missing == ("list-after-write", "range", "delete")
    assert {one.means for one in found.findings if one.holds is False} == {
        "retention and repair may overlook objects",
        "metadata of wheels costs a whole download",
        "retention cannot remove anything",
    }


def test_a_store_that_takes_nothing_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(InvalidInput, match="cannot write"):
        probe(LocalStore(tmp_path / "file"))


def test_a_digest_is_that_of_one_version_although_another_writer_replaces_it() -> None:
    pytest.importorskip("obstore", reason="the extra `store` is not installed")
    from rocwright.store.objects.remote import RemoteStore

    whole = open_store("memory://replaced")
    assert isinstance(whole, RemoteStore)

    class Replaced(RemoteStore):
        """Behind each look somebody else writes a longer page."""

        def stat(self, key: str) -> Stored | None:
            found = super().stat(key)
            self.put_bytes(key, b"the second version", overwrite=True)
            return found

    store = Replaced(whole.backend, whole.place, "", max_age=300)
    store.put_bytes("page", b"the first", overwrite=True)
    assert store.digest("page") == hashlib.sha256(b"the second version").hexdigest()


def test_a_large_object_is_copied_in_parts() -> None:
    pytest.importorskip("obstore", reason="the extra `store` is not installed")
    from rocwright.store.objects.remote import RemoteStore

    whole = open_store("memory://copied")
    assert isinstance(whole, RemoteStore)
    data = bytes(range(256)) * 10
    whole.put_bytes("a", data)
    store = RemoteStore(whole.backend, whole.place, "", max_age=300, part=1000)
    store.copy("a", "b")
    assert store.read("b") == data
    assert store.headers("b")["sha256"] == store.digest("b") == hashlib.sha256(data).hexdigest()


def test_what_cannot_be_deleted_is_named_and_what_is_not_there_is_no_failure(tmp_path: Path) -> None:
    obstore = pytest.importorskip("obstore.store", reason="the extra `store` is not installed")
    from rocwright.store.objects.remote import RemoteStore

    (tmp_path / "folder" / "a").mkdir(parents=True)
    # A folder stands in for an object that the server does not let go.
    store = RemoteStore(obstore.LocalStore(tmp_path), "s3://bucket/p", "", max_age=300)
    store.delete("none")
    with pytest.raises(Unreachable, match="did not delete folder"):
        store.delete("folder")

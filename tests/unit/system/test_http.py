from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from index_server import IndexServer, serving
from rocwright.errors import IntegrityError, InvalidInput, Unreachable
from rocwright.system.http import NoRanges, Refused, Web

NAME = "a-1-py3-none-any.whl"
CONTENT = bytes(range(256)) * 40


@pytest.fixture
def index(tmp_path: Path) -> Iterator[IndexServer]:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / NAME).write_bytes(CONTENT)
    with serving(folder) as server:
        server.manner.sidecars = False
        yield server


@pytest.fixture
def web() -> Iterator[Web]:
    with Web(timeout_s=5, pauses=(0.0, 0.0)) as found:
        yield found


def test_parts_of_a_file(index: IndexServer, web: Web) -> None:
    url = index.url(f"files/{NAME}")
    assert web.size(url) == 10240
    end = web.part(url, "-100", most_whole=0)
    assert (end.data, end.start, end.total) == (CONTENT[-100:], 10140, 10240)
    middle = web.part(url, "10-19", most_whole=0)
    assert (middle.data, middle.start) == (CONTENT[10:20], 10)
    assert web.part(url, "-99999", most_whole=0).data == CONTENT
    assert (web.requests, web.received) == (4, 100 + 10 + 10240)


def test_a_server_without_ranges_sends_what_is_small(index: IndexServer, web: Web) -> None:
    index.manner.ranges = False
    url = index.url(f"files/{NAME}")
    part = web.part(url, "-100", most_whole=20_000)
    assert (part.data, part.start, part.total) == (CONTENT, 0, 10240)
    with pytest.raises(NoRanges, match="whole only, and is larger than 10,000 bytes"):
        web.part(url, "-100", most_whole=10_000)
    assert web.received == 10240


def test_a_file_that_is_sent_whole_can_be_kept(index: IndexServer, web: Web, tmp_path: Path) -> None:
    index.manner.ranges = False
    part = web.part(index.url(f"files/{NAME}"), "-100", most_whole=20_000, into=tmp_path / NAME)
    assert (tmp_path / NAME).read_bytes() == CONTENT
    assert (part.start, part.total) == (0, 10240)


def test_connections_are_kept(index: IndexServer, web: Web) -> None:
    for _ in range(5):
        web.get(index.url("simple/"), limit=1 << 20)
    assert web.requests == 5
    index.manner.hangs = NAME
    with pytest.raises(Unreachable):
        Web(timeout_s=0.2, pauses=()).get(index.url(f"files/{NAME}"), limit=10)


def test_pages_may_be_packed_and_never_unpack_to_more_than_is_right(index: IndexServer, web: Web) -> None:
    index.manner.gzip = True
    plain = web.get(index.url("simple/"), limit=1 << 20)
    packed = web.get(index.url("simple/"), limit=1 << 20, packed=True)
    assert plain.body == packed.body
    assert packed.headers["content-encoding"] == "gzip"
    index.manner.gzip_lacks = 9
    with pytest.raises(Unreachable, match=r": its compressed answer ends early(\n|$)"):
        web.get(index.url("simple/"), limit=1 << 20, packed=True)
    index.manner.gzip_lacks = 0
    index.manner.padding = 50_000_000
    with pytest.raises(InvalidInput, match="more than 1,048,576 bytes"):
        web.get(index.url("simple/"), limit=1 << 20, packed=True)
    assert web.received < 1_000_000
    index.manner.gzip = False
    with pytest.raises(InvalidInput, match="more than"):
        web.get(index.url("simple/"), limit=1 << 20)
    assert web.received < 5_000_000


def test_what_passes_is_tried_again_and_what_does_not_is_not(index: IndexServer, web: Web) -> None:
    index.manner.fails = {"simple": 2}
    assert web.get(index.url("simple/"), limit=1 << 20).status == 200
    assert [one.status for one in index.asked] == [503, 503, 200]
    index.manner.fails = {"simple": 3}
    with pytest.raises(Unreachable, match=r"tried 3 times\): it answers 503"):
        web.get(index.url("simple/"), limit=1 << 20)
    index.asked.clear()
    with pytest.raises(Refused, match="answers 404"):
        web.get(index.url("simple/none/"), limit=1 << 20)
    assert len(index.asked) == 1


def test_a_server_that_hangs_ends_in_an_error(index: IndexServer) -> None:
    index.manner.hangs = "simple"
    # A client that waits for it never ends.
    with Web(timeout_s=0.2, pauses=(0.0,)) as web, pytest.raises(Unreachable, match=r"within 0\.2 s"):
        web.get(index.url("simple/"), limit=1 << 20)


def test_nobody_listens(index: IndexServer, web: Web) -> None:
    with pytest.raises(Unreachable, match="refused"):
        web.get("http://127.0.0.1:9/", limit=10)


def test_a_redirect_is_followed_on_the_web_only(index: IndexServer, web: Web) -> None:
    for times in (1, 5):
        index.manner.redirects = times
        answer = web.get(index.url("simple/"), limit=1 << 20)
        assert answer.url == index.url("moved/" * times + "simple/")
    index.manner.redirects = 6
    with pytest.raises(Unreachable, match="redirects in a circle"):
        web.get(index.url("simple/"), limit=1 << 20)


def test_a_login_is_sent_to_its_own_server_and_shown_to_nobody(index: IndexServer, web: Web) -> None:
    index.manner.login = "user:s3cret/word"
    with pytest.raises(Refused, match="answers 401") as refused:
        web.get(index.url("simple/", login="user:wrong@"), limit=1 << 20)
    assert "wrong" not in str(refused.value)
    login = "user:s3cret%2Fword@"
    assert web.enter(index.url("simple/", login=login)) == index.url("simple/")
    assert web.get(index.url("simple/"), limit=1 << 20).status == 200
    with serving(index.folder) as other:
        web.get(other.url("simple/"), limit=1 << 20)
        assert "Authorization" not in other.asked[0].headers
    with pytest.raises(Refused) as refused:
        web.get(index.url("none?X-Signature=abcdef", login=login), limit=1 << 20)
    assert "s3cret" not in str(refused.value)
    assert "abcdef" not in str(refused.value)


def test_a_download_is_there_whole_or_not_at_all(index: IndexServer, web: Web, tmp_path: Path) -> None:
    url, path = index.url(f"files/{NAME}"), tmp_path / "out" / NAME
    path.parent.mkdir()
    digest = hashlib.sha256(CONTENT).hexdigest()
    assert web.save(url, path, sha256=digest) == digest
    assert path.read_bytes() == CONTENT
    path.unlink()
    with pytest.raises(IntegrityError, match="its index says"):
        web.save(url, path, sha256="0" * 64)
    assert list(path.parent.iterdir()) == []

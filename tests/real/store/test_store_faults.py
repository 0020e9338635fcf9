"""What servers and networks do wrong: an error by its name, nothing half, nothing lost."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from real.store.faults import Stutter
from real.store.servers import (
    KEY,
    MIB,
    SECRET,
    WHEEL,
    JuiceFS,
    MotoTLS,
    S3Server,
    filled,
    keys,
    running,
    sha,
    use,
)
from rocwright.errors import IntegrityError, InvalidInput, RocwrightError, Unreachable
from rocwright.store.objects.address import open_store
from rocwright.store.objects.probe import probe
from rocwright.store.objects.remote import RemoteStore


@pytest.mark.parametrize("kind", ["juicefs", "moto"])
def test_other_tools_see_the_same_objects_below_the_prefix(
    kind: str, addresses: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    address = addresses(kind)
    store = open_store(address)
    store.put_bytes(WHEEL, b"wheel")
    server: S3Server = request.getfixturevalue(kind)
    bucket = address.split("/")[2]
    answer = server.client().get_object(Bucket=bucket, Key=f"some/prefix/{WHEEL}")
    assert answer["Body"].read() == b"wheel"
    assert answer["ContentType"] == "application/zip"
    assert answer["Metadata"]["sha256"] == sha(b"wheel")
    # And what stands outside of the prefix is not ours.
    server.client().put_object(Bucket=bucket, Key="some/prefix2/x", Body=b"")
    server.client().put_object(Bucket=bucket, Key="x", Body=b"")
    assert keys(store) == [WHEEL]
    assert keys(open_store(f"s3://{bucket}")) == [f"some/prefix/{WHEEL}", "some/prefix2/x", "x"]
    assert (
        store.url(WHEEL)
        == f"{server.endpoint}/{bucket}/some/prefix/files/ab/torch-2%212.9.0%2Brocm7.1-py3-none-any.whl"
    )


@pytest.mark.parametrize("kind", ["juicefs", "moto"])
def test_an_object_without_our_metadata_is_compared_by_its_bytes(
    kind: str, addresses: Callable[[str], str], request: pytest.FixtureRequest
) -> None:
    address = addresses(kind)
    store = open_store(address)
    bucket = address.split("/")[2]
    request.getfixturevalue(kind).client().put_object(Bucket=bucket, Key="some/prefix/x", Body=b"by hand")
    store.put_bytes("x", b"by hand")
    with pytest.raises(IntegrityError, match="refusing to replace"):
        store.put_bytes("x", b"my hand")


@pytest.mark.parametrize(
    ("login", "said"),
    [
        ({"key": "nobody"}, "does not accept these credentials .InvalidAccessKeyId."),
        ({"secret": "not-the-secret"}, "does not accept these credentials .SignatureDoesNotMatch."),
    ],
)
def test_wrong_credentials_are_refused_by_name_and_never_repeated(
    juicefs: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, login: dict[str, str], said: str
) -> None:
    bucket = juicefs.new_bucket()
    use(monkeypatch, juicefs.environment(**login))
    store = open_store(f"s3://{bucket}/p")
    (tmp_path / "f").write_bytes(b"x")
    with pytest.raises(InvalidInput, match=said) as refused:
        store.list("")
    shown = [str(refused.value)]
    # A HEAD has no body, so nobody says why: the right and the credentials are both named.
    for act in (
        lambda: store.put_bytes("a", b""),
        lambda: store.put_file(tmp_path / "f", "a"),
        lambda: store.stat("a"),
    ):
        with pytest.raises(
            InvalidInput, match=r"s3:GetObject .* or the credentials are wrong|does not let"
        ) as refused:
            act()
        shown.append(str(refused.value))
    with pytest.raises(InvalidInput, match=said):
        store.put_bytes("a", b"", overwrite=True)
    assert not any(
        secret in text for text in shown for secret in ("testsecret", "not-the-secret", "Signature=")
    )
    use(monkeypatch, juicefs.environment())
    assert open_store(f"s3://{bucket}/p").list("") == ()


def test_credentials_of_a_profile_and_where_its_server_is(
    juicefs: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    bucket = juicefs.new_bucket()
    use(monkeypatch, {"HOME": str(tmp_path), "AWS_PROFILE": "lab"})
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "config").write_text(
        f"[profile lab]\nregion = us-east-1\nendpoint_url = {juicefs.endpoint}\n"
    )
    credentials = tmp_path / ".aws" / "credentials"
    credentials.write_text(f"[lab]\naws_access_key_id = {KEY}\naws_secret_access_key = {SECRET}\n")
    open_store(f"s3://{bucket}").put_bytes("a", b"1")
    assert open_store(f"s3://{bucket}").read("a") == b"1"
    credentials.write_text(f"[lab]\naws_access_key_id = {KEY}\naws_secret_access_key = another\n")
    with pytest.raises(InvalidInput, match="SignatureDoesNotMatch"):
        open_store(f"s3://{bucket}").list("")


def test_a_server_with_a_certificate_of_its_own_authority(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(MotoTLS(tmp_path / "server")) as server:
        bucket = server.new_bucket()
        use(monkeypatch, server.environment())
        monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
        with pytest.raises(Unreachable, match="does not trust the certificate"):
            open_store(f"s3://{bucket}").list("")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(server.authority))
        store = open_store(f"s3://{bucket}")
        store.put_bytes("a", b"1")
        assert store.read("a") == b"1"


@pytest.mark.parametrize(
    ("kind", "not_honoured"), [("juicefs", {"create-only"}), ("moto", {"wrong-checksum-refused"})]
)
def test_what_a_server_honours_is_found_out(
    kind: str, not_honoured: set[str], addresses: Callable[[str], str]
) -> None:
    store = open_store(addresses(kind))
    found = probe(store)
    assert {one.id for one in found.findings if one.holds is not True} == not_honoured
    assert found.missing == () and store.list("") == ()


@pytest.mark.parametrize("kind", ["juicefs", "moto"])
def test_a_bucket_that_is_not_there(kind: str, addresses: Callable[[str], str]) -> None:
    addresses(kind)
    store = open_store("s3://no-such-bucket/p")
    for act in (lambda: store.put_bytes("a", b""), lambda: store.list(""), lambda: store.folders("")):
        with pytest.raises(InvalidInput, match="there is no bucket for s3://no-such-bucket/p"):
            act()


def test_a_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    dead = JuiceFS(tmp_path)
    use(monkeypatch, dead.environment())
    store = open_store("s3://bucket")
    for act in (lambda: store.list(""), lambda: store.put_bytes("a", b"")):
        with pytest.raises(Unreachable, match=r"s3://bucket did not .*: no answer"):
            act()


def test_a_restart_loses_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = filled(tmp_path / "large.whl", 20)
    with running(JuiceFS(tmp_path / "server")) as server:
        use(monkeypatch, server.environment())
        address = f"s3://{server.new_bucket()}"
        open_store(address).put_file(tmp_path / "large.whl", WHEEL)
        open_store(address).put_bytes("v2/f/index.html", b"page")
        before = open_store(address).list("")
        server.restart()
        store = open_store(address)
        assert store.list("") == before
        assert store.digest(WHEEL) == digest
        assert isinstance(store, RemoteStore) and store.headers(WHEEL)["sha256"] == digest
        store.put_file(tmp_path / "large.whl", WHEEL)


def test_a_server_that_dies_in_the_middle_of_an_upload(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [tmp_path / f"{name}.whl" for name in "abc"]
    digests = [filled(path, 24) for path in files]
    with running(JuiceFS(tmp_path / "server")) as server:
        use(monkeypatch, server.environment())
        address = f"s3://{server.new_bucket()}"
        with Stutter(server.port) as between:
            monkeypatch.setenv("AWS_ENDPOINT_URL", between.endpoint)
            store = open_store(address)
            store.put_file(files[0], "files/a.whl")
            # In the middle of the second file: after some of its parts.
            between.after(12 * MIB, server.kill)
            with pytest.raises(Unreachable, match=r"did not (write|read) files/b.whl"):
                for path in files[1:]:
                    store.put_file(path, f"files/{path.name}")
        assert server.process is None, "it was killed"
        server.start()
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        store = open_store(address)
        assert keys(store) == ["files/a.whl"], "nothing half is there"
        for path in files:
            store.put_file(path, f"files/{path.name}")
        assert [store.digest(key) for key in keys(store)] == digests


@pytest.mark.parametrize("kind", ["juicefs", "moto"])
@pytest.mark.parametrize("mib", [1, 20])
def test_an_answer_that_is_lost_is_no_failure(
    kind: str, mib: int, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server: S3Server = request.getfixturevalue(kind)
    digest = filled(tmp_path / "f.whl", mib)
    bucket = server.new_bucket()
    with Stutter(server.port) as between:
        use(monkeypatch, {**server.environment(), "AWS_ENDPOINT_URL": between.endpoint})
        store = open_store(f"s3://{bucket}")
        # The server has done what it was asked, and nobody hears of it.
        between.lose_answers("PUT" if mib == 1 else "complete", 1)
        store.put_file(tmp_path / "f.whl", "files/f.whl")
        assert between.lost == 1
        between.lose_answers("PUT", 1)
        store.put_bytes("v2/index.html", b"page", overwrite=True)
        between.lose_answers("DELETE", 1)
        store.delete("v2/index.html")
        assert between.lost == 3
        assert keys(store) == ["files/f.whl"] and store.digest("files/f.whl") == digest


@pytest.mark.parametrize("kind", ["juicefs", "moto"])
def test_a_lost_answer_to_a_creation_that_somebody_else_won(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: S3Server = request.getfixturevalue(kind)
    bucket = server.new_bucket()
    with Stutter(server.port) as between:
        use(monkeypatch, {**server.environment(), "AWS_ENDPOINT_URL": between.endpoint})
        store = open_store(f"s3://{bucket}")
        # The request never arrives, and in the meantime the other one does.
        between.lose_requests(
            "PUT", 1, lambda: server.client().put_object(Bucket=bucket, Key="k", Body=b"theirs")
        )
        with pytest.raises(IntegrityError, match="refusing to replace"):
            store.put_bytes("k", b"mine")
        assert store.read("k") == b"theirs"


def test_passing_errors_are_tried_again_and_refusals_are_not(
    moto: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = moto.new_bucket()
    with Stutter(moto.port) as between:
        use(monkeypatch, {**moto.environment(), "AWS_ENDPOINT_URL": between.endpoint})
        store = open_store(f"s3://{bucket}")
        between.answer_instead("PUT", 2, 503, "SlowDown")
        store.put_bytes("k", b"x")
        assert between.instead == 2
        before = between.requests("PUT")
        between.answer_instead("PUT", 99, 403, "AccessDenied")
        with pytest.raises(
            InvalidInput, match=r"does not let these credentials write q .403 AccessDenied."
        ) as no:
            store.put_bytes("q", b"x")
        assert "s3:PutObject" in str(no.value)
        assert between.requests("PUT") == before + 1, "a refusal is not asked for twice"
        between.answer_instead("PUT", 99, 403, "RequestTimeTooSkewed")
        with pytest.raises(InvalidInput, match="the clock of this machine is too far from its own"):
            store.put_bytes("q", b"x")
        between.answer_instead("PUT", 99, 400, "EntityTooLarge")
        with pytest.raises(InvalidInput, match=r"refuses to write q .400 EntityTooLarge."):
            store.put_bytes("q", b"x")
        between.answer_instead("PUT", 99, 500, "InternalError")
        with pytest.raises(Unreachable, match="did not write q: 500 InternalError"):
            store.put_bytes("q", b"x")
        between.answer_instead("GET", 1, 403, "AccessDenied")
        with pytest.raises(InvalidInput, match="s3:ListBucket"):
            store.list("")
        assert keys(store) == ["k"]


@pytest.mark.parametrize("size", [10, 20 * MIB])
def test_a_body_that_was_damaged_on_the_way_is_sent_again(
    juicefs: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, size: int
) -> None:
    data = os.urandom(size)
    (tmp_path / "f").write_bytes(data)
    bucket = juicefs.new_bucket()
    with Stutter(juicefs.port) as between:
        use(monkeypatch, {**juicefs.environment(), "AWS_ENDPOINT_URL": between.endpoint})
        store = open_store(f"s3://{bucket}")
        between.cut_bodies("PUT", 1)
        store.put_file(tmp_path / "f", "k")
        assert store.digest("k") == sha(data)
        # And where it is damaged every time, it is said, and nothing is there.
        between.cut_bodies("PUT", 999)
        with pytest.raises(Unreachable, match="did not write q: 400"):
            store.put_file(tmp_path / "f", "q")
        assert keys(store) == ["k"]


def test_an_object_that_is_replaced_while_it_is_sent_is_read_again(
    moto: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = moto.new_bucket()
    versions = [os.urandom(5000 - number) for number in range(12)]
    use(monkeypatch, moto.environment())
    writer = open_store(f"s3://{bucket}")
    left = iter(versions)

    def replace() -> None:
        writer.put_bytes("k", next(left), overwrite=True)

    replace()
    with Stutter(moto.port) as between:
        use(monkeypatch, {**moto.environment(), "AWS_ENDPOINT_URL": between.endpoint})
        store = open_store(f"s3://{bucket}")
        between.cut_answers("GET", 1, replace)
        assert store.read("k") == versions[1]
        between.cut_answers("GET", 1, replace)
        assert store.digest("k") == sha(versions[2])
        between.cut_answers("GET", 999, replace)
        with pytest.raises(Unreachable, match="did not read k: no answer"):
            store.read("k")


@pytest.mark.parametrize("kind", ["juicefs", "moto"])
def test_an_upload_that_is_refused_in_the_middle_leaves_no_parts(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server: S3Server = request.getfixturevalue(kind)
    filled(tmp_path / "f", 20)
    bucket = server.new_bucket()
    with Stutter(server.port) as between:
        use(monkeypatch, {**server.environment(), "AWS_ENDPOINT_URL": between.endpoint})
        between.answer_instead("PUT", 999, 403, "AccessDenied")
        with pytest.raises(InvalidInput, match="s3:PutObject"):
            open_store(f"s3://{bucket}").put_file(tmp_path / "f", "k")
    assert "Uploads" not in server.client().list_multipart_uploads(Bucket=bucket)


@pytest.mark.parametrize("kind", ["juicefs", "moto"])
def test_two_at_once_where_the_server_says_so(
    kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    server: S3Server = request.getfixturevalue(kind)
    bucket = server.new_bucket()
    with Stutter(server.port) as between:
        use(monkeypatch, {**server.environment(), "AWS_ENDPOINT_URL": between.endpoint})
        store = open_store(f"s3://{bucket}")
        # As S3 answers a conditional write while another one is under way, which then fails.
        between.answer_instead("PUT", 2, 409, "ConditionalRequestConflict")
        store.put_bytes("k", b"mine")
        assert between.instead == 2 and store.read("k") == b"mine"


def test_an_upload_that_the_server_cut_short_is_noticed_and_removed(
    moto: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = moto.new_bucket()
    with Stutter(moto.port) as between:
        use(monkeypatch, {**moto.environment(), "AWS_ENDPOINT_URL": between.endpoint})
        store = open_store(f"s3://{bucket}")
        between.cut_bodies("PUT", 1)
        with pytest.raises(IntegrityError, match="kept 5 of the 10 bytes of k"):
            store.put_bytes("k", b"0123456789")
        assert keys(store) == []
        store.put_bytes("k", b"0123456789")
        assert store.read("k") == b"0123456789"


def test_a_run_that_was_killed_goes_on_with_what_is_missing(
    moto: S3Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    paths = [tmp_path / f"{number}.whl" for number in range(6)]
    for path in paths:
        filled(path, 1)
    bucket = moto.new_bucket()
    with Stutter(moto.port) as between:
        use(monkeypatch, {**moto.environment(), "AWS_ENDPOINT_URL": between.endpoint})
        store = open_store(f"s3://{bucket}")
        for path in paths[:4]:
            store.put_file(path, f"files/{path.name}")
        sent = between.requests("PUT")
        for path in paths:
            store.put_file(path, f"files/{path.name}")
        assert between.requests("PUT") - sent == 2, "what is there is not sent again"


def test_errors_are_ours(addresses: Callable[[str], str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the client's own tree comes through, whatever is asked of a server that speaks no S3."""

    class Nonsense(BaseHTTPRequestHandler):
        def nonsense(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", "3")
            self.end_headers()
            self.wfile.write(b"<a>")

        def log_message(self, *args: object) -> None:
            pass

    for method in ("GET", "PUT", "HEAD", "DELETE"):
        setattr(Nonsense, f"do_{method}", Nonsense.nonsense)
    server = HTTPServer(("127.0.0.1", 0), Nonsense)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        endpoint = f"http://127.0.0.1:{server.server_address[1]}"
        use(
            monkeypatch,
            {"AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b", "AWS_ENDPOINT_URL": endpoint},
        )
        store = open_store("s3://bucket")
        for act in (lambda: store.list(""), lambda: store.folders(""), lambda: store.put_bytes("a", b"x")):
            with pytest.raises(RocwrightError):
                act()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()

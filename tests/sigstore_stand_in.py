"""A stand-in for the public Sigstore instance: a certificate authority, its log, and a transparency log.

Keys are made anew for each; nothing of the public instance is in it. What it signs has the form of a
publish attestation (PEP 740), and `trust` puts its root where Sigstore's own client keeps that of the public
instance, so that this client verifies it offline, unchanged.
"""

from __future__ import annotations

import base64
import hashlib
import json
import struct
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any
from urllib.parse import quote

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

PUBLIC_INSTANCE = "https://tuf-repo-cdn.sigstore.dev"
ISSUER = "https://token.actions.githubusercontent.com"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
PUBLISH = "https://docs.pypi.org/attestations/publish/v1"
_CLAIMS = "1.3.6.1.4.1.57264.1."
_TIMESTAMPS = "1.3.6.1.4.1.11129.2.4.2"
_ORIGIN = "rekor.stand-in.example"


class StandIn:
    """One instance; the workflow that it gives certificates to is `repository`, `workflow`."""

    def __init__(self, repository: str = "acme/wheels", workflow: str = "release.yml") -> None:
        self.repository, self.workflow = repository, workflow
        self.now = datetime.now(timezone.utc).replace(microsecond=0)
        self._ca, self._ct, self._log = (ec.generate_private_key(ec.SECP256R1()) for _ in range(3))
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "stand-in for Fulcio")])
        self._root = (
            x509.CertificateBuilder(name, name, self._ca.public_key(), x509.random_serial_number())
            .not_valid_before(self.now - timedelta(days=1))
            .not_valid_after(self.now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs_certificates=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._ca.public_key()), critical=False)
            .sign(self._ca, hashes.SHA256())
        )

    def attest(
        self, name: str, sha256: str, *, ref: str = "refs/heads/main", kind: str = PUBLISH
    ) -> dict[str, Any]:
        """A publish attestation of a file, as JSON of PEP 740."""
        statement = json.dumps(
            {
                "_type": "https://in-toto.io/Statement/v1",
                "subject": [{"name": name, "digest": {"sha256": sha256}}],
                "predicateType": kind,
                "predicate": None,
            }
        ).encode()
        key = ec.generate_private_key(ec.SECP256R1())
        certificate = self._certificate(key.public_key(), ref)
        what = b"application/vnd.in-toto+json"
        signed = b"DSSEv1 %d %s %d %s" % (len(what), what, len(statement), statement)
        signature = _sign(key, signed)
        return {
            "version": 1,
            "verification_material": {
                "certificate": _b64(certificate.public_bytes(serialization.Encoding.DER)),
                "transparency_entries": [self._entry(certificate, statement, signature)],
            },
            "envelope": {"statement": _b64(statement), "signature": _b64(signature)},
        }

    def trust(self, cache: Path) -> None:
        """Make its root that of the public instance for clients whose `XDG_CACHE_HOME` is `cache`."""
        folder = cache / "sigstore-python" / "tuf" / quote(PUBLIC_INSTANCE, safe="")
        folder.mkdir(parents=True)
        since = {"start": (self.now - timedelta(days=1)).isoformat().replace("+00:00", "Z")}
        root = {
            "mediaType": "application/vnd.dev.sigstore.trustedroot+json;version=0.1",
            "tlogs": [_instance(self._log, since)],
            "ctlogs": [_instance(self._ct, since)],
            "certificateAuthorities": [
                {
                    "subject": {"organization": "stand-in", "commonName": "stand-in for Fulcio"},
                    "uri": "https://fulcio.stand-in.example",
                    "certChain": {
                        "certificates": [
                            {"rawBytes": _b64(self._root.public_bytes(serialization.Encoding.DER))}
                        ]
                    },
                    "validFor": since,
                }
            ],
        }
        (folder / "trusted_root.json").write_text(json.dumps(root))

    def _certificate(self, key: ec.EllipticCurvePublicKey, ref: str) -> x509.Certificate:
        source = f"https://github.com/{self.repository}"
        config = f"{source}/.github/workflows/{self.workflow}@{ref}"
        claims = {"8": ISSUER, "12": source, "13": COMMIT, "14": ref, "18": config}
        builder = (
            x509.CertificateBuilder(self._root.subject, x509.Name([]), key, x509.random_serial_number())
            .not_valid_before(self.now - timedelta(minutes=5))
            .not_valid_after(self.now + timedelta(minutes=5))
            .add_extension(x509.SubjectAlternativeName([x509.UniformResourceIdentifier(config)]), True)
            .add_extension(_usage(signs_certificates=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CODE_SIGNING]), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._ca.public_key()), critical=False
            )
        )
        for number, value in claims.items():
            oid = x509.ObjectIdentifier(_CLAIMS + number)
            claim = x509.UnrecognizedExtension(oid, _der(0x0C, value.encode()))
            builder = builder.add_extension(claim, False)
        before = builder.sign(self._ca, hashes.SHA256()).tbs_certificate_bytes
        promised = self._promise(before)
        oid = x509.ObjectIdentifier(_TIMESTAMPS)
        return builder.add_extension(x509.UnrecognizedExtension(oid, _der(0x04, promised)), False).sign(
            self._ca, hashes.SHA256()
        )

    def _promise(self, before: bytes) -> bytes:
        """A list of one certificate timestamp (RFC 6962) for a certificate that has none yet."""
        at = int(self.now.timestamp() * 1000)
        issuer = _key_id(self._ca)
        told = struct.pack("!BBQH", 0, 0, at, 1) + issuer + len(before).to_bytes(3, "big") + before + b"\0\0"
        signature = _sign(self._ct, told)
        one = b"\0" + _key_id(self._ct) + struct.pack("!QH", at, 0) + b"\4\3"
        one += struct.pack("!H", len(signature)) + signature
        return struct.pack("!HH", len(one) + 2, len(one)) + one

    def _entry(self, certificate: x509.Certificate, statement: bytes, signature: bytes) -> dict[str, Any]:
        """An entry of the transparency log, whose only leaf it is."""
        body = json.dumps(
            {
                "apiVersion": "0.0.1",
                "kind": "dsse",
                "spec": {
                    "envelopeHash": {"algorithm": "sha256", "value": "0" * 64},
                    "payloadHash": {"algorithm": "sha256", "value": hashlib.sha256(statement).hexdigest()},
                    "signatures": [
                        {
                            "signature": _b64(signature),
                            "verifier": _b64(certificate.public_bytes(serialization.Encoding.PEM)),
                        }
                    ],
                },
            }
        ).encode()
        root, log = hashlib.sha256(b"\0" + body).digest(), _key_id(self._log)
        note = f"{_ORIGIN}\n1\n{_b64(root)}\n"
        at = int(self.now.timestamp())
        # As RFC 8785 writes it: sorted, without spaces.
        promised = json.dumps(
            {"body": _b64(body), "integratedTime": at, "logID": log.hex(), "logIndex": 0},
            separators=(",", ":"),
        ).encode()
        signed_note = log[:4] + _sign(self._log, note.encode())
        return {
            "logIndex": "0",
            "logId": {"keyId": _b64(log)},
            "kindVersion": {"kind": "dsse", "version": "0.0.1"},
            "integratedTime": str(at),
            "inclusionPromise": {"signedEntryTimestamp": _b64(_sign(self._log, promised))},
            "inclusionProof": {
                "logIndex": "0",
                "rootHash": _b64(root),
                "treeSize": "1",
                "hashes": [],
                "checkpoint": {"envelope": f"{note}\n\u2014 {_ORIGIN} {_b64(signed_note)}\n"},
            },
            "canonicalizedBody": _b64(body),
        }


def _instance(key: ec.EllipticCurvePrivateKey, since: dict[str, str]) -> dict[str, Any]:
    return {
        "baseUrl": f"https://{_ORIGIN}",
        "hashAlgorithm": "SHA2_256",
        "publicKey": {
            "rawBytes": _b64(_public(key)),
            "keyDetails": "PKIX_ECDSA_P256_SHA_256",
            "validFor": since,
        },
        "logId": {"keyId": _b64(_key_id(key))},
    }


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    none = dict.fromkeys(
        (
            "content_commitment",
            "key_encipherment",
            "data_encipherment",
            "key_agreement",
            "encipher_only",
            "decipher_only",
        ),
        False,
    )
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        **none,
    )


def _sign(key: ec.EllipticCurvePrivateKey, data: bytes) -> bytes:
    return key.sign(data, ec.ECDSA(hashes.SHA256()))


def _public(key: ec.EllipticCurvePrivateKey) -> bytes:
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    return key.public_key().public_bytes(serialization.Encoding.DER, form)


def _key_id(key: ec.EllipticCurvePrivateKey) -> bytes:
    return hashlib.sha256(_public(key)).digest()


def _der(tag: int, data: bytes) -> bytes:
    """One value in DER, up to 65,535 bytes."""
    size = len(data)
    length = bytes([size]) if size < 128 else b"\x82" + size.to_bytes(2, "big")
    return bytes([tag]) + length + data


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode()

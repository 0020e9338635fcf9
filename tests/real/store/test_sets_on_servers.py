"""A set from files to a release at the command line, on every kind of store that outlives a process."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ed25519

from command_line import day
from rocwright.store.objects.address import open_store
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.objects.serve import serving
from wheels import write_wheel

KINDS = ("folder", "juicefs", "moto")


@pytest.fixture(params=KINDS)
def address(request: pytest.FixtureRequest, addresses: Callable[[str], str]) -> str:
    """A store that outlives the process, as the processes of one release share it."""
    return addresses(request.param)


class Shop:
    """Runs commands in a directory against a store, each in a process of its own."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder, self.address = folder, address
        # PEM of the private key that commands sign with.
        self.key = ""

    def __call__(self, *words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [sys.executable, "-m", "rocwright", "set", *map(str, words)],
            cwd=self.folder,
            env={**os.environ, "ROCWRIGHT_STORE": self.address, "ROCWRIGHT_SIGNING_KEY": self.key},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert "Traceback" not in done.stderr
        return done

    def wheels(self, version: str) -> Path:
        """mylib, and helper, which it requires exactly."""
        here = self.folder / f"dist-{version}"
        write_wheel(here, "helper", version, {"helper/__init__.py": ""}, tag="py3-none-any")
        files = {"mylib/__init__.py": f"version = {version!r}\n", "mylib/data.bin": os.urandom(1 << 20)}
        requires = [f"helper=={version}"]
        write_wheel(here, "mylib", f"{version}+r1", files, tag="py3-none-any", requires=requires)
        return here


@pytest.fixture
def shop(tmp_path: Path, address: str) -> Shop:
    return Shop(tmp_path, address)


def contents(store: ObjectStore) -> dict[str, str]:
    return {one.key: store.digest(one.key) for one in store.list("") if not one.key.startswith("_leases/")}


def test_from_files_to_a_release_that_pip_installs(shop: Shop, tmp_path: Path) -> None:
    key = ed25519.Ed25519PrivateKey.generate()
    (tmp_path / "key.pem").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    shop.key = (tmp_path / "key.pem").read_text()
    public = "ed25519:" + base64.b64encode(key.public_key().public_bytes_raw()).decode()
    (tmp_path / "rocwright.toml").write_text(f'[channels.trusted]\nrelease = ["{public}"]\n')
    about = ("--family", "fam", "--target", "gfx942")
    digest = shop("create", shop.wheels("1.0"), *about, "--stage").stdout.strip()
    store = open_store(shop.address)
    before = contents(store)
    shop("create", tmp_path / "dist-1.0", *about, "--stage")
    assert contents(store) == before

    for suite in ("rocm-sdk", "smoke-host"):
        shop("state", digest, "--suite", suite, "--result", "passed")
    gpu = ("state", digest[:10], "--suite", "smoke-gpu", "--target", "gfx942")
    shop(*gpu, "--result", "skipped", "--no-runner")
    assert "is not signed with a key that release trusts" in shop("promote", "newest", code=10).stderr
    assert shop("sign", digest, "--key", "key.pem").stdout.strip() == public
    assert "smoke-gpu on gfx942: no runner" in shop("promote", "newest", code=10).stderr
    shop(*gpu, "--bypass", "--reason", "no such GPU in the lab", "--expires", day(30))
    files = {key: value for key, value in contents(store).items() if key.startswith("files/")}
    assert "NOT TESTED" in " ".join(shop("promote", "newest", "--by", "nightly").stdout.split())
    # Nothing was copied, nothing was changed.
    assert {key: value for key, value in contents(store).items() if key.startswith("files/")} == files
    shop("verify", "release:fam", "--key", public)

    with serving(store) as url:
        subprocess.run([sys.executable, "-m", "venv", str(tmp_path / "env")], check=True)
        place = tmp_path / "env" / "bin" / "python"
        subprocess.run(
            [str(place), "-m", "pip", "install", "-q", "--index-url", f"{url}v2/fam/", "mylib"], check=True
        )
    said = subprocess.run(
        [str(place), "-c", "import mylib; print(mylib.version)"], check=True, capture_output=True, text=True
    )
    assert said.stdout == "1.0\n"

    second = shop("create", shop.wheels("2.0"), *about, "--no-install").stdout.strip()
    diff = json.loads(shop("diff", "release", second, "--json").stdout)
    assert diff["summary"] == "moved: helper 1.0 to 2.0, mylib 1.0+r1 to 2.0+r1"


def test_a_file_that_was_changed_in_the_store_is_told_and_not_released(shop: Shop) -> None:
    digest = shop("create", shop.wheels("1.0"), "--family", "fam", "--stage", "--no-install").stdout.strip()
    store = open_store(shop.address)
    [key] = [one.key for one in store.list("files/") if one.key.endswith("mylib-1.0+r1-py3-none-any.whl")]
    data = bytearray(store.read(key))
    data[100_000] ^= 1
    store.put_bytes(key, bytes(data), overwrite=True)
    assert f"{key}: its sha256 is" in shop("verify", digest, code=6).stdout
    assert shop("verify", digest, "--quick").returncode == 0
    for suite in ("rocm-sdk", "smoke-host", "smoke-gpu"):
        shop("state", digest, "--suite", suite, "--result", "passed")
    assert "the tested file has" in shop("promote", digest, code=6).stderr
    assert store.list("v2/") == ()

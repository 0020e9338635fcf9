from __future__ import annotations

import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import date
from pathlib import Path

import pytest

from rocwright.model.manifest import new_set
from rocwright.model.statement import FINDINGS, about_set
from rocwright.store.objects import LocalStore
from rocwright.store.publish import describe_files, stage_set, upload_run
from rocwright.store.serve import serving


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "torch").mkdir(parents=True)
    (root / "empty").mkdir()
    (root / "torch" / "index.html").write_text("page")
    (root / "a-1+r.whl").write_bytes(b"wheel")
    (root / "a-1+r.whl.metadata").write_bytes(b"metadata")
    (root / "half.whl.partial").write_bytes(b"ha")
    (tmp_path / "secret").write_text("secret")
    (root / "way-out").symlink_to(tmp_path / "secret")
    return root


def get(url: str) -> tuple[int, str, bytes]:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, "", b""


def test_files_and_types(root: Path) -> None:
    with serving(root) as base:
        assert base.startswith("http://127.0.0.1:")
        assert get(f"{base}a-1%2Br.whl") == (200, "application/zip", b"wheel")
        assert get(f"{base}a-1%2Br.whl.metadata") == (200, "text/plain; charset=utf-8", b"metadata")
        assert get(f"{base}torch/") == (200, "text/html; charset=utf-8", b"page")
        # without the slash: redirected
        assert get(f"{base}torch") == (200, "text/html; charset=utf-8", b"page")


@pytest.mark.parametrize(
    "path", ["", "empty/", "none", "half.whl.partial", "way-out", "%2e%2e/secret", "../secret"]
)
def test_what_is_not_published_is_not_served(root: Path, path: str) -> None:
    with serving(root) as base:
        assert get(base + path)[0] == 404


def test_the_port_is_closed_afterwards(root: Path) -> None:
    with serving(root) as base:
        port = int(base.rstrip("/").rpartition(":")[2])
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=2)


def test_pip_installs_from_index_and_find_links_over_http_and_from_the_folder(
    tmp_path: Path, make_wheel: Callable[..., Path]
) -> None:
    wheels = [make_wheel("torchx", "2.9.0+rocm7.1", requires=["rocmx==7.1"]), make_wheel("rocmx", "7.1")]
    store = LocalStore(tmp_path / "store")
    manifest = new_set(
        family="fam", targets=["gfx90a"], platform="linux", files=describe_files(wheels), sources={}
    )
    checked = {"passed": True, "files": [wheel.name for wheel in wheels]}
    staged = stage_set(store, manifest, wheels, [about_set(manifest, FINDINGS, checked)], date(2026, 11, 21))
    run = upload_run(store, wheels, "7", "linux", "fam", "pytorch")
    with serving(store.root) as base:
        ways = [
            ["--index-url", base + staged.prefix],
            ["--index-url", staged.index_url],
            ["--no-index", "--find-links", f"{base}{run.prefix}index.html"],
            ["--no-index", "--find-links", run.url],
        ]
        for number, way in enumerate(ways):
            target = tmp_path / f"target{number}"
            argv = [sys.executable, "-m", "pip", "install", "--no-cache-dir", "--target", str(target), *way]
            environment = {**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
            subprocess.run(
                [*argv, "torchx==2.9.0+rocm7.1"], check=True, capture_output=True, env=environment, timeout=60
            )
            assert (target / "torchx" / "__init__.py").read_text() == "version = '2.9.0+rocm7.1'\n"
            assert (target / "rocmx-7.1.dist-info").is_dir()

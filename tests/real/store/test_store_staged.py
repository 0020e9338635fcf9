"""A set goes into a channel of every kind of store, and pip installs it from there by name."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime, timezone
from pathlib import Path

from rocwright.data import load_table
from rocwright.model.channels import Channels
from rocwright.model.sets import FINDINGS, about_set, new_set
from rocwright.store.objects.protocol import ObjectStore
from rocwright.store.objects.serve import serving
from rocwright.store.pool import describe_files
from rocwright.store.sets.stage import stage_set
from wheels import ANY, write_wheel

NOW = datetime(2026, 11, 21, tzinfo=timezone.utc)


def test_staged_and_installed(store: ObjectStore, tmp_path: Path) -> None:
    wheels = [
        write_wheel(
            tmp_path / "dist",
            "torchx",
            "2.9.0+rocm7.1",
            {"torchx/__init__.py": "version = '2.9.0+rocm7.1'\n"},
            requires=["rocmx==7.1"],
            tag=ANY,
        ),
        write_wheel(tmp_path / "dist", "rocmx", "7.1", {"rocmx/__init__.py": ""}, tag=ANY),
    ]
    manifest = new_set(
        family="fam", targets=["gfx90a"], platform="linux", files=describe_files(wheels), sources={}
    )
    checked = {"passed": True, "files": [wheel.name for wheel in wheels]}
    statements = [about_set(manifest, FINDINGS, checked)]
    staging = load_table("channels", Channels).named("staging")
    stage_set(store, staging, manifest, wheels, statements, NOW)
    before = store.list("")
    # Again, as after a kill: nothing is written that is there.
    stage_set(store, staging, manifest, wheels, statements, NOW)
    assert [(one.key, one.size) for one in store.list("")] == [(one.key, one.size) for one in before]
    requests: list[str] = []
    with serving(store, requests=requests) as base:
        subprocess.run(
            [
                *(sys.executable, "-m", "pip", "install", "--no-cache-dir"),
                *("--target", str(tmp_path / "target"), "--index-url", f"{base}v2-staging/fam/", "torchx"),
            ],
            env={**os.environ, "PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
            check=True,
            capture_output=True,
            timeout=120,
        )
    assert (tmp_path / "target" / "torchx" / "__init__.py").read_text() == "version = '2.9.0+rocm7.1'\n"
    assert (tmp_path / "target" / "rocmx").is_dir()
    assert "/v2-staging/fam/_json/torchx/" in requests, "pip prefers JSON, and was sent to it"

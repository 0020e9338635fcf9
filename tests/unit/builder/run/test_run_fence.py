"""What a build that is kept from the network says, and when no namespace of its own is made for it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rocwright.builder.run import fence
from rocwright.builder.run.fence import wants_network
from rocwright.builder.units.launch import launcher_environment, write_launchers


@pytest.mark.parametrize(
    "said",
    [
        "fatal: unable to access 'https://github.com/NVIDIA/cutlass.git/': Could not resolve proxy: nowhere",
        "fatal: transport 'https' not allowed",
        "curl: (6) Could not resolve host: example.org",
        "curl: (7) Failed to connect to 127.0.0.1 port 9 after 0 ms: Couldn't connect to server",
        "urllib.error.URLError: <urlopen error [Errno 111] Connection refused>",
        "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
        "OSError: [Errno 101] Network is unreachable",
        "ERROR: No matching distribution found for cmake>=3.26",
        "requests.exceptions.ProxyError: HTTPSConnectionPool(host='example.org', port=443)",
    ],
)
def test_a_build_without_a_network_is_recognised(said: str) -> None:
    assert wants_network(f"running build_ext\n{said}\n")


def test_other_failures_are_not_taken_for_it() -> None:
    assert not wants_network(
        "csrc/kernel.hip:7:10: fatal error: 'cub/cub.cuh' file not found\nninja: build stopped"
    )


LAUNCHER = "CMAKE_CXX_COMPILER_LAUNCHER"


@pytest.mark.parametrize(
    ("cache", "caller", "env", "apart"),
    [
        ("sccache", {}, {}, False),
        ("", {LAUNCHER: "/opt/sccache"}, {}, False),
        ("", {}, {"CXX": "sccache g++"}, False),
        ("ccache", {}, {"CCACHE_REMOTE_STORAGE": "http://cache.example.org"}, False),
        ("ccache", {}, {"CCACHE_SECONDARY_STORAGE": "redis://cache.example.org"}, False),
        # What is only set, and not used.
        ("", {}, {"SCCACHE_BUCKET": "somewhere"}, True),
        ("ccache", {}, {"SCCACHE_BUCKET": "somewhere"}, True),
    ],
)
@pytest.mark.parametrize("record", [True, False])
def test_a_cache_on_a_server_keeps_its_network(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    cache: str,
    caller: dict[str, str],
    env: dict[str, str],
    apart: bool,
    record: bool,
) -> None:
    monkeypatch.setattr(fence, "_namespace", lambda: ("apart",))
    write_launchers(tmp_path, cache=cache, caller=caller)
    launchers = launcher_environment(tmp_path, cache=cache, record=record, caller=caller)
    assert fence.fence_command({**caller, **env, **launchers}) == (("apart",) if apart else ())

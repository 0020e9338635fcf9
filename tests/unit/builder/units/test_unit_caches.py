"""Counts of compiler caches around a build, with programs that print what the real ones do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rocwright.builder.decide.plan import CacheUse
from rocwright.builder.units.caches import CacheCounter, advice

# As ccache 4.7.5 and sccache 0.16.0 print them.
CCACHE = (
    "stats_updated_timestamp\t1795311024\ncache_miss\t{miss}\ndirect_cache_hit\t{direct}\n"
    "preprocessed_cache_hit\t{plain}\ncalled_for_link\t7\nunsupported_compiler_option\t{odd}\n"
)
SCCACHE = (
    '{{"stats":{{"compile_requests":9,"requests_not_cacheable":{odd},'
    '"cache_hits":{{"counts":{{"C/C++":{host},"HIP":{hip}}},"adv_counts":{{}}}},'
    '"cache_misses":{{"counts":{{"HIP":{miss}}},"adv_counts":{{}}}}}},"cache_location":"Local disk"}}'
)


class Programs:
    """A directory of stand-ins, first on PATH."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        monkeypatch.setenv("PATH", f"{root}{os.pathsep}{os.environ['PATH']}")

    def add(self, name: str, script: str) -> None:
        path = self.root / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def answers(self, name: str, text: str) -> None:
        (self.root / f"{name}.answer").write_text(text)


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Programs:
    made = Programs(tmp_path, monkeypatch)
    made.add("ccache", f'[ "$1" = --print-stats ] && cat "{tmp_path}/ccache.answer"')
    script = f'echo "$* $SCCACHE_BASEDIRS" >> "{tmp_path}/said"\ncase $1 in\n'
    script += f'--start-server) if test -e "{tmp_path}/runs"; then cat "{tmp_path}/runs" >&2; exit 2; fi;;\n'
    script += f'--show-stats) cat "{tmp_path}/sccache.answer";;\nesac'
    made.add("sccache", script)
    return made


def test_ccache(programs):
    counter = CacheCounter("ccache")
    programs.answers("ccache", CCACHE.format(miss=10, direct=5, plain=2, odd=1))
    assert counter.before() == ""
    programs.answers("ccache", CCACHE.format(miss=13, direct=15, plain=3, odd=3))
    assert counter.after() == CacheUse("ccache", hits=11, misses=3, uncached=2)


def test_sccache_is_started_with_the_builds_settings_and_ended(programs):
    counter = CacheCounter("sccache", env={"SCCACHE_BASEDIRS": "/w"})
    programs.answers("sccache", SCCACHE.format(odd=0, host=0, hip=0, miss=0))
    counter.before()
    programs.answers("sccache", SCCACHE.format(odd=2, host=6, hip=3, miss=1))
    assert counter.after() == CacheUse("sccache", hits=9, misses=1, uncached=2, hip_hits=3, hip_misses=1)
    said = (programs.root / "said").read_text().splitlines()
    asked = "--show-stats --stats-format=json /w"
    assert said == ["--start-server /w", asked, asked, "--stop-server /w"]


def test_a_server_that_ran_already_goes_on(programs):
    (programs.root / "runs").write_text("sccache: error: Server startup failed: Address in use\n")
    programs.answers("sccache", SCCACHE.format(odd=0, host=4, hip=0, miss=0))
    counter = CacheCounter("sccache")
    counter.before()
    use = counter.after()
    assert use is not None
    assert (use.hits, use.note) == (
        0,
        "sccache's server ran already, so it kept the settings that it was started with",
    )
    assert "--stop-server" not in (programs.root / "said").read_text()


def test_a_server_that_its_storage_refuses_says_so(programs):
    """As sccache 0.16.0 does; where no server runs it answers all the same, with counts of nought."""
    (programs.root / "runs").write_text(
        "sccache: error: Server startup failed: cache storage failed to read: PermissionDenied (permanent)"
        ' at read => S3Error { code: "AccessDenied", message: "Access Denied" }\n\nContext:\n   path: x\n'
    )
    programs.answers("sccache", SCCACHE.format(odd=0, host=0, hip=0, miss=0))
    reason = CacheCounter("sccache").before()
    assert reason.startswith("cache storage failed to read: PermissionDenied")
    assert reason.endswith('code: "AccessDenied", message: "Access Denied" }')


def test_errors_of_the_storage_are_counted(programs):
    counter = CacheCounter("sccache")
    programs.answers("sccache", SCCACHE.format(odd=0, host=0, hip=0, miss=0))
    counter.before()
    failing = SCCACHE.format(odd=0, host=0, hip=0, miss=4)
    failing = failing.replace('"requests_not', '"cache_write_errors":4,"requests_not')
    programs.answers("sccache", failing)
    use = counter.after()
    assert use == CacheUse("sccache", misses=4, hip_misses=4, errors=4)
    said = "0 found, 4 compiled, 0 not kept; of device code 0 found, 4 compiled; 4 errors of its storage"
    assert use.line == f"sccache: {said}"


def test_counts_that_began_anew(programs):
    counter = CacheCounter("ccache")
    programs.answers("ccache", CCACHE.format(miss=500, direct=500, plain=0, odd=0))
    counter.before()
    programs.answers("ccache", CCACHE.format(miss=2, direct=3, plain=0, odd=0))
    use = counter.after()
    assert use is not None
    assert (use.hits, use.misses) == (3, 2)
    assert use.note == "ccache's counts began anew during the build; these are from then on"


@pytest.mark.parametrize("script", ["exit 3", "echo no statistics at all"])
def test_a_cache_that_gives_no_counts_fails_nothing(programs, script):
    programs.add("sccache", script)
    counter = CacheCounter("sccache")
    counter.before()
    assert counter.after() == CacheUse("sccache", note="sccache did not give its counts")


def test_a_cache_that_is_not_there_fails_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    counter = CacheCounter("ccache")
    assert "ccache" in counter.before()
    assert counter.after() == CacheUse("ccache", note="ccache did not give its counts")


def test_no_cache_no_counts():
    counter = CacheCounter("")
    counter.before()
    assert counter.after() is None


@pytest.mark.parametrize(
    ("text", "cache", "expected"),
    [
        ("ccache: error: execve failed: Invalid argument", "ccache", "try again without --use-ccache"),
        ("clang: error: invalid argument '-x'", "sccache", "try again without --use-sccache"),
        ("clang: error: invalid argument '-x'", "", None),
        ("error: use of undeclared identifier", "ccache", None),
    ],
)
def test_advice_for_aotriton(text, cache, expected):
    said = advice(text, cache)
    assert (said is None) if expected is None else (said is not None and expected in said)

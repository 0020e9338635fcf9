"""What is secret by its name or form is in no log, command or error; what only sounds like it stays."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from rocwright.cli import main
from rocwright.errors import CommandFailed
from rocwright.system import process
from rocwright.system.redact import hidden, is_secret, secrets_in

_SECRET = [
    "GITHUB_PAT", "AZURE_DEVOPS_EXT_PAT", "GH_PAT_READ", "PAT", "DB_PASS", "SMTP_PASS_2", "GPG_PASSPHRASE",
    "SSHPASS", "DBPASS", "X_PASSWD", "MYSQL_PWD", "DB_PWD", "CI_JOB_JWT", "CI_JOB_JWT_V2", "MYJWT",
    "MINIO_ROOT_PASSWORD", "MINIO_ACCESS_KEY", "MINIO_SECRET_KEY", "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN", "AZURE_STORAGE_KEY", "AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_CONNECTION_STRING",
    "AZURE_CLIENT_SECRET", "GOOGLE_API_KEY", "GOOGLE_APPLICATION_CREDENTIALS", "HF_TOKEN",
    "HUGGING_FACE_HUB_TOKEN", "NPM_TOKEN", "NODE_AUTH_TOKEN", "NPM_CONFIG__AUTH", "TWINE_PASSWORD",
    "UV_PUBLISH_TOKEN", "CI_JOB_TOKEN", "CI_DEPLOY_PASSWORD", "DOCKER_AUTH_CONFIG", "HTTP_AUTHORIZATION",
    "REDISCLI_AUTH", "SLACK_WEBHOOK", "GIT_CONFIG_PARAMETERS", "SESSION_COOKIE", "SSH_PRIVATE_KEY",
    "github_pat", "npm_config_//registry.npmjs.org/:_authToken",
]  # fmt: skip
_ORDINARY = [
    "PATH", "LD_LIBRARY_PATH", "ROCM_PATH", "PATTERN", "PATCHES", "BYPASS", "BYPASS_CACHE", "COMPASS",
    "COMPASS_HOME", "SUBPASS", "PWD", "OLDPWD", "GIT_AUTHOR_NAME", "AUTHORS", "SSH_AUTH_SOCK", "XAUTHORITY",
    "GIT_ASKPASS", "TOKENIZERS_PARALLELISM", "PASSES", "LLVM_PASSES", "PASSIVE", "KEYBOARD", "MONKEY",
    "CACHE_KEY", "AWS_ACCESS_KEY_ID", "SIGNAL", "DESIGN", "SASS_PATH", "SPAT", "CMAKE_PREFIX_PATH",
]  # fmt: skip


@pytest.mark.parametrize("name", _SECRET)
def test_the_value_of_a_secret_is_in_no_log_command_or_error(tmp_path: Path, name: str) -> None:
    log = tmp_path / "log"
    with pytest.raises(CommandFailed) as caught:
        process.run(
            [sys.executable, "-c", f"import os; print('it is', os.environ[{name!r}]); raise SystemExit(3)"],
            env={name: "Zebra+Crossing/77"},
            log=log,
        )
    assert "it is ***\n" in log.read_text()
    assert "Zebra" not in log.read_text() + str(caught.value)


@pytest.mark.parametrize("name", _ORDINARY)
def test_a_name_that_only_sounds_like_it_is_shown(tmp_path: Path, name: str) -> None:
    log = tmp_path / "log"
    code = f"import os; print('it is', os.environ[{name!r}])"
    done = process.run([sys.executable, "-c", code], env={name: f"/srv/harmless{os.pathsep}x"}, log=log)
    assert f"it is /srv/harmless{os.pathsep}x\n" in log.read_text()
    assert f"{name}=" in done.command
    assert "***" not in done.command + log.read_text()


@pytest.mark.parametrize(
    "words",
    [["--token", "Zebra+Crossing/77"], ["--db-pass=Zebra+Crossing/77"], ["--api-key", "Zebra+Crossing/77"]],
)
def test_what_the_command_line_gives_an_option_is_not_echoed_either(tmp_path: Path, words: list[str]) -> None:
    log = tmp_path / "log"
    code = "import sys; print(sys.argv[1:]); print(sys.argv[1].partition('=')[2] or sys.argv[2])"
    done = process.run([sys.executable, "-c", code, *words, "--author", "Jo"], log=log)
    assert "Zebra" not in done.command + log.read_text()
    assert done.command.endswith("--author Jo")


def test_a_secret_of_the_environment_on_the_command_line_is_hidden(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GH_PAT", 'quo"ted horse')
    monkeypatch.setenv("OTHER_PASS", "a/b c@d%!")
    code = (
        "import json, os, urllib.parse as u\n"
        "print(json.dumps(os.environ['GH_PAT']), u.quote(os.environ['OTHER_PASS'], safe=''))"
    )
    log = tmp_path / "log"
    done = process.run([sys.executable, "-c", code, "-H", 'X: quo"ted horse'], log=log)
    assert "horse" not in done.command + log.read_text()
    assert log.read_text().endswith('"***" ***\n')


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        ("Authorization: Basic dXNlcjpwYXNz", "Authorization: Basic ***"),
        ("> authorization: bearer abc.def", "> authorization: bearer ***"),
        ("{'Authorization': 'token abcdef'}", "{'Authorization': 'token ***'}"),
        ("PRIVATE-TOKEN: abcdefgh", "PRIVATE-TOKEN: ***"),
        ("Set-Cookie: id=1; session=2", "Set-Cookie: ***"),
        (
            "GET https://b.s3.test/a.whl?X-Amz-Credential=AK%2F1&X-Amz-Date=1&X-Amz-Signature=0f0f done",
            "GET https://b.s3.test/a.whl?X-Amz-Credential=***&X-Amz-Date=1&X-Amz-Signature=*** done",
        ),
        ("https://x.blob.test/a?sv=2024&sig=a%2Bb&se=1", "https://x.blob.test/a?sv=2024&sig=***&se=1"),
        ("https://h.test/a?private_token=abc&page=2", "https://h.test/a?private_token=***&page=2"),
        ("https://user:pw@h.test/a", "https://***@h.test/a"),
        (f"login ghp_{'a1' * 18} ok", "login *** ok"),
        (f"glpat-{'a1' * 10}", "***"),
        (f"hf_{'aB' * 17}", "***"),
        (f"npm_{'aB' * 18}", "***"),
        (f"pypi-{'aB' * 40}", "***"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjMifQ.c2lnbmF0dXJl.", "***."),
        # Nothing of a secret's form.
        ("-DHIP_PATH=/opt/rocm glibc-2.28 hf_hub", "-DHIP_PATH=/opt/rocm glibc-2.28 hf_hub"),
        ("f(a, b) if a && b == c ? d : e", "f(a, b) if a && b == c ? d : e"),
        ("the author: Jo; the authority is known", "the author: Jo; the authority is known"),
    ],
)  # fmt: skip
def test_what_has_the_form_of_a_secret_is_hidden_in_text(line: str, shown: str) -> None:
    assert hidden(line) == shown


def test_short_values_are_left_in_text() -> None:
    assert secrets_in({"MY_TOKEN": "on", "MY_PAT": "sesame-8"}) == ["sesame-8"]
    assert not is_secret("COMPASS")


def test_an_error_repeats_no_secret_of_the_environment_and_no_signature(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("INDEX_PAT", "Zebra+Crossing/77")
    with pytest.raises(SystemExit):
        main(["check", "Zebra+Crossing/77/a-1-py3-none-any.whl", "https://h.test/a?X-Amz-Signature=0f0f0f0f"])
    shown = capsys.readouterr().err
    assert "a-1-py3-none-any.whl" in shown
    assert "Zebra" not in shown
    assert "0f0f" not in shown

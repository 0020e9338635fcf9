"""`generate_pytorch_source_manifest.py` and `checkout_from_manifest.py` as documented; GitHub is local."""

from __future__ import annotations

import json
import shutil
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from contract.github import ADDRESS, ROOT, Desk, Github, commit
from git_repos import git
from rocwright.cli.documented import run

slow = pytest.mark.slow
GENERATE = "python build_tools/github_actions/generate_pytorch_source_manifest.py"
CHECKOUT = "python external-builds/pytorch/checkout_from_manifest.py"
ROCM = "--rocm-version 7.13.0a20260501 --platform linux"


@pytest.fixture(scope="module")
def github(tmp_path_factory: pytest.TempPathFactory) -> Github:
    """With a release branch whose pins are complete, and versions."""
    one = Github(tmp_path_factory.mktemp("github")).make()
    pins = ""
    for key, name, version in (
        ("torchaudio", "pytorch/audio", "2.11.0a0"),
        ("torchvision", "pytorch/vision", "0.28.0a0"),
        ("apex", "ROCm/apex", "1.11.0"),
    ):
        repository = one.root / f"{name}.git"
        branch = git(repository, "branch", "--show-current")
        one.at[key] = commit(repository, "versioned", {"version.txt": f"{version}\n"}, branch=branch)
        pins += f"ubuntu|pytorch|{key}|{branch}|{one.at[key]}|{ADDRESS}{name}\n"
    files = {"related_commits": pins, "version.txt": "2.13.0\n"}
    for branch in ("release/2.13", "mine/2.13"):
        one.at[branch] = commit(
            one.root / "ROCm/pytorch.git", branch, {**files, "mark": branch}, branch=branch
        )
    return one


@pytest.fixture
def desk(tmp_path: Path, github: Github) -> Desk:
    one = Desk(tmp_path / "home", github)
    shutil.copytree(ROOT / "build_tools", one.home / "clone/build_tools")
    return one


def call(script: Path, words: list[str]) -> int:
    with pytest.raises(SystemExit) as ended:
        run(str(script), words)
    return int(ended.value.code or 0)


@slow
def test_a_branch_is_written_down_and_checked_out_elsewhere(desk: Desk, github: Github) -> None:
    clone = desk.home / "clone"
    words = "--output manifest.json --pytorch-git-refs release/2.13"
    tool = "--therock-commit 2555d629204cb066d6668823ad6241d2fcf250e4 --therock-branch main"
    desk.documented(f"{GENERATE} {ROCM} {words} {tool}", cwd=clone)
    rows = json.loads((clone / "manifest.json").read_text())
    suffix = "+rocm7.13.0a20260501"
    assert rows == {
        "schema_version": 1,
        "pytorch": {
            "repo": f"{ADDRESS}ROCm/pytorch",
            "commit": github.at["release/2.13"],
            "branch": "release/2.13",
            "version": f"2.13.0{suffix}",
        },
        "apex": {
            "repo": f"{ADDRESS}ROCm/apex",
            "commit": github.at["apex"],
            "branch": "master",
            "version": f"1.11.0{suffix}",
        },
        "pytorch_audio": {
            "repo": f"{ADDRESS}pytorch/audio",
            "commit": github.at["torchaudio"],
            "branch": "nightly",
            "version": f"2.11.0a0{suffix}",
        },
        "pytorch_vision": {
            "repo": f"{ADDRESS}pytorch/vision",
            "commit": github.at["torchvision"],
            "branch": "nightly",
            "version": f"0.28.0a0{suffix}",
        },
        "triton": {
            "repo": f"{ADDRESS}ROCm/triton",
            "commit": github.at["triton pinned"],
            "version": f"3.5.1{suffix}",
        },
        "therock": {
            "repo": f"{ADDRESS}ROCm/TheRock",
            "commit": "2555d629204cb066d6668823ad6241d2fcf250e4",
            "branch": "main",
            "version": "7.13.0a20260501",
        },
    }
    src = desk.home / "src"
    desk.documented(f"{CHECKOUT} --manifest manifest.json --checkout-root {src}", cwd=clone)
    for folder in ("pytorch", "pytorch_audio", "pytorch_vision", "triton", "apex"):
        upstream = git(
            src / folder, "rev-parse", "THEROCK_UPSTREAM_DIFFBASE" if folder == "pytorch" else "HEAD"
        )
        assert upstream == rows[folder]["commit"]
    assert (src / "pytorch/kernel.hip").read_text() == "hip ROCm"
    # A pinned triton has no suffix of its own.
    assert json.loads((src / "triton/build_env.json").read_text()) == {"TRITON_WHEEL_VERSION_SUFFIX": ""}
    # Tests need the bare commit of torch alone.
    bare = "--projects pytorch --no-hipify --expected-pytorch-git-ref release/2.13"
    desk.documented(
        f"{CHECKOUT} --manifest manifest.json --checkout-root {desk.home / 'bare'} {bare}", cwd=clone
    )
    assert git(desk.home / "bare/pytorch", "rev-parse", "HEAD") == github.at["release/2.13"]
    assert not (desk.home / "bare/pytorch_audio").exists()
    assert not (desk.home / "bare/pytorch/kernel.hip").exists()


@slow
def test_several_branches_go_to_a_directory(desk: Desk, github: Github) -> None:
    words = f"{GENERATE} {ROCM} --manifest-dir out --projects pytorch"
    desk.run(*words.split(), "--pytorch-git-refs", "release/2.13;mine/2.13", cwd=desk.home / "clone")
    out = desk.home / "clone/out"
    assert sorted(path.name for path in out.iterdir()) == [
        "therock-manifest_torch_linux_mine-2.13.json",
        "therock-manifest_torch_linux_release-2.13.json",
    ]
    for path in out.iterdir():
        rows = json.loads(path.read_text())
        assert list(rows) == ["schema_version", "pytorch"]
        assert rows["pytorch"]["commit"] == github.at[rows["pytorch"]["branch"]]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ("--output OUT", 2, "there are 2 branches"),
        ("", 2, "give one of --output and --manifest-dir"),
        ("--manifest-dir OUT --projects triton", 2, "add pytorch"),
        ("--manifest-dir OUT --projects fbgemm", 2, "unknown project"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, code: int, says: str
) -> None:
    script = ROOT / "build_tools/github_actions/generate_pytorch_source_manifest.py"
    out = str(tmp_path / "out")
    given = [*ROCM.split(), *words.replace("OUT", out).split(), "--pytorch-git-refs", "nightly release/2.13"]
    assert call(script, given) == code
    assert says in capsys.readouterr().err
    assert not Path(out).exists()


@slow
def test_a_pin_that_is_missing_is_an_error(desk: Desk, github: Github) -> None:
    repository = github.root / "ROCm/pytorch.git"
    commit(repository, "no pins", {"related_commits": ""}, branch="mine/empty")
    words = f"{GENERATE} {ROCM} --output m.json --pytorch-git-refs mine/empty --projects"
    done = desk.run(*words.split(), "pytorch pytorch_audio", cwd=desk.home / "clone")
    assert done.returncode == 3, done.stderr
    assert "related_commits" in done.stderr and "torchaudio" in done.stderr
    assert not (desk.home / "clone/m.json").exists()


ROW = {"repo": "https://github.com/ROCm/pytorch", "commit": "a" * 40, "branch": "release/2.13"}


@pytest.mark.parametrize(
    ("manifest", "more", "says"),
    [
        ({"schema_version": 2, "pytorch": ROW}, "", "schema_version is 2, and this tool reads 1"),
        ({"schema_version": 1, "pytorch": {"commit": "a" * 40}}, "", "missing required field `repo`"),
        ({"schema_version": 1, "pytorch": {**ROW, "commit": "main"}}, "", "the commit of pytorch is not 40"),
        ({"schema_version": 1, "pytorch": ROW, "jax": ROW}, "", "no project is checked out into jax"),
        ({"schema_version": 1, "pytorch": ROW}, "--projects triton", "does not have triton"),
        (
            {"schema_version": 1, "pytorch": ROW},
            "--expected-pytorch-git-ref nightly",
            "the manifest is of release/2.13, not of nightly",
        ),
    ],
    ids=["schema", "no repo", "no commit", "unknown", "not there", "another branch"],
)
def test_a_manifest_that_does_not_fit_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], manifest: dict[str, object], more: str, says: str
) -> None:
    (tmp_path / "m.json").write_text(json.dumps(manifest))
    script = ROOT / "external-builds/pytorch/checkout_from_manifest.py"
    words = ["--manifest", str(tmp_path / "m.json"), "--checkout-root", str(tmp_path / "src"), *more.split()]
    assert call(script, words) in (2, 3)
    assert says in capsys.readouterr().err
    assert not (tmp_path / "src").exists()


@slow
def test_a_manifest_is_read_from_an_address(desk: Desk, github: Github, tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    row = {**ROW, "commit": github.at["release/2.13"]}
    (tmp_path / "site/m.json").write_text(json.dumps({"schema_version": 1, "pytorch": row}))
    handler = partial(SimpleHTTPRequestHandler, directory=str(tmp_path / "site"))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        address = f"http://127.0.0.1:{server.server_address[1]}/m.json"
        words = f"--manifest-url {address} --checkout-root src --no-hipify"
        desk.documented(f"python checkout_from_manifest.py {words}")
        server.shutdown()
    assert git(desk.scripts / "src/pytorch", "rev-parse", "HEAD") == github.at["release/2.13"]

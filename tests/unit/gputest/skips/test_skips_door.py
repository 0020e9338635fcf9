"""The commands about skip entries as a user meets them."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from command_line import Run

HEAD = """[[entry]]
id = "{id}"
tests = {tests}
kind = "{kind}"
reason = "numbers differ"
issue = "ROCm/TheRock#2070"
added = 2026-01-01
"""
COLLECTED = """test_cuda.py::TestCuda::test_print
test_cuda.py::TestCuda::test_pow_cuda_float32
test_cuda.py::TestCuda::test_pow_cuda_float64
test_torch.py::TestTorch::test_print
test_torch.py::TestTorch::test_print_more
test_fsdp.py::TestFsdp::test_a[x::y/z]
test_multiprocessing.py::TestM::test_fs

7 tests collected in 0.12s
"""


def entry(name: str, *tests: str, kind: str = "xfail", more: str = "") -> str:
    return HEAD.format(id=name, tests=json.dumps(tests), kind=kind) + more + "\n"


@pytest.fixture
def run(rocwright: Run) -> Run:
    """`rocwright test skips …` where `list.txt` names what was collected."""
    Path("list.txt").write_text(COLLECTED)
    return partial(rocwright, "test", "skips")


def findings(run: Run, text: str, *more: object) -> tuple[int, set[tuple[str, str]]]:
    Path("mine.toml").write_text(text)
    code, out, _ = run("lint", "--skips", "mine.toml", "--entry", "one", "--entry", "two", "--json", *more)
    return code, {(one["entry"], one["rule"]) for one in json.loads(out)["findings"]}


@pytest.mark.parametrize(
    ("one", "rules"),
    [
        (entry("one", "test_torch.py::TestTorch::test_print"), set()),
        (entry("one", "test_torch.py::TestTorch::test_prin"), {("one", "nothing")}),
        (entry("one", "test_fsdp.py::TestFsdp::test_a"), {("one", "nothing")}),
        (entry("one", "test_fsdp.py::TestFsdp::test_a[*]", more="matches = 1"), set()),
        (entry("one", "test_nn.py::T::test_a"), {("one", "no-file")}),
        (entry("one", "test_cuda.py::TestCuda::test_pow_*", more="matches = 2"), set()),
        (
            entry("one", "test_cuda.py::TestCuda::test_pow_*", more="matches = 1"),
            {("one", "more-than-declared")},
        ),
        (entry("one", "test_cuda.py::TestCuda::test_pow_*"), {("one", "undeclared")}),
        (entry("one", "*::*::test_print", more="matches = 2"), {("one", "several-files")}),
        (
            entry("one", "test_torch.py::TestTorch::test_print", more="expires = 2026-02-01"),
            {("one", "expired")},
        ),
    ],
    ids=[
        "exact",
        "typo",
        "parameters",
        "any-parameter",
        "file",
        "star",
        "too-many",
        "undeclared",
        "files",
        "old",
    ],
)
def test_lint_says_what_an_entry_matches_wrongly(run: Run, one: str, rules: set[tuple[str, str]]) -> None:
    two = entry("two", "test_multiprocessing.py::TestM::test_fs")
    code, found = findings(run, one + two, "--collected", "list.txt")
    assert found == rules
    assert code == (9 if rules - {("one", "undeclared")} else 0)


@pytest.mark.parametrize(
    ("test", "what"),
    [
        # A letter is missing: the two tests of that file that are named alike.
        (
            "test_torch.py::TestTorch::test_prin",
            "matches no test; perhaps test_torch.py::TestTorch::test_print"
            " or test_torch.py::TestTorch::test_print_more",
        ),
        ("test_torch.py::TestOther::test_quite_another", "matches no test"),
        (
            "test_torch.py::TestOther::test_print",
            "matches no test; the name is that of test_torch.py::TestTorch::test_print",
        ),
    ],
)
def test_lint_names_what_was_perhaps_meant(run: Run, test: str, what: str) -> None:
    Path("mine.toml").write_text(entry("one", test))
    words = ("--skips", "mine.toml", "--entry", "one", "--collected", "list.txt", "--json")
    [found] = json.loads(run("lint", *words)[1])["findings"]
    assert found["what"] == what


def test_two_entries_for_one_test_are_wrong_in_the_same_place_only(run: Run) -> None:
    one = entry("one", "test_torch.py::TestTorch::test_print*", more="matches = 2")
    two = entry("two", "test_torch.py::TestTorch::test_print")
    assert findings(run, one + two, "--collected", "list.txt") == (9, {("two", "twice")})
    apart = one.rstrip() + '\nwhere = { torch = "2.9" }\n' + two.rstrip() + '\nwhere = { torch = "2.10" }\n'
    assert findings(run, apart, "--collected", "list.txt") == (0, set())
    # Asked for one version, the entry of the other one is not judged.
    gone = apart.replace("test_print*", "test_gone*")
    assert findings(run, gone, "--collected", "list.txt", "--torch", "2.10.0a0+x") == (0, set())
    assert findings(run, gone, "--collected", "list.txt", "--torch", "2.9.1") == (9, {("one", "nothing")})


@pytest.mark.parametrize(
    ("text", "line", "named"),
    [
        (entry("one", "a.py::t").replace('"xfail"', '"xfial"'), 4, "xfial"),
        (entry("one", "a.py::t").replace("reason", "raeson"), 5, "raeson"),
        (entry("one", "a.py::t").replace("kind = ", "# "), 1, "kind"),
        (entry("ok", "a.py::t") + entry("one", "test_nn.py"), 11, "test_nn.py"),
        (entry("one", "a.py::t", more='where = { targets = ["gfx94*", "gfx49*"] }'), 8, "gfx49*"),
        (entry("one", "a.py::t", more='where = { torch = "2.x" }'), 8, "2.x"),
        (entry("one", "a.py::t", more="[entry.where]\npython = '>'"), 9, "'>'"),
        (entry("one", "a.py::t", more='where = { platforms = ["macos"] }'), 8, "macos"),
        (entry("one", "a.py::t", more="expires = 2025-01-01"), 8, "expires"),
        (entry("one", "a.py::t", more="matches = 3"), 8, "matches"),
        (entry("one", "a.py::t") + entry("one", "b.py::t"), 10, "mine.toml:2"),
        (entry("one", "a.py::t").replace("ROCm/TheRock#2070", "see Slack"), 6, "see Slack"),
        (entry("one", "a.py::t").replace("numbers differ", " "), 5, "reason"),
    ],
)
def test_a_malformed_file_is_named_with_line_and_field(run: Run, text: str, line: int, named: str) -> None:
    Path("mine.toml").write_text(text)
    code, out, err = run("show", "--skips", "mine.toml")
    assert (code, out) == (3, "")
    assert f"mine.toml:{line}" in err and named in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("words", "code", "named"),
    [
        (["show", "--target", "gfx941"], 3, "gfx942"),
        (["show", "--torch", "two"], 3, "two"),
        (["show", "--platform", "macos"], 2, "macos"),
        (["show", "--entry", "nothing-of-the-kind"], 3, "nothing-of-the-kind"),
        (["show", "--skips", "nowhere.toml"], 3, "nowhere.toml"),
        (["lint", "--collected", "nowhere.txt"], 3, "nowhere.txt"),
        (["lint", "--collected", "empty.txt"], 3, "names no test"),
        (["lint", "--pytorch-dir", "nowhere"], 2, "nowhere"),
        (["lint", "--pytorch-dir", ".", "--collected", "list.txt"], 2, "contradict"),
        (["audit", "--pytorch-dir", "nowhere"], 2, "nowhere"),
        (["audit", "--write"], 2, "--skips"),
        (["port", "2.9", "2.10", "--pytorch-dir", "nowhere"], 2, "nowhere"),
        (["import", "nowhere"], 3, "nowhere"),
        (["import", "."], 3, "generic.py"),
        (["import", "broken.py"], 3, "broken.py:2"),
        (["import", "called.py"], 3, "called.py:1"),
        (["export", "--format", "lists"], 2, "--output"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_a_mistake_ends_in_its_code(run: Run, words: list[str], code: int, named: str) -> None:
    Path("empty.txt").write_text("no tests collected\n")
    Path("broken.py").write_text("skip_tests = {\n  'common': {'cuda': ['a' 'b'\n")
    Path("called.py").write_text("skip_tests = __import__('os').system('touch ran')\n")
    found, _, err = run(*words)
    assert found == code
    assert named in err and "Traceback" not in err
    assert not Path("ran").exists()


def test_show_says_where_entries_hold(run: Run) -> None:
    Path("mine.toml").write_text(
        entry("one", "a.py::t", more='where = { targets = ["gfx94*"], torch = "2.10" }')
        + entry("two", "a.py::u", more="expires = 2026-02-01")
    )
    code, out, _ = run(
        "show", "--skips", "mine.toml", "--target", "gfx942", "--torch", "2.10.0a0+x", "--json"
    )
    states = {one["entry"]["id"]: one["state"] for one in json.loads(out)}
    assert code == 0 and states["one"] == "holds" and states["two"] == "expired"
    _, out, _ = run("show", "--skips", "mine.toml", "--target", "gfx1151", "--json")
    assert {one["entry"]["id"]: one["state"] for one in json.loads(out)}["one"] == "elsewhere"


LISTS = """skip_tests = {
    "gfx1151": {"torch": ["test_print"], "windows": {"cuda": ["test_pow_cuda"]}},
    "gfx1154": {"torch": ["test_print"]},
    "common": {
        # wrong numbers, https://github.com/ROCm/TheRock/issues/2070
        "multiprocessing": [
            "test_fs",  # flaky
            "test_gone",
        ],
        "cuda": {"test_print "},
        "fsdp": ["test_a" "test_b"],
    },
}
"""


def test_lists_become_exact_entries_and_what_is_odd_is_said(run: Run) -> None:
    Path("lists").mkdir()
    Path("lists/generic.py").write_text(LISTS)
    Path("lists/pytorch_2.9.py").write_text(
        'skip_tests = {"common": {"multiprocessing": ["test_fs"]}, "windows": {"fsdp": ["test_a"]}}'
    )
    code, out, err = run("import", "lists", "--collected", "list.txt", "--json")
    found = {one["id"]: one for one in json.loads(out)["entries"]}
    assert code == 0
    assert {name: (one["tests"], one.get("where", {})) for name, one in found.items()} == {
        "test_print-gfx1151": (["test_torch.py::TestTorch::test_print"], {"targets": ["gfx1151"]}),
        "test_pow_cuda-gfx1151-windows": (
            [
                "test_cuda.py::TestCuda::test_pow_cuda_float32",
                "test_cuda.py::TestCuda::test_pow_cuda_float64",
            ],
            {"targets": ["gfx1151"], "platforms": ["windows"]},
        ),
        "test_fs": (["test_multiprocessing.py::TestM::test_fs"], {}),
        "test_print": (["test_cuda.py::TestCuda::test_print"], {}),
        "test_a-windows-2.9": (
            ["test_fsdp.py::TestFsdp::test_a[x::y/z]"],
            {"platforms": ["windows"], "torch": "2.9"},
        ),
    }
    assert json.loads(out)["wide"] == ["test_pow_cuda-gfx1151-windows"]
    assert found["test_fs"]["reason"] == "flaky"
    for said in ("gfx1154", "test_gone", "no comma", "space at its end", "already covers it"):
        assert said in err


def test_imported_text_is_read_again_and_wide_without_a_list(run: Run) -> None:
    Path("generic.py").write_text(LISTS)
    code, out, err = run("import", "generic.py", "--output", "made.toml")
    assert (code, out) == (0, "")
    assert "wide" not in err and "--collected" in err
    code, out, _ = run("show", "--skips", "made.toml", "--entry", "test_fs", "--json")
    assert json.loads(out)[0]["entry"]["tests"] == ["test_multiprocessing.py::*::test_fs*"]
    # What is there is never written over.
    assert run("import", "generic.py", "--output", "made.toml")[0] == 2


def test_an_expression_names_whom_else_it_hits_and_is_nothing_without_entries(run: Run) -> None:
    Path("mine.toml").write_text(
        entry("one", "test_multiprocessing.py::TestM::test_fs")
        + entry("two", "test_torch.py::TestTorch::test_print", more='where = { targets = ["gfx94*"] }')
        + entry("three", "test_fsdp.py::TestFsdp::test_a[x::y/z]", kind="flaky")
    )
    only = ["--skips", "mine.toml", "--entry", "one", "--entry", "two", "--entry", "three"]
    code, out, err = run("export", *only, "--target", "gfx942", "--collected", "list.txt")
    assert (code, out) == (0, "not test_fs and not test_print\n")
    assert "also hits 3 other tests" in err
    assert "test_fsdp.py::TestFsdp::test_a[x::y/z]" in err and "test_print_more" in err
    assert run("export", *only, "--include-tests", "--amdgpu-family", "gfx94X-dcgpu")[1] == (
        "test_fs or test_print\n"
    )
    assert run("export", *only)[1] == "not test_fs\n"
    code, out, err = run("export", *only[:2], "--entry", "three")
    assert (code, out) == (0, "") and "no expression" in err


def test_a_test_whose_parameters_no_word_may_hold_is_left_out_by_its_name(run: Run) -> None:
    Path("mine.toml").write_text(entry("one", "test_fsdp.py::TestFsdp::test_a[x y]"))
    assert run("export", "--skips", "mine.toml", "--entry", "one")[:2] == (0, "not test_a\n")


def test_lists_go_out_and_come_back(run: Run) -> None:
    Path("mine.toml").write_text(
        entry("one", "test_multiprocessing.py::TestM::test_fs", kind="skip")
        + entry("two", "test_torch.py::TestTorch::test_print", more='where = { targets = ["gfx94*"] }')
        + entry("three", "test_cuda.py::TestCuda::test_print", more='where = { torch = "2.9" }')
        + entry("four", "test_cuda.py::TestCuda::test_print", more='where = { rocm = ">=7" }')
        + entry("five", "test_cuda.py::TestCuda::test_pow_*", more='where = { torch = ">=2.9,<2.11" }')
    )
    only = [word for name in ("one", "two", "three", "four", "five") for word in ("--entry", name)]
    code, out, err = run("export", "--skips", "mine.toml", *only, "--format", "lists", "--output", "out")
    assert code == 0 and out.split() == ["out/generic.py", "out/pytorch_2.9.py"]
    assert "four" in err and "five" in err
    _, out, _ = run("import", "out", "--collected", "list.txt", "--json")
    assert [(one["tests"], one.get("where", {})) for one in json.loads(out)["entries"]] == [
        (["test_multiprocessing.py::TestM::test_fs"], {}),
        (["test_torch.py::TestTorch::test_print"], {"targets": ["gfx94*"]}),
        (["test_cuda.py::TestCuda::test_print"], {"torch": "2.9"}),
    ]
    assert run("export", "--skips", "mine.toml", *only, "--format", "lists", "--output", "out")[0] == 2


def test_a_family_of_ours_is_a_place(run: Run) -> None:
    where = '[entry.where]\ntargets = ["ours"]\n'
    Path("mine.toml").write_text(entry("one", "test_cuda.py::TestCuda::test_print") + where)
    code, _, said = run("show", "--skips", "mine.toml", "--target", "ours")
    assert (code, "'ours'" in said) == (3, True)
    Path("rocwright.toml").write_text('[families.families]\nours = ["gfx90a", "gfx1201"]\n')
    states = {}
    for target in ("ours", "gfx1201", "gfx942"):
        code, out, said = run("show", "--skips", "mine.toml", "--entry", "one", "--target", target, "--json")
        assert code == 0, said
        states[target] = [one["state"] for one in json.loads(out)]
    assert states["ours"] == states["gfx1201"] != states["gfx942"]

"""Questions about compatibility: what is understood, what is answered, and that nothing is guessed."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rocwright import cli
from rocwright.compat.claimed.answer import answer
from rocwright.compat.claimed.conflicts import find_conflicts
from rocwright.compat.claimed.facts import Facts, UnknownRelease, load_facts
from rocwright.compat.claimed.judge import Answer
from rocwright.compat.claimed.question import Asked, InvalidQuestion, parse_question
from rocwright.compat.claimed.words import split_words, vocabulary
from rocwright.data.overlay import parse_overlay
from rocwright.errors import RocwrightError
from rocwright.model.gpu import InvalidTarget

FACTS = load_facts()


def ask(text: str, facts: Facts = FACTS) -> Answer:
    (found,) = answer(parse_question(text, facts), facts)
    return found


def understood(text: str) -> tuple[list[str], str, str, str, str]:
    asked = parse_question(text, FACTS)
    names = [subject.name for subject in asked.subjects]
    return names, " ".join(asked.targets), asked.torch, asked.rocm, asked.platform


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (
            "does gfx1151 have flash attention in torch 2.9?",
            (["flash-attention"], "gfx1151", "2.9", "", ""),
        ),
        (
            "Does the Radeon RX 7900 XTX have FlashAttention with PyTorch 2.9.1 on Linux?",
            (["flash-attention"], "gfx1100", "2.9.1", "", "linux"),
        ),
        ("7900xtx flash-attention torch==2.8", (["flash-attention"], "gfx1100", "2.8", "", "")),
        # By the chip, or by what it is sold as; both are the driver's words.
        ("flash attention strix halo torch 2.9", (["flash-attention"], "gfx1151", "2.9", "", "")),
        ("flash attention on a Radeon 8060S Graphics", (["flash-attention"], "gfx1151", "", "", "")),
        ("780m flash attention", (["flash-attention"], "gfx1103", "", "", "")),
        ("mi300x flash attn rocm7.1.1", (["flash-attention"], "gfx942", "", "7.1.1", "")),
        # A version says by its size whose it is; a wheel's says both.
        ("flash attention 2.9 7.1", (["flash-attention"], "", "2.9", "7.1.0", "")),
        ("flash attention torch 2.9.0+rocm7.1.1", (["flash-attention"], "", "2.9.0", "7.1.1", "")),
        ("torch 2.10 alpha on windows", ([], "", "2.10a0", "", "windows")),
        ("gfx90a:xnack+ flash attention", (["flash-attention"], "gfx90a", "", "", "")),
        ("gfx120X-all sdpa", (["sdpa-aotriton-0.11b"], "gfx1200 gfx1201", "", "", "")),
        ("gfx120x sdpa", (["sdpa-aotriton-0.11b"], "gfx1200 gfx1201", "", "", "")),
        # The longest phrase counts.
        ("FlashAttention v3 in torch 2.8", (["flash-attention-v3"], "", "2.8", "", "")),
        ("which version of Composable Kernel is in ROCm 7.0", (["Composable Kernel"], "", "", "7.0.0", "")),
        ("torch.half", (["torch.float16"], "", "", "", "")),
        ("bf16 and fp64", (["torch.bfloat16", "torch.float64"], "", "", "", "")),
        (
            "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
            (["bf16-reduced-precision-reduction"], "", "", "", ""),
        ),
    ],
)
def test_words_are_understood(text: str, wanted: tuple[list[str], str, str, str, str]) -> None:
    assert understood(text) == wanted


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("does gfx1151 fly in torch 2.9", InvalidQuestion, "not understood: fly"),
        # A no turns a question around; it is not passed over.
        ("is flash attention not in torch 2.9", InvalidQuestion, "not understood: not"),
        ("rx 580 flash attention", InvalidQuestion, "not understood: rx 580"),
        ("flash attention torch 2.8 torch 2.9", InvalidQuestion, "two versions of PyTorch: 2.8 and 2.9"),
        ("flash attention linux windows", InvalidQuestion, "two platforms: linux and windows"),
        ("gfx9999 flash attention", InvalidTarget, "no table knows the GPU 'gfx9999'"),
        ("gfx flash attention", InvalidQuestion, "not understood: gfx"),
        ("flash attention 0+.0", InvalidQuestion, r"not understood: 0\+\.0"),
        ("flash attention torch 2..9", InvalidQuestion, r"not understood: 2\.\.9"),
        ("flash attention torch 3.1", UnknownRelease, "PyTorch 3.1 is in no table; known: .* 2.9 2.10"),
        ("hipBLAS rocm 9.9", UnknownRelease, "ROCm 9.9 is in no table; known: 7.1.1 7.1.0"),
        ("", InvalidQuestion, "names no feature, library or GPU"),
        ("rocm 7.1", InvalidQuestion, "names no feature, library or GPU"),
    ],
)
def test_what_is_not_understood_is_named(text: str, kind: type[RocwrightError], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        ask(text)
    assert caught.value.exit_code == 3
    assert caught.value.next_step


def test_an_unknown_gpu_has_near_ones_and_unknown_words_the_known() -> None:
    with pytest.raises(InvalidTarget) as caught:
        ask("gfx1159 flash attention")
    assert "gfx115" in str(caught.value.next_step)
    with pytest.raises(InvalidQuestion) as unknown:
        ask("flying")
    for word in ("flash attention", "hipBLASLt", "torchvision", "bfloat16", "linux"):
        assert word in str(unknown.value.next_step)


# Read off the document (AOTriton 0.10b: gfx950 and gfx1201 official; gfx1101, gfx1151, gfx1150 and gfx1200
# experimental; PyTorch 2.7/2.8), pytorch#161754 (0.11b in 2.9: gfx1100 back to experimental), pytorch#141958
# (gfx908 has none) and TheRock#3355 (gfx1152 and gfx1153 from 2.11 on).
@pytest.mark.parametrize(
    ("target", "torch", "wanted", "level"),
    [
        ("gfx950", "2.7", "yes", "official"),
        ("gfx1201", "2.8", "yes", "official"),
        ("gfx1101", "2.7", "yes", "experimental"),
        ("gfx1151", "2.7", "yes", "experimental"),
        ("gfx1151", "2.9", "yes", "experimental"),
        ("gfx1150", "2.8", "yes", "experimental"),
        ("gfx1200", "2.8", "yes", "experimental"),
        ("gfx1151", "2.12", "yes", "official"),
        ("gfx1100", "2.8", "yes", "official"),
        ("gfx1100", "2.9", "yes", "experimental"),
        ("gfx1100", "2.9.1", "yes", "experimental"),
        ("gfx908", "2.9", "no", None),
        ("gfx1152", "2.9", "no", None),
        ("gfx1152", "2.11", "yes", None),
        ("gfx1151", "2.6", "not known", None),
        ("gfx900", "2.9", "not known", None),
    ],
)
def test_flash_attention_by_gpu(target: str, torch: str, wanted: str, level: str | None) -> None:
    found = ask(f"flash attention {target} torch {torch}")
    assert (found.answer, found.level) == (wanted, level)
    assert all(source.startswith("https://") for reason in found.because for source in reason.sources)
    if level == "experimental":
        assert found.needs == "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL=1"
    if wanted != "not known":
        assert found.because


def test_what_the_question_leaves_open_makes_it_depend() -> None:
    found = ask("flash attention gfx1100")
    assert (found.answer, found.open) == ("depends", ("version of PyTorch",))
    assert "GPU" in ask("flash attention torch 2.9").open
    family = ask("flash attention gfx110X-all torch 2.9")
    assert family.answer == "depends" and "gfx1103 not known" in family.text


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # Contradicting sources: the README says no, the list of features and ROCm/pytorch#2902 say yes.
        ("fbgemm torch 2.9 rocm 7.1.1 linux", "depends"),
        ("fbgemm torch 2.8 linux", "no"),
        ("fbgemm torch 2.7 windows", "no"),
        ("fbgemm torch 2.12 linux rocm 7.1.1", "not known"),
        ("grouped gemm torch 2.9 rocm 7.1.1", "yes"),
        ("grouped gemm torch 2.8", "not known"),
        ("channels last torch 2.9 rocm 7.1.1", "yes"),
        ("channels last torch 2.9", "depends"),
        ("default hipblaslt gfx908 torch 2.9 rocm 6.3.0", "yes"),
        ("default hipblaslt gfx908 torch 2.9 rocm 6.2.0", "not known"),
        ("default hipblaslt gfx942 torch 2.9 rocm 7.1.1", "not known"),
        ("hipBLASLt rocm 7.1.1", "yes"),
        ("rocJPEG rocm 6.2.0", "no"),
        ("hipRAND rocm 5.2.3", "not known"),
        ("hipRAND", "depends"),
        # The sources on releases of ROCm are about Linux.
        ("hipBLASLt rocm 7.1.1 linux", "yes"),
        ("hipBLASLt rocm 7.1.1 windows", "not known"),
        ("gfx942 rocm 7.1.1 windows", "not known"),
        ("torch 2.9 rocm 7.1.1 windows", "not known"),
        # Which GPUs a library has kernels for, no table says.
        ("hipBLASLt rocm 7.1.1 gfx1151", "not known"),
        ("bfloat16", "yes"),
        ("uint16", "depends"),
        ("fp16 gfx1100", "not known"),
        ("torchvision windows", "yes"),
        ("torchserve torch 2.4", "yes"),
        ("torchserve torch 2.9", "no"),
        ("torchserve", "depends"),
        ("torch.nn", "yes"),
        ("torch.linalg.svd", "yes"),
        ("allow_fp16_reduced_precision_reduction torch 2.8 rocm 7.1", "no"),
        ("allow_fp16_reduced_precision_reduction torch 2.9", "not known"),
        ("allow_fp16_reduced_precision_reduction", "depends"),
        ("torch 2.9 rocm 7.1.1", "yes"),
        ("torch 2.9 rocm 7.1.0", "no"),
        ("torch 2.9 rocm 5.2.3", "not known"),
        ("torch 2.8 windows", "no"),
        # Supported at the end of 2025, no more by the later reading.
        ("torch 2.9 windows", "depends"),
        ("torch 2.12 linux", "yes"),
        ("torch 2.10 alpha linux", "yes"),
        ("torch 2.6", "not known"),
        ("gfx942 rocm 7.1.1", "yes"),
        ("gfx1151 rocm 7.1.1", "depends"),
        ("gfx1151 rocm 5.2.3", "not known"),
        ("gfx1200 torch 2.9", "yes"),
        ("gfx942", "depends"),
    ],
)
def test_answers(text: str, wanted: str) -> None:
    found = ask(text)
    assert found.answer == wanted, found
    assert found.text.startswith(f"{wanted}:") or wanted in ("depends", "yes", "no")


def test_the_answer_names_the_version() -> None:
    assert ask("which hipBLASLt is in ROCm 7.1.1").text == "yes: hipBLASLt 1.1.0 is in ROCm 7.1.1"
    assert "hipSOLVER" in ask("torch.linalg.svd").text


def test_contradictions_are_told_by_version_with_both_sources() -> None:
    found = find_conflicts(FACTS)
    assert [(one.topic, one.torch, one.platform) for one in found] == [
        ("FBGEMM GenAI", "2.9", "linux"),
        ("FBGEMM GenAI", "2.9", "windows"),
        ("FBGEMM GenAI", "2.10", "linux"),
    ]
    for one in found:
        sources = {said.answer: set(said.sources) for said in one.statements}
        assert set(sources) == {"yes", "no"} and not sources["yes"] & sources["no"]
        assert "https://github.com/ROCm/TheRock/issues/2056" in sources["no"]
    both = ask("fbgemm torch 2.9 rocm 7.1.1 linux")
    assert "contradict" in both.text
    assert {reason.answer for reason in both.because} == {"yes", "no"}


def test_rows_of_a_user_take_part() -> None:
    text = """
[[compat_features.statement]]
id = "flash-gfx900"
topic = "flash-attention"
answer = "no"
targets = ["gfx900"]
text = "Tried."
sources = ["our wiki"]

[[compat_features.statement]]
id = "flash-gfx908"
topic = "flash-attention"
answer = "yes"
targets = ["gfx908"]
text = "We ported it."
sources = ["our wiki"]

[[compat_libraries.release]]
rocm = "7.1.1"
source = "our wiki"
versions = { hipBLAS = "3.1.9" }
"""
    facts = load_facts(parse_overlay(text, where="rocwright.toml"))
    assert ask("flash attention gfx900", facts).answer == "no"
    assert ask("flash attention gfx908 torch 2.9", facts).answer == "yes"
    assert "hipBLAS 3.1.9" in ask("hipBLAS rocm 7.1.1", facts).text
    assert ask("rocJPEG rocm 7.1.1", facts).answer == "not known"


def test_a_no_for_all_gpus_counts_and_a_yes_for_all_does_not() -> None:
    assert ask("flash attention gfx900 torch 2.9").answer == "not known"
    row = """
[[compat_features.statement]]
id = "flash-windows"
topic = "flash-attention"
answer = "no"
platforms = ["windows"]
text = "Not in our builds."
sources = ["our wiki"]

[[projects.line]]
name = "2.9-ours"
origin = "https://github.com/example/pytorch.git"
ref = "ours"
linux = "supported"
windows = "unsupported"
"""
    facts = load_facts(parse_overlay(row, where="rocwright.toml"))
    assert ask("flash attention gfx900 torch 2.9 windows", facts).answer == "no"
    assert ask("flash attention gfx942 torch 2.9 windows", facts).answer == "depends"
    assert ask("flash attention gfx942 torch 2.9 linux", facts).answer == "yes"


def test_reasons_are_plain_text() -> None:
    found = ask("amdclang++ torch 2.8 rocm 7.0.2")
    assert found.answer == "yes"
    assert "amdclang++ is the compiler" in found.because[0].text and "](" not in found.because[0].text


KNOWN = sorted({" ".join(phrase) for phrase in vocabulary(FACTS).subjects} | set(vocabulary(FACTS).fillers))
_WORDS = st.one_of(
    st.sampled_from(KNOWN),
    st.sampled_from(
        ["torch", "rocm", "2.9", "7.1", "gfx1151", "gfx110X-all", "linux", "alpha", "version", "?"]
    ),
    st.from_regex(r"(torch|rocm|v)?[0-9.+a-z]{0,12}", fullmatch=True),
    st.text(max_size=8),
)


@settings(max_examples=150, deadline=None, database=None)
@given(st.lists(_WORDS, max_size=8))
def test_any_words_are_answered_or_refused(words: list[str]) -> None:
    try:
        found = answer(parse_question(" ".join(words), FACTS), FACTS)
    except RocwrightError as refused:
        assert refused.exit_code == 3
    else:
        assert found and all(one.text for one in found)
        for one in found:
            assert one.answer in ("yes", "no", "depends", "not known")
            # Nobody has to take a yes or a no on trust.
            assert one.answer not in ("yes", "no") or any(reason.sources for reason in one.because)


@settings(max_examples=60, deadline=None, database=None)
@given(st.text(max_size=200))
def test_any_text_is_split(text: str) -> None:
    assert all(word == word.lower() and " " not in word for word in split_words(text))


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    try:
        cli.main(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0
    else:
        code = 0
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    """No rocwright.toml of anybody, and no handlers of signals left behind."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(cli.signal, "signal", lambda *_: None)


def test_the_command_prints_the_answer_first(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "compat", "query", "does gfx1151 have flash attention in torch 2.9?")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "yes, experimental: flash attention on gfx1151, PyTorch 2.9"
    assert "https://github.com/ROCm/pytorch/pull/3313" in out


def test_options_are_the_same_question(capsys: pytest.CaptureFixture[str]) -> None:
    sentence = run(capsys, "compat", "query", "--json", "does gfx1151 have flash attention in torch 2.9?")
    given = ("--target", "gfx1151", "--torch", "2.9", "--feature", "Flash Attention")
    options = run(capsys, "compat", "query", "--json", *given)
    assert options == sentence and options[0] == 0
    (found,) = json.loads(options[1])
    assert (found["answer"], found["level"]) == ("yes", "experimental")
    assert msgspec.convert(found["asked"], Asked).targets == ("gfx1151",)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--feature", "flying", "--torch", "2.9"), "no feature is called 'flying'"),
        (("--target", "gfx9999", "--feature", "sdpa"), "no table knows the GPU 'gfx9999'"),
        (("--torch", "abc", "--feature", "sdpa"), "'abc' is no valid version"),
        (("--rocm", "7.1.", "--feature", "sdpa"), "'7.1.' is no valid version"),
        (("flash attention torch 2.8", "--torch", "2.9"), "the question says 2.8, --torch says 2.9"),
        (("--target", ",", "--feature", "sdpa"), "',' names no GPU"),
    ],
)
def test_wrong_options_are_explained(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "compat", "query", *words)
    assert (code, out) == (3, "")
    assert told in err and "next:" in err


def test_the_answer_in_the_documentation_is_the_one_given(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[4] / "docs/how-to/ask-compatibility.md").read_text(encoding="utf-8")
    question = "does gfx1151 have flash attention in torch 2.9?"
    _, out, _ = run(capsys, "compat", "query", question)
    assert f'$ rocwright compat query "{question}"\n{out}```' in page

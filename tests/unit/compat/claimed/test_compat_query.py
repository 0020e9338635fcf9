"""Questions about compatibility: what is understood, what is answered, and that nothing is guessed.

Ninety of them stand beside this file: questions_own.toml by whoever wrote the answers, and the others by
somebody who had the sources and not the code; those in questions_unseen.toml nobody saw
who wrote the answers, until they were done. Each is asked at the command line.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from command_line import run
from rocwright.compat.claimed.answer import answer
from rocwright.compat.claimed.facts import Facts, find_conflicts, load_facts
from rocwright.compat.claimed.judge import Answer
from rocwright.compat.claimed.question import InvalidQuestion, Question, parse_question
from rocwright.compat.claimed.vocabulary import split_words, vocabulary
from rocwright.data.overlay import parse_overlay
from rocwright.data.toml import plain
from rocwright.errors import RocwrightError
from rocwright.model.gpu import InvalidTarget

FACTS = load_facts()
HERE = Path(__file__).parent


def questions() -> list[Any]:
    found = []
    for name in ("own", "sources", "unseen"):
        rows: Any = plain((HERE / f"questions_{name}.toml").read_text(encoding="utf-8"), where=name)[
            "question"
        ]
        found += [pytest.param(row, id=f"{name}: {row['ask']}") for row in rows]
    return found


@pytest.mark.parametrize("question", questions())
def test_a_question_is_answered_as_the_sources_have_it(
    question: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    expected = question["expect"]
    code, out, err = run(capsys, "compat", "query", question["ask"])
    twin_code, twin, _ = run(capsys, "compat", "query", "--json", question["ask"])
    verdict = "error" if code else json.loads(twin)["verdict"]
    assert verdict in ([expected] if isinstance(expected, str) else expected), out + err
    assert twin_code == code
    if code:
        assert (code, out, twin) == (3, "", "")
        assert 1 <= len(err.splitlines()) <= 2
    else:
        assert out.startswith(verdict) and err == ""
        assert "because" in out
    said = (out + err).lower()
    assert [word for word in question.get("says", ()) if word.lower() not in said] == []
    assert [word for word in question.get("never", ()) if word.lower() in said] == []
    assert question["source"] and question["why"]


def ask(text: str, facts: Facts = FACTS) -> Answer:
    return answer(parse_question(text, facts), facts)


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
        ("flash attention 2.9 7.1", (["flash-attention"], "", "2.9", "7.1", "")),
        ("flash attention torch 2.9.0+rocm7.1.1", (["flash-attention"], "", "2.9.0", "7.1.1", "")),
        ("torch 2.10 alpha on windows", ([], "", "2.10a0", "", "windows")),
        ("gfx90a:xnack+ flash attention", (["flash-attention"], "gfx90a", "", "", "")),
        ("gfx120X-all sdpa", (["sdpa-aotriton-0.11b"], "gfx1200 gfx1201", "", "", "")),
        ("gfx120x sdpa", (["sdpa-aotriton-0.11b"], "gfx1200 gfx1201", "", "", "")),
        ("Radeon 7900XTX bf16", (["torch.bfloat16"], "gfx1100", "", "", "")),
        ("rx-9070-xt", ([], "gfx1201", "", "", "")),
        ("ryzen ai max 395", ([], "gfx1151", "", "", "")),
        ("MI250", ([], "gfx90a", "", "", "")),
        ("7900 series", ([], "gfx1100", "", "", "")),
        ("RDNA4", ([], "gfx1200 gfx1201", "", "", "")),
        ("float8", (["torch.float8_e4m3fn", "torch.float8_e5m2"], "", "", "", "")),
        ("torch.int4", (["int4"], "", "", "", "")),
        ("torch 2.9 on Windows 11", ([], "", "2.9", "", "windows")),
        ("rocm 7.1 wsl2 torch2.8", ([], "", "2.8", "7.1", "wsl")),
        ("torch 2.8 and 2.9, linux or windows", ([], "", "2.8 2.9", "", "linux windows")),
        # The longest phrase counts.
        ("FlashAttention v3 in torch 2.8", (["flash-attention-v3"], "", "2.8", "", "")),
        ("which version of Composable Kernel is in ROCm 7.0", (["Composable Kernel"], "", "", "7.0", "")),
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
        ("gfx9999 flash attention", InvalidTarget, "no table lists the GPU 'gfx9999'"),
        ("gfx flash attention", InvalidQuestion, "not understood: gfx"),
        ("flash attention 0+.0", InvalidQuestion, r"not understood: 0\+\.0"),
        ("flash attention torch 2..9", InvalidQuestion, r"not understood: 2\.\.9"),
        ("RX 7900 XTX gfx1201", InvalidQuestion, "Radeon RX 7900 XTX is gfx1100, not gfx1201"),
        ("ubuntu 24.04 or debian 12 gfx942", InvalidQuestion, "two at once: Ubuntu 24.04 and Debian 12"),
        ("", InvalidQuestion, "names no feature, library, GPU or version"),
        ("which version", InvalidQuestion, "names no feature"),
    ],
)
def test_what_is_not_understood_is_named(text: str, kind: type[RocwrightError], words: str) -> None:
    with pytest.raises(kind, match=words) as caught:
        ask(text)
    assert caught.value.exit_code == 3
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("text", "tried"),
    [
        ("flsh atention gfx1100", "flash attention gfx1100"),
        ("hipblastl rocm 7.1", "hipblaslt rocm 7.1"),
        ("torch 2.9 windoes", "torch 2.9 windows"),
        ("pyton 3.12", "python 3.12"),
    ],
)
def test_a_slip_of_the_finger_gets_a_question_that_is_understood(text: str, tried: str) -> None:
    with pytest.raises(InvalidQuestion) as caught:
        ask(text)
    assert caught.value.next_step == f'try: rocwright compat query "{tried}"'
    ask(tried)


def test_an_unknown_gpu_has_near_ones() -> None:
    with pytest.raises(InvalidTarget) as caught:
        ask("gfx1159 flash attention")
    assert "gfx115" in str(caught.value.next_step)


def test_without_a_question_it_lists_what_can_be_asked(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "compat", "query")
    assert (code, err) == (0, "")
    for word in ("flash attention", "hipBLASLt", "torchvision", "bfloat16", "wsl", "which ROCm"):
        assert word in out
    _, twin, _ = run(capsys, "compat", "query", "--json")
    assert "torchvision" in json.loads(twin)["projects"]


# Read off the document (AOTriton 0.10b: gfx950 and gfx1201 official; gfx1101, gfx1151, gfx1150 and gfx1200
# experimental; PyTorch 2.7/2.8), pytorch#161754 (0.11b in 2.9: gfx1100 back to experimental), pytorch#141958
# (gfx908 has none) and TheRock#3355 (gfx1152 and gfx1153 from 2.11 on).
@pytest.mark.parametrize(
    ("target", "torch", "wanted", "level"),
    [
        ("gfx950", "2.7", "yes", "official"),
        ("gfx1201", "2.8", "yes", "official"),
        ("gfx1101", "2.7", "partly", "experimental"),
        ("gfx1151", "2.7", "partly", "experimental"),
        ("gfx1151", "2.9", "partly", "experimental"),
        ("gfx1150", "2.8", "partly", "experimental"),
        ("gfx1200", "2.8", "partly", "experimental"),
        ("gfx1151", "2.12", "yes", "official"),
        ("gfx1250", "2.12", "partly", "preview"),
        ("gfx1100", "2.8", "yes", "official"),
        ("gfx1100", "2.9", "partly", "experimental"),
        ("gfx1100", "2.9.1", "partly", "experimental"),
        ("gfx908", "2.9", "no", None),
        ("gfx1152", "2.9", "no", None),
        ("gfx1152", "2.11", "yes", None),
        ("gfx1151", "2.6", "unknown", None),
        ("gfx900", "2.9", "unknown", None),
    ],
)
def test_flash_attention_by_gpu(target: str, torch: str, wanted: str, level: str | None) -> None:
    found = ask(f"flash attention {target} torch {torch}")
    assert (found.verdict, found.level) == (wanted, level)
    reasons = [reason for part in found.parts for reason in part.because]
    assert all(source.address.startswith("https://") for reason in reasons for source in reason.sources)
    if level == "experimental":
        assert found.needs == "TORCH_ROCM_AOTRITON_ENABLE_EXPERIMENTAL=1"
    if wanted != "unknown":
        assert reasons


def test_what_the_question_leaves_open_is_told_where_it_matters() -> None:
    found = ask("flash attention gfx1100")
    assert found.verdict == "partly"
    assert "experimental: gfx1100 with PyTorch 2.9" in found.text
    family = ask("flash attention gfx110X-all torch 2.9")
    assert family.verdict == "partly"
    assert "unknown: gfx1103" in family.text and "experimental: gfx1100, gfx1101, gfx1102" in family.text
    # On the other platform it would be no.
    assert ask("flash attention gfx950 torch 2.8").notes == (
        "this applies to Linux; PyTorch 2.8 on Windows is unsupported",
    )
    assert ask("flash attention gfx950 torch 2.9").notes == ()
    assert ask("torch 2.9 on Windows 11").notes == ("this is known for Windows, not for Windows 11 alone",)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        # Contradicting sources: the README says no, the list of features and ROCm/pytorch#2902 say yes.
        ("fbgemm torch 2.9 rocm 7.1.1 linux", "partly"),
        ("fbgemm torch 2.8 linux", "no"),
        ("fbgemm torch 2.7 windows", "no"),
        ("fbgemm torch 2.9 windows", "no"),
        ("fbgemm torch 2.12 linux rocm 7.1.1", "no"),
        ("fbgemm torch 2.12 linux", "unknown"),
        ("grouped gemm torch 2.9 rocm 7.1.1", "yes"),
        ("grouped gemm torch 2.8", "unknown"),
        ("channels last torch 2.9 rocm 7.1.1", "yes"),
        ("channels last torch 2.9", "yes"),
        # gfx908 by default since 6.3; but ROCm 6.3 does not go with PyTorch 2.9.
        ("default hipblaslt gfx908 torch 2.9 rocm 7.1.1", "yes"),
        ("default hipblaslt gfx908 torch 2.9 rocm 6.3.0", "no"),
        ("default hipblaslt gfx942 torch 2.9 rocm 7.1.1", "unknown"),
        ("hipBLASLt rocm 7.1.1", "yes"),
        ("hipBLASLt 1.1.0 rocm 7.1.1", "yes"),
        ("hipBLASLt 1.2.0 rocm 7.1.1", "no"),
        ("rocJPEG rocm 6.2.0", "no"),
        ("hipRAND rocm 5.2.3", "unknown"),
        ("hipRAND", "yes"),
        # The sources on releases of ROCm are about Linux.
        ("hipBLASLt rocm 7.1.1 linux", "yes"),
        ("hipBLASLt rocm 7.1.1 windows", "unknown"),
        ("gfx942 rocm 7.1.1 windows", "unknown"),
        ("torch 2.9 rocm 7.1.1 windows", "unknown"),
        ("hipBLASLt rocm 7.1.1 gfx1150", "no"),
        ("hipBLASLt rocm 7.1.1 gfx942", "yes"),
        ("bfloat16", "yes"),
        ("bfloat16 gfx1100 rocm 7.1.1", "yes"),
        ("fp8 gfx1201", "yes"),
        ("fp8 gfx90a", "no"),
        ("complex64 gfx942", "unknown"),
        ("uint16", "partly"),
        ("fp4", "unknown"),
        ("bfloat16 rocm 6.4", "unknown"),
        ("torchvision windows", "yes"),
        ("torchvision 0.24 torch 2.9", "yes"),
        ("torchvision 0.23 torch 2.9", "no"),
        ("torchtune windows", "unknown"),
        ("torchserve torch 2.4", "yes"),
        ("torchserve torch 2.9", "no"),
        ("torchserve", "partly"),
        ("torch.nn", "yes"),
        ("torch.linalg.svd", "yes"),
        ("allow_fp16_reduced_precision_reduction torch 2.8 rocm 7.1", "no"),
        ("allow_fp16_reduced_precision_reduction torch 2.9", "unknown"),
        ("allow_fp16_reduced_precision_reduction", "no"),
        ("torch 2.9 rocm 7.1.1", "yes"),
        ("torch 2.9 rocm 7.1.0", "no"),
        # Of a line its newest release decides; what only an older one has is there in part.
        ("torch 2.9 rocm 7.1", "yes"),
        ("torch 2.5 rocm 7.0", "partly"),
        ("torch 2.9 rocm 5.2.3", "unknown"),
        ("torch 2.8 windows", "no"),
        ("torch 2.8", "partly"),
        ("torch 2.8 and 2.9 windows", "partly"),
        ("torch 2.9 windows", "yes"),
        ("torch 2.9 wsl", "unknown"),
        ("torch 2.12 linux", "yes"),
        ("torch 2.10 alpha linux", "yes"),
        ("torch 2.6 linux", "yes"),
        ("torch 2.6 windows", "unknown"),
        ("torch 3.1", "unknown"),
        ("rocm 9.9 hipBLAS", "unknown"),
        ("rocm 7.1", "list"),
        ("gfx942 rocm 7.1.1", "yes"),
        ("gfx1151 rocm 7.1.1", "partly"),
        ("gfx1151 rocm 6.4", "no"),
        ("gfx1151 rocm 5.2.3", "unknown"),
        ("gfx1200 torch 2.9", "yes"),
        ("gfx942", "yes"),
        ("gfx906", "no"),
        ("RX 580", "no"),
        ("gfx1201 rocm 6.4", "yes"),
        ("gfx1100 torch 2.12", "unknown"),
        ("python 3.12", "yes"),
        ("python 3.14", "partly"),
        ("python 3.14 torch 2.8", "no"),
        ("python 3.14 torch 2.9", "partly"),
        ("python 3.14 torch 2.13", "yes"),
        ("rocm 7.1 windows", "unknown"),
        ("windows", "yes"),
        ("python 3.13 torch 2.6", "unknown"),
        ("python 3.8", "no"),
        ("ubuntu 24.04 gfx1100 rocm 7.1.1", "unknown"),
        ("debian 13 mi300x rocm 7.0.2", "partly"),
        ("debian 13 mi300x rocm 7.0.0", "no"),
        ("ubuntu mi300x rocm 6.0", "unknown"),
    ],
)
def test_answers(text: str, wanted: str) -> None:
    assert ask(text).verdict == wanted, ask(text)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("which rocm for gfx950", ("7.1.1", "7.1.0", "7.0.2", "7.0.1", "7.0.0")),
        (
            "which ROCm has rocJPEG for torch 2.6",
            ("7.1.0", "7.0.2", "7.0.1", "7.0.0", "6.4.3", "6.4.2", "6.4.1", "6.4.0"),
        ),
        ("which pytorch with rocm 7.1.0", ("2.8", "2.7", "2.6")),
        ("which PyTorch has flash attention on gfx1152", ("2.14", "2.13", "2.12", "2.11")),
        ("which python for torch 2.9", ("3.11", "3.12", "3.13", "3.10 (partly)", "3.14 (partly)")),
        ("which python for torch 2.13", ("3.11", "3.12", "3.13", "3.10", "3.14")),
        ("which gpus with rocm 6.4.0", ("gfx908", "gfx90a", "gfx942", "gfx1030", "gfx1100")),
        ("which cards have fp8 with rocm 7.1.1", ("gfx942 (partly)", "gfx950", "gfx1200", "gfx1201")),
    ],
)
def test_lists(text: str, found: tuple[str, ...]) -> None:
    answered = ask(text)
    assert (answered.verdict, answered.found) == ("list", found)


def test_a_list_of_nothing_is_no_list() -> None:
    assert ask("which rocm for gfx906").verdict == "no"
    assert ask("which pytorch for torchtune on windows").verdict == "unknown"


def test_the_answer_names_the_version() -> None:
    found = ask("which hipBLASLt is in ROCm 7.1.1")
    assert (found.verdict, found.text) == ("list", "hipBLASLt, ROCm 7.1.1: hipBLASLt 1.1.0 is in ROCm 7.1.1")
    both = ask("which hipBLASLt is in ROCm 6.4").text
    assert "hipBLASLt 0.12.1 is in ROCm 6.4.3, 6.4.2, 6.4.1; hipBLASLt 0.12.0 is in ROCm 6.4.0" in both
    assert "torchvision 0.24 goes with PyTorch 2.9" in ask("which torchvision for torch 2.9").text
    assert "hipSOLVER" in ask("torch.linalg.svd").text


def test_a_product_is_told_from_its_target() -> None:
    listed, beside, neither = ask("RX 7900 XTX"), ask("RX 6800"), ask("RX 6700 XT")
    assert (listed.verdict, beside.verdict, neither.verdict) == ("yes", "partly", "no")
    assert "has gfx1030" in beside.text and "does not name Radeon RX 6800" in beside.text
    # A chip and a target are no products.
    assert ask("Navi 21").verdict == ask("gfx1030").verdict == "yes"


SUBJECTS = [
    "flash attention",
    "triton",
    "torch.compile",
    "docker",
    "fbgemm",
    "sdpa",
    "tunableop",
    "apex",
    "c++ extensions",
    "hipblaslt",
    "bf16",
    "uint16",
    "int4",
    "torchvision",
    "torchtune",
    "torchserve",
    "torch.nn",
    "distributed training",
    "torch.linalg.svd",
    "allow_bf16_reduced_precision_reduction",
    "gfx942",
    "RX 7900 XTX",
    "gfx110X-all",
]


@pytest.mark.parametrize(
    "further", ["torch 1.0", "torch 2.99", "rocm 4.0", "rocm 12.3", "python 2.7", "wsl", "arch linux"]
)
def test_what_no_source_has_is_never_passed_over(further: str) -> None:
    answers = {name: ask(f"{name} {further}").verdict for name in SUBJECTS}
    assert set(answers.values()) <= {"no", "unknown"}, answers


def test_no_target_is_on_the_list_and_not_on_it() -> None:
    for family in FACTS.families:
        for rocm in ("7.1.1", "6.4", "6.0.0"):
            (part,) = ask(f"{family} rocm {rocm}").parts
            has, _, missing = (
                part.text.partition("; ")[0].replace("does not have ", "has , not ").partition(", not ")
            )
            assert not set(has.split()) & set(missing.split())
            assert set(FACTS.families[family]) <= {*has.split(), *missing.split()}


def test_a_combination_is_as_supported_as_its_weakest_part() -> None:
    found = ask("flash attention on RX 7900 XTX, torch 2.8, windows, python 3.12")
    assert (found.verdict, found.weakest) == ("no", "PyTorch 2.8 on Windows")
    assert [part.verdict for part in found.parts] == ["no", "unknown", "yes"]
    assert {source.date for part in found.parts[:1] for one in part.because for source in one.sources} == {
        "end of 2025",
    }


def test_contradictions_are_told_by_version_with_both_sources() -> None:
    found = find_conflicts(FACTS)
    assert [(one.topic, one.torch, one.platform) for one in found] == [
        ("FBGEMM GenAI", "2.9", "linux"),
        ("FBGEMM GenAI", "2.10", "linux"),
    ]
    for one in found:
        sources = {said.answer: set(said.sources) for said in one.statements}
        assert set(sources) == {"yes", "no"} and not sources["yes"] & sources["no"]
        assert "https://github.com/ROCm/TheRock/issues/2056" in sources["no"]
    both = ask("fbgemm torch 2.9 linux")
    assert "contradict" in both.text
    assert {reason.answer for part in both.parts for reason in part.because} == {"yes", "no", ""}


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

[[compat_features.statement]]
id = "our-gfx906"
topic = "gpu"
answer = "yes"
targets = ["gfx906"]
text = "We build for it."
sources = ["our wiki"]

[[compat_libraries.release]]
rocm = "7.1.1"
source = "our wiki"
versions = { hipBLAS = "3.1.9" }
"""
    facts = load_facts(parse_overlay(text, where="rocwright.toml"))
    assert ask("flash attention gfx900", facts).verdict == "no"
    assert ask("flash attention gfx908 torch 2.9", facts).verdict == "yes"
    assert ask("gfx906 rocm 6.4", facts).verdict == "yes"
    assert "hipBLAS 3.1.9" in ask("hipBLAS rocm 7.1.1", facts).text
    assert ask("rocJPEG rocm 7.1.1", facts).verdict == "unknown"


def test_a_no_for_all_gpus_counts_and_a_yes_for_all_does_not() -> None:
    assert ask("flash attention gfx900 torch 2.9").verdict == "unknown"
    row = """
[[compat_features.statement]]
id = "flash-windows"
topic = "flash-attention"
answer = "no"
platforms = ["windows"]
torch = ">=2.11"
text = "Not in our builds."
sources = ["our wiki"]
"""
    facts = load_facts(parse_overlay(row, where="rocwright.toml"))
    assert ask("flash attention gfx900 torch 2.12 windows", facts).verdict == "no"
    # What holds for a GPU is only as good as its platform.
    assert ask("flash attention gfx942 torch 2.12 windows", facts).verdict == "no"
    assert ask("flash attention gfx942 torch 2.12 linux", facts).verdict == "yes"


def test_reasons_are_plain_text() -> None:
    found = ask("amdclang++ torch 2.8 rocm 7.0.2")
    assert found.verdict == "yes"
    texts = [reason.text for part in found.parts for reason in part.because]
    assert any("amdclang++ is the compiler" in text for text in texts)
    assert not any("](" in text for text in texts)


KNOWN = sorted(set(vocabulary(FACTS).single) | set(vocabulary(FACTS).fillers))
_WORDS = st.one_of(
    st.sampled_from(KNOWN),
    st.sampled_from(
        [
            "torch",
            "rocm",
            "2.9",
            "7.1",
            "gfx1151",
            "gfx110X-all",
            "linux",
            "wsl",
            "which",
            "version",
            "debian 12",
            "?",
        ]
    ),
    st.from_regex(r"(torch|rocm|python|v)?[0-9.+a-z]{0,12}", fullmatch=True),
    st.text(max_size=8),
)


@settings(max_examples=150, deadline=None, database=None)
@given(st.lists(_WORDS, max_size=8))
def test_any_words_are_answered_or_refused(words: list[str]) -> None:
    try:
        found = ask(" ".join(words))
    except RocwrightError as refused:
        assert refused.exit_code == 3 and refused.next_step
    else:
        assert found.text
        # Nobody has to take a yes or a no on trust.
        deciding = [part for part in found.parts if part.verdict == found.verdict]
        if found.verdict in ("yes", "no"):
            assert any(reason.sources for part in deciding for reason in part.because)


@settings(max_examples=60, deadline=None, database=None)
@given(st.text(max_size=200))
def test_any_text_is_split(text: str) -> None:
    assert all(word == word.lower() and " " not in word for word in split_words(text))


def test_the_command_prints_the_answer_first(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "compat", "query", "does gfx1151 have flash attention in torch 2.9?")
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == "partly, experimental: flash attention on gfx1151, PyTorch 2.9"
    assert "https://github.com/ROCm/pytorch/pull/3313" in out


def test_options_are_the_same_question(capsys: pytest.CaptureFixture[str]) -> None:
    words = "does gfx1151 have flash attention in torch 2.9 with rocm 7.1.1 on linux, python 3.12?"
    sentence = run(capsys, "compat", "query", "--json", words)
    given = ("--gpu", "gfx1151", "--torch", "2.9", "--about", "Flash Attention", "--rocm", "7.1.1")
    options = run(capsys, "compat", "query", "--json", *given, "--platform", "linux", "--python", "3.12")
    assert options == sentence and options[0] == 0
    found = json.loads(options[1])
    assert (found["verdict"], found["level"]) == ("partly", "experimental")
    assert msgspec.convert(found["question"], Question).targets == ("gfx1151",)
    # What the options were called before.
    older = run(capsys, "compat", "query", "--json", "--target", "gfx1151", "--feature", "sdpa")
    assert older == run(capsys, "compat", "query", "--json", "sdpa on gfx1151")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--about", "flying", "--torch", "2.9"), "not understood: flying"),
        (("--about", "linux", "--torch", "2.9"), "nothing is called 'linux'"),
        (("--gpu", "gfx9999", "--about", "sdpa"), "no table lists the GPU 'gfx9999'"),
        (("--gpu", "sdpa"), "'sdpa' names no GPU"),
        (("--torch", "abc", "--about", "sdpa"), "'abc' is not a valid version"),
        (("--rocm", "7.1.", "--about", "sdpa"), "'7.1.' is not a valid version"),
        (("flash attention torch 2.8", "--torch", "2.9"), "the question says 2.8, --torch says 2.9"),
        (("--gpu", ",", "--about", "sdpa"), "',' names no GPU"),
    ],
)
def test_wrong_options_are_explained(
    words: tuple[str, ...], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = run(capsys, "compat", "query", *words)
    assert (code, out) == (3, "")
    assert told in err and "next:" in err
    assert len(err.splitlines()) == 2


def test_the_answer_in_the_documentation_is_the_one_given(capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[4] / "docs/how-to/ask-compatibility.md").read_text(encoding="utf-8")
    for question in (
        "does gfx1151 have flash attention in torch 2.9?",
        "flash attention windows torch 2.8 gfx1100",
    ):
        _, out, _ = run(capsys, "compat", "query", question)
        shown = f'$ rocwright compat query "{question}"\n{out}```'
        # The page shows it as on a terminal of 80 columns.
        assert " ".join(shown.split()) in " ".join(page.split())

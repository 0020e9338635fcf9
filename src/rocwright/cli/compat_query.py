"""`rocwright compat query`: a question about compatibility, answered with its sources."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rocwright.cli.answer import Answer, answers
from rocwright.cli.show_compat import show_answer, show_words
from rocwright.compat.claimed.answer import answer
from rocwright.compat.claimed.facts import load_facts
from rocwright.compat.claimed.question import parse_question, with_options
from rocwright.compat.claimed.vocabulary import known_words
from rocwright.data.overlay import read_overlay


@answers(before="config")
def compat_query(
    *question: str,
    gpu: Annotated[str, Parameter(name=["--gpu", "--target"])] = "",
    torch: str = "",
    rocm: str = "",
    python: str = "",
    platform: Literal["", "linux", "windows", "wsl"] = "",
    about: Annotated[str, Parameter(name=["--about", "--feature"])] = "",
    config: Path | None = None,
) -> Answer:
    """Answer a question about what PyTorch on ROCm supports: yes, partly, no, unknown, list; and who says so.

    A combination is as supported as its weakest part, which the answer names. Whatever a question names is
    used, or said to be in no source; a word that is not known is an error. Without words or options it lists
    what can be asked for. A question that names no platform is about Linux.

    For example: rocwright compat query "does gfx1151 have flash attention in torch 2.9?"

    Parameters
    ----------
    question
        The question, in quotes or as words.
    gpu
        GPUs, separated by commas: targets, families, chips, products.
    torch
        A version of PyTorch.
    rocm
        A release of ROCm, or its line.
    python
        A version of Python.
    platform
        The platform.
    about
        A feature, library, project, data type or function.
    json
        Print the answer as JSON; its field verdict is one of yes, partly, no, unknown, list.
    config
        A rocwright.toml with rows of your own (default: the one here).
    """
    facts = load_facts(read_overlay(config))
    options = {
        "gpu": gpu,
        "torch": torch,
        "rocm": rocm,
        "python": python,
        "platform": platform,
        "about": about,
    }
    if not question and not any(options.values()):
        known = known_words(facts)
        return Answer(known, lambda: show_words(known))
    found = answer(with_options(parse_question(" ".join(question), facts), facts, **options), facts)
    return Answer(found, lambda: show_answer(found))

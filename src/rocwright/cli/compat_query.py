"""`rocwright compat query`: a question about compatibility, answered with its sources."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from rocwright.cli.show_compat import show_answer
from rocwright.compat.claimed.answer import answer
from rocwright.compat.claimed.facts import load_facts
from rocwright.compat.claimed.question import parse_question, with_options
from rocwright.data.overlay import read_overlay
from rocwright.system import console


def compat_query(
    *question: str,
    target: str = "",
    torch: str = "",
    rocm: str = "",
    platform: Literal["", "linux", "windows"] = "",
    feature: str = "",
    json: Annotated[bool, Parameter(name="--json")] = False,
    config: Path | None = None,
) -> None:
    """Answer a question about what PyTorch on ROCm supports: yes, no, depends or not known, and who says so.

    It understands GPUs (targets, families, names), versions of torch and rocm, platforms, features,
    libraries, projects, data types and known issues; a word that it does not know is an error, never a guess.

    For example: rocwright compat query "does gfx1151 have flash attention in torch 2.9?"

    Parameters
    ----------
    question
        The question, in quotes or as words.
    target
        GPUs: targets or families, separated by commas.
    torch
        A version of PyTorch.
    rocm
        A release of ROCm.
    platform
        The platform.
    feature
        A feature, library, project or data type.
    json
        Print the answers as JSON.
    config
        A rocwright.toml with rows of your own (default: the one here).
    """
    facts = load_facts(read_overlay(config))
    asked = with_options(
        parse_question(" ".join(question), facts),
        facts,
        target=target,
        torch=torch,
        rocm=rocm,
        platform=platform,
        feature=feature,
    )
    answers = answer(asked, facts)
    if json:
        console.out_json(answers)
        return
    for one in answers:
        show_answer(one)

"""Answers to questions about compatibility: yes, no, depends or not known, each with where it is said.

*Depends* stands where the question leaves open what the answer turns on, where GPUs differ, and where sources
contradict each other. *Not known* is no polite no: no table says anything about it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from rocwright.compat.claimed.about import (
    about_data_type,
    about_function,
    about_gpu,
    about_issue,
    about_library,
    about_module,
    about_project,
    about_torch,
)
from rocwright.compat.claimed.facts import Facts
from rocwright.compat.claimed.judge import Answer, judge
from rocwright.compat.claimed.question import Asked, InvalidQuestion
from rocwright.compat.claimed.words import Kind, Subject, known_words


def answer(asked: Asked, facts: Facts) -> tuple[Answer, ...]:
    """One answer for each subject; raises `InvalidQuestion` when there is none."""
    if asked.subjects:
        return tuple(_ABOUT[subject.kind](subject, asked, facts) for subject in asked.subjects)
    if asked.targets:
        return (about_gpu(asked, facts),)
    if asked.torch:
        return (about_torch(asked, facts),)
    raise InvalidQuestion("the question names no feature, library or GPU", next_step=known_words(facts))


def _topic(subject: Subject, asked: Asked, facts: Facts) -> Answer:
    topic = next(row for row in facts.features.topic if row.id == subject.name)
    said = [row for row in facts.statements if row.topic == topic.id]
    return judge(topic.name, said, asked, per_target=topic.per_target)


def _feature(subject: Subject, asked: Asked, facts: Facts) -> Answer:
    feature = {row.id: row for row in facts.features.feature}[subject.name]
    said = facts.said_by(feature)
    return judge(feature.words[0] if feature.words else feature.id, [said], asked)


_ABOUT: Mapping[Kind, Callable[[Subject, Asked, Facts], Answer]] = {
    "topic": _topic,
    "feature": _feature,
    "library": about_library,
    "data type": about_data_type,
    "project": about_project,
    "module": about_module,
    "function": about_function,
    "issue": about_issue,
}

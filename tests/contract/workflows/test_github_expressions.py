"""The stand-in's expressions against what GitHub's reference says of them; expected values by hand."""

from __future__ import annotations

import pytest

from contract.workflows.github_expressions import BadExpression, evaluate, filled

CONTEXTS = {
    "needs": {"build": {"result": "success", "outputs": {"url": "https://x"}}},
    "inputs": {"jobs": '{"gate": "gate/linux", "tests": [{"id": "a"}, {"id": "b"}]}', "empty": ""},
    "github": {"event_name": "push", "event": {}},
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("needs.build.result == 'success'", True),
        ("needs.build.result == 'SUCCESS'", True),
        ("needs.other.result == 'success'", False),
        ("!fromJSON(inputs.jobs).promote", True),
        ("fromJSON(inputs.jobs).gate", "gate/linux"),
        ("fromJSON(inputs.jobs).tests[1].id", "b"),
        ("inputs.empty || 'other'", "other"),
        ("inputs.empty && 'other'", ""),
        ("true && false || 'last'", "last"),
        ("github.event.pull_request.head.repo.fork != true", True),
        ("github.event.pull_request.number || 7", 7.0),
        ("format('{0} and {1}', 'it''s', 2 == 2)", "it's and true"),
        ("contains('abc', 'b') && startsWith('Abc', 'a')", True),
        ("needs['build'].outputs.url", "https://x"),
        ("null == 0", True),
        ("(1 == 2) == false", True),
    ],
)
def test_values(text: str, value: object) -> None:
    assert evaluate(text, CONTEXTS) == value


def test_text_around_is_kept_and_a_whole_expression_keeps_its_type() -> None:
    assert filled({"a": "x-${{ github.event_name }}-${{ 1 == 1 }}"}, CONTEXTS) == {"a": "x-push-true"}
    assert filled("${{ fromJSON(inputs.jobs).tests }}", CONTEXTS) == [{"id": "a"}, {"id": "b"}]


@pytest.mark.parametrize("text", ["secrets.token", "1 ==== 2", "needs.build.result 'x'"])
def test_what_github_refuses(text: str) -> None:
    with pytest.raises(BadExpression):
        evaluate(text, CONTEXTS)

"""Each way to break a good set is found by the rule meant for it, and by no other; the good sets by none."""

from __future__ import annotations

import pytest

from real import mutations_good
from real.mutations import MUTATIONS, Mutation
from rocwright.check.rules import RULES, SET_RULES
from rocwright.check.run import OWN_RULES

CATALOGUE = (*OWN_RULES, *(rule.id for rule in RULES), *(rule.id for rule in SET_RULES))
QUICK = [mutation for mutation in MUTATIONS if not mutation.installs]


@pytest.fixture(scope="session")
def good_sets(newcomer, demo, real_sets) -> dict[str, mutations_good.GoodSet]:
    return mutations_good.make_good_sets(newcomer, demo, real_sets)


def listed(report) -> str:
    return "\n".join(map(str, report.findings))


@pytest.mark.parametrize("name", ["legacy", "kpack", "windows"])
def test_a_good_set_has_no_finding(good_sets, name, tmp_path):
    good = good_sets[name]
    report = mutations_good.check(good, good.bench(tmp_path))
    assert report.files
    assert listed(report) == ""


@pytest.mark.parametrize("mutation", QUICK, ids=lambda mutation: mutation.id)
def test_a_mutation_is_found_by_its_rule_alone(good_sets, tmp_path, mutation: Mutation):
    good = good_sets[mutation.of]
    bench = good.bench(tmp_path)
    mutation.apply(bench)
    report = mutations_good.check(good, bench)
    found = {(finding.rule, finding.severity) for finding in report.findings}
    assert found == {(mutation.rule, mutation.severity)}, listed(report)
    # Whoever reads it learns what to do, in words that fit the finding.
    assert all(finding.cause and finding.next_step for finding in report.findings)
    if mutation.rule in OWN_RULES:
        return
    # Nobody else would have noticed; what the strict reader refuses is never passed unsaid.
    rest = mutations_good.check(good, bench, without=[mutation.rule])
    assert {finding.rule for finding in rest.findings} <= {"structure"}, listed(rest)


def test_every_rule_has_a_mutation_of_its_own():
    assert {mutation.rule for mutation in MUTATIONS} == set(CATALOGUE)
    assert len(MUTATIONS) >= 40

"""Each way to break a good set is found by the rule meant for it, and by no other; the good sets by none."""

from __future__ import annotations

import json
import shutil

import pytest

from real import mutations_good
from real.mutations import MUTATIONS, Mutation
from real.mutations_base import WINDOWS
from rocwright.check.rules import OWN_RULES, RULES, SET_RULES

CATALOGUE = tuple(rule.id for rule in (*OWN_RULES, *RULES, *SET_RULES))


@pytest.fixture(scope="session")
def good_sets(newcomer, demo, real_sets, small_sets) -> dict[str, mutations_good.GoodSet]:
    return mutations_good.make_good_sets(newcomer, demo, real_sets, small_sets)


@pytest.fixture(scope="session")
def good_findings(good_sets, tmp_path_factory):
    return {
        name: mutations_good.check(good, good.bench(tmp_path_factory.mktemp(name))).findings
        for name, good in good_sets.items()
    }


def listed(findings) -> str:
    return "\n".join(map(str, findings))


@pytest.mark.parametrize("name", ["legacy", "kpack", "windows", "small"])
def test_a_good_set_has_no_finding(good_sets, good_findings, name):
    assert len(good_sets[name].paths) >= 7
    assert listed(good_findings[name]) == ""


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.id)
def test_a_mutation_is_found_by_its_rule_alone(good_sets, good_findings, tmp_path, mutation: Mutation):
    good = good_sets[mutation.of]
    bench = good.bench(tmp_path)
    mutation.apply(bench)
    report = mutations_good.check(good, bench)
    # A finding of the good set is another test's matter.
    new = [finding for finding in report.findings if finding not in good_findings[mutation.of]]
    found = {(finding.rule, finding.severity) for finding in new}
    assert found == {(mutation.rule, mutation.severity)}, listed(new)
    # Whoever reads it learns what to do, in words that fit the finding.
    assert all(finding.cause and finding.next_step for finding in new)
    if mutation.rule in {rule.id for rule in OWN_RULES}:
        return
    # Nobody else would have noticed; what the strict reader refuses is never passed unsaid.
    rest = mutations_good.check(good, bench, without=[mutation.rule])
    rest_new = [finding for finding in rest.findings if finding not in good_findings[mutation.of]]
    assert {finding.rule for finding in rest_new} <= {"structure"}, listed(rest_new)


def test_every_rule_has_a_mutation_of_its_own():
    assert {mutation.rule for mutation in MUTATIONS} == set(CATALOGUE)
    assert len(MUTATIONS) >= 40


# -- by the command


@pytest.mark.parametrize(
    ("name", "project"),
    [
        ("wrong-digest", "torch"),
        ("symbolic-link", "torch"),
        ("hip-is-none", "torch"),
        ("elf-opt-rocm", "torch"),
        ("any-torch", "torchvision"),
        ("kpack-truncated", "amd-torch-device-gfx906"),
    ],
)
def test_the_command_says_no_to_a_broken_wheel_and_yes_to_the_good_one(
    good_sets, newcomer, name, project, request
):
    (mutation,) = (mutation for mutation in MUTATIONS if mutation.id == name)
    good = good_sets[mutation.of]
    bench = good.bench(readable_directory(newcomer, request))
    mutation.apply(bench)
    answers = []
    for path in (bench.paths[project], good.paths[project]):
        done = newcomer.rocwright("check", path, "--json", ok=False)
        found = json.loads(done.stdout)["findings"]
        answers.append((done.returncode, {row["rule"] for row in found if row["severity"] == "error"}))
    assert answers == [(9, {mutation.rule}), (0, set())]


@pytest.mark.parametrize("name", ["pe-left-out", "reserved-name", "extra-without-package-on-windows"])
def test_the_command_says_no_to_a_broken_set(good_sets, newcomer, name, request):
    good = good_sets[WINDOWS]
    bench = good.bench(readable_directory(newcomer, request))
    if name == "extra-without-package-on-windows":
        bench.drop("rocm-sdk-device-gfx1100")
        rule = "set-extras"
    else:
        (mutation,) = (mutation for mutation in MUTATIONS if mutation.id == name)
        mutation.apply(bench)
        rule = mutation.rule
    folder = bench.scratch / "set"
    folder.mkdir(parents=True)
    for path in bench.paths.values():
        shutil.copy(path, folder)
    done = newcomer.rocwright("check", "--set", folder, "--json", ok=False)
    assert done.returncode == 9
    assert {row["rule"] for row in json.loads(done.stdout)["findings"]} == {rule}


def readable_directory(newcomer, request):
    """A directory for this test that the newcomer can read; pytest's own is closed to others."""
    path = newcomer.home / "mutations" / request.node.name
    path.mkdir(parents=True)
    return path

"""The compatibility page in its forms: ROCm's reStructuredText, Markdown, tables, JSON; and bad tables."""

from __future__ import annotations

import io
import json
import re

import pytest
from docutils import nodes
from docutils.core import publish_doctree
from docutils.parsers.rst import Directive, directives, roles

from command_line import run
from rocwright.compat.claimed.facts import load_facts
from rocwright.compat.claimed.markup import Markup
from rocwright.compat.claimed.render import as_rst, markup_of, page_rst
from rocwright.compat.claimed.sections import SECTIONS, Section, Table, section
from rocwright.data.overlay import parse_overlay
from rocwright.errors import InvalidData

FACTS = load_facts()


class _VersionSet(Directive):
    """Stands in for that of ROCm's documentation: its arguments are what counts here."""

    required_arguments = 2

    def run(self) -> list[nodes.Node]:
        return [nodes.comment("", " ".join(self.arguments), classes=["version-set"])]


def _role(name: str):
    def read(role, rawtext, text, lineno, inliner, options=None, content=None):
        return [nodes.literal(rawtext, text, classes=[name])], []

    return read


def read_rst(text: str) -> nodes.document:
    """A text as docutils reads it; what it warns of is an error."""
    directives.register_directive("version-set", _VersionSet)
    for name in ("doc", "ref", "version-ref"):
        roles.register_local_role(name, _role(name))
    told = io.StringIO()
    settings = {"warning_stream": told, "report_level": 2, "halt_level": 5}
    tree = publish_doctree(text, settings_overrides=settings)
    assert told.getvalue() == ""
    return tree


@pytest.fixture(scope="module")
def doctree() -> nodes.document:
    return read_rst(page_rst(FACTS))


def test_rst_is_the_documents_form(doctree: nodes.document) -> None:
    # The parts of the document of 2026 that are fixed by its form.
    lines = page_rst(FACTS).splitlines()
    assert lines[0] == ":orphan:"
    assert lines[2:7] == [
        ".. meta::",
        "    :description: PyTorch compatibility",
        "    :keywords: GPU, PyTorch, deep learning, framework compatibility",
        "",
        ".. version-set:: rocm_version latest",
    ]
    assert lines[8:11] == ["*" * 80, "PyTorch compatibility", "*" * 80]
    assert ".. _pytorch-recommendations:" in lines and ".. _pytorch-docker-compat:" in lines
    titles = [node.astext() for node in doctree.findall(nodes.title)]
    assert titles == [
        "PyTorch compatibility",
        "Support overview",
        "Version support",
        "Use cases and recommendations",
        "Docker image compatibility",
        "Key ROCm libraries for PyTorch",
        "Supported modules and data types",
        "Supported data types",
        "Supported modules",
        "Supported domain libraries",
        "Features by release",
        "Key features and enhancements for PyTorch 2.9 with ROCm 7.1.1",
        "Key features and enhancements for PyTorch 2.8 with ROCm 7.1",
        "Key features and enhancements for PyTorch 2.7/2.8 with ROCm 7.0",
        "Known issues and notes",
    ]


def test_rst_names_versions_by_reference_only(doctree: nodes.document) -> None:
    found = [node.astext() for node in doctree.findall(nodes.literal) if "version-ref" in node["classes"]]
    assert len(found) == 20 and all(text.endswith(" rocm_version") for text in found)
    table = next(node for node in doctree.findall(nodes.table))
    assert re.findall(r"\d+\.\d+\.\d+", table.astext()) == []


def test_rst_has_the_tables_of_the_document(doctree: nodes.document) -> None:
    sizes = [len(list(table.findall(nodes.row))) - 1 for table in doctree.findall(nodes.table)]
    # Libraries, data types, domain libraries, known issues.
    assert sizes == [20, 22, 8, 11]
    (note,) = doctree.findall(nodes.note)
    assert "hardware" in note.astext()


@pytest.mark.parametrize("name", SECTIONS)
def test_every_section_alone_is_rst_without_a_warning(name: str) -> None:
    found = section(FACTS, name)
    tree = read_rst(as_rst(found, markup_of(FACTS, "latest")))
    assert found.title in tree.astext()


def test_signs_that_mean_something_in_rst_do_not_there() -> None:
    markup = Markup({}, {}, "rocm_version")
    for text in ("a * b", "*all*", "a_ b", "x|y|z", r"C:\b", "f_mm_", "torch.matmul (a)"):
        tree = publish_doctree(markup.rst(text), settings_overrides={"report_level": 1, "halt_level": 2})
        assert tree.astext() == text


def test_a_reference_to_a_documentation_that_is_not_known_is_named() -> None:
    markup = Markup({"rocm": "https://rocm.example/"}, {}, "rocm_version")
    assert markup.markdown("[p](doc:rocm:a/b)") == "[p](https://rocm.example/a/b.html)"
    with pytest.raises(InvalidData, match=r"'doc:other:page'.*\[compat.addresses\]"):
        markup.markdown("[p](doc:other:page)")
    with pytest.raises(InvalidData, match=r"'ref:rocm:label'.*\[compat.labels\]"):
        markup.markdown("[p](ref:rocm:label)")


def tables(found: Section) -> list[Table]:
    inside = [table for one in found.inside for table in tables(one)]
    return [block for block in found.blocks if isinstance(block, Table)] + inside


@pytest.mark.parametrize("name", SECTIONS)
def test_every_table_is_rectangular(name: str) -> None:
    for table in tables(section(FACTS, name)):
        assert {len(row) for row in table.rows} == {len(table.head)}


@pytest.mark.parametrize("name", SECTIONS)
@pytest.mark.parametrize("form", ["table", "markdown", "rst"])
def test_every_section_in_every_form(name: str, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "compat", "show", name, "--format", form)
    assert (code, err) == (0, "")
    assert section(FACTS, name).title in out


@pytest.mark.parametrize("name", SECTIONS)
def test_every_section_has_a_json_twin(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "compat", "show", name, "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)


def test_versions_of_another_release(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, "compat", "show", "libraries", "--rocm", "6.2.0")
    versions = dict(re.findall(r"^(rocAL|rocJPEG|RCCL) +(\S+)", out, re.MULTILINE))
    assert versions == {"rocAL": "1.0.0", "rocJPEG": "none", "RCCL": "2.20.5"}
    _, out, _ = run(capsys, "compat", "show", "libraries", "--rocm", "7.0", "--json")
    assert json.loads(out)["versions"]["versions"]["hipBLAS"] == "3.0.0"


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("librares",), 2, "perhaps libraries"),
        (("libraries", "--rocm", "9.9"), 3, "ROCm 9.9 is not known; known are 10.1.0 10.0.0"),
        (("libraries", "--rocm", "new"), 3, "'new' is not a valid version"),
        (("--json", "--format", "rst"), 2, "--json and --format rst contradict each other"),
        (("--config", "none.toml"), 3, "none.toml cannot be read"),
    ],
)
def test_wrong_words_are_explained(
    words: tuple[str, ...], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found, out, err = run(capsys, "compat", "show", *words)
    assert (found, out) == (code, "")
    assert told in err


# --- tables that are not as they should be: file, line, field

STATEMENT = (
    '[[compat_features.statement]]\nid = "x"\ntopic = "flash-attention"\nanswer = "yes"\n'
    'text = "t"\nsources = ["s"]\n'
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (STATEMENT.replace('"yes"', '"maybe"'), r"'maybe'.*statement\[0\]\.answer`, line 4"),
        (STATEMENT + 'level = "beta"', r"'beta'.*statement\[0\]\.level`, line 7"),
        (
            STATEMENT + 'torch = "2.9 or so"',
            r"'2.9 or so' is not a version specifier.*statement\[0\]`, line 1",
        ),
        (STATEMENT + 'targets = ["MI300X"]', r"'MI300X' is not a GPU target.*statement\[0\]`, line 1"),
        (STATEMENT.replace("flash-attention", "flying"), "'x' has the topic 'flying', which does not exist"),
        (STATEMENT + "platform = []", r"unknown field `platform`.*statement\[0\]`, line 7"),
        ('[[compat.data_type]]\nname = "torch.int4"', r"`text` - at `\$\.compat\.data_type\[0\]`, line 1"),
        ("[compat.page]\ntitle = 5", r"Expected `str`, got `int` - at `\$\.compat\.page\.title`, line 2"),
        (
            '[[compat_libraries.release]]\nrocm = "8"\nsource = "s"\nversions = { hipBLASt = "1" }',
            "release 8 has a version of 'hipBLASt', which is not a library",
        ),
        ('[compat_libraries]\nlatest = "8.0"', "latest is '8.0', which is not a release"),
        (
            '[[compat_libraries.release]]\nrocm = "8"\nsource = "s"\nversions = {}\ntorch = ["2.9"]\n'
            'torch_for = { "2.8" = ["gfx942"] }',
            r"`torch_for` has '2.8', which `torch` does not.*release\[0\]`, line 1",
        ),
        (
            '[[compat_libraries.release]]\nrocm = "8"\nsource = "s"\nversions = {}\nelsewhere = { mac = {} }',
            "'mac'.*elsewhere",
        ),
        (
            '[[compat.issue]]\nid = "i"\nnames = ["n"]\nrocm = ["8"]\ntext = "t"\nfixed = "soon"',
            "'soon' is not a",
        ),
        (
            '[[compat_libraries.release]]\nrocm = "eight"\nsource = "s"\nversions = {}',
            r"'eight' is not a version.*release\[0\]`, line 1",
        ),
        (
            '[[compat_features.feature]]\nid = "f"\nlist = "9.9"\ntext = "t"',
            "feature 'f' is of list '9.9', which does not exist",
        ),
        (
            '[[compat.torch]]\nname = "nightly"\nlinux = "supported"\nwindows = "supported"',
            r"'nightly' is not a version.*torch\[0\]`, line 1",
        ),
        ('[compat.modules]\nname = "x"', r"unknown field `name`.*compat\.modules`, line 2"),
        ("[compat_feature]\nx = 1", "cannot have a table 'compat_feature'.*"),
    ],
)
def test_a_row_that_does_not_fit_is_named_by_file_line_and_field(text: str, words: str) -> None:
    with pytest.raises(InvalidData, match=words) as caught:
        load_facts(parse_overlay(text, where="my/rocwright.toml"))
    assert caught.value.where == "my/rocwright.toml"
    assert caught.value.exit_code == 3

"""The generated module through which a wheel finds its ROCm."""

from __future__ import annotations

import sys
import types

import pytest

from rocwright.builder.decide.project import preload_list, render_rocm_init


class Sdk(types.ModuleType):
    """Stands for the installed `rocm_sdk` and records how it is called."""

    def __init__(self) -> None:
        super().__init__("rocm_sdk")
        self.calls: list[dict[str, object]] = []

    def initialize_process(self, **arguments: object) -> None:
        self.calls.append(arguments)


def test_the_generated_module_loads_rocm_only_when_called(monkeypatch: pytest.MonkeyPatch) -> None:
    text = render_rocm_init(["amd_comgr", "rocm-openblas"], "7.10.*")
    names: dict[str, object] = {}
    monkeypatch.setitem(sys.modules, "rocm_sdk", None)
    exec(compile(text, "torch/_rocm_init.py", "exec"), names)
    # Exactly one name is defined, and importing the module needed no ROCm.
    assert [name for name in names if not name.startswith("__")] == ["initialize"]
    with pytest.raises(ImportError):
        names["initialize"]()
    sdk = Sdk()
    monkeypatch.setitem(sys.modules, "rocm_sdk", sdk)
    names["initialize"]()
    assert sdk.calls == [{"preload_shortnames": ["amd_comgr", "rocm-openblas"], "check_version": "7.10.*"}]


@pytest.mark.parametrize("names", [[], ["it's"], ['"x"\n']])
def test_any_name_and_none_at_all_give_a_module_that_compiles(
    monkeypatch: pytest.MonkeyPatch, names: list[str]
) -> None:
    space: dict[str, object] = {}
    exec(compile(render_rocm_init(names, "7'"), "x", "exec"), space)
    sdk = Sdk()
    monkeypatch.setitem(sys.modules, "rocm_sdk", sdk)
    space["initialize"]()
    assert sdk.calls == [{"preload_shortnames": names, "check_version": "7'"}]


def test_names_stand_in_the_tables_order() -> None:
    assert preload_list(["c", "a", "b"], iter(["a", "c", "z"])) == ("c", "a")

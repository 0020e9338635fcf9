"""Asking torch for its GPUs, with a test double of torch in a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from miniature_pytorch import HIP_GPUS, write_torch
from rocwright.errors import InvalidInput, MissingTool
from rocwright.gputest.devices import probe
from rocwright.model.testing import TorchFacts

PYTHON = Path(sys.executable)
BUILT = ["gfx942", "gfx1100"]
NO_VARIABLES = ("HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES")
Ask = Callable[..., TorchFacts]


@pytest.fixture
def ask(tmp_path: Path) -> Ask:
    """Ask the double; `torch` are arguments of `write_torch`, the others variables of the environment."""

    def ask(torch: dict[str, str] | None = None, limit_s: float | None = None, **environ: str) -> TorchFacts:
        folder = write_torch(tmp_path / "double", HIP_GPUS, BUILT, **(torch or {}))
        return probe(
            PYTHON, env={"PYTHONPATH": str(folder), **environ}, drop_env=NO_VARIABLES, limit_s=limit_s
        )

    return ask


def entries(facts: TorchFacts) -> list[tuple[str, str]]:
    return [(device.entry, device.target) for device in facts.devices]


def test_all_that_torch_says(ask: Ask) -> None:
    facts = ask()
    assert (facts.version, facts.git_version, facts.hip, facts.cuda) == (
        "2.9.1+rocm7.1.0",
        "a" * 40,
        "7.1.0",
        "",
    )
    assert facts.python == ".".join(map(str, sys.version_info[:3]))
    assert facts.architectures == ("gfx942", "gfx1100")
    assert facts.variable == "HIP_VISIBLE_DEVICES"
    assert facts.problem == ""
    assert entries(facts) == [("0", "gfx942"), ("1", "gfx1100"), ("2", "gfx942")]
    assert [device.uuid for device in facts.devices] == ["GPU-0123456789abcdef", "", ""]
    assert facts.devices[1].name == "AMD Radeon RX 7900 XTX"
    assert facts.devices[1].memory == 1 << 30


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("HIP_VISIBLE_DEVICES", "2,1", [("2", "gfx942"), ("1", "gfx1100")]),
        ("CUDA_VISIBLE_DEVICES", "1", [("1", "gfx1100")]),
        ("HIP_VISIBLE_DEVICES", "1,7,0", [("1", "gfx1100")]),  # the first that is not there ends the list
        ("HIP_VISIBLE_DEVICES", "", []),  # though HIP itself takes this for "not set"
        ("HIP_VISIBLE_DEVICES", "GPU-30313233-3435-3637-3839-616263646566", []),
    ],
)
def test_a_choice_made_before_is_kept(
    ask: Ask, variable: str, value: str, expected: list[tuple[str, str]]
) -> None:
    facts = ask(**{variable: value})
    assert entries(facts) == expected
    assert bool(facts.problem) is not bool(expected)


def test_a_driver_that_refuses(ask: Ask) -> None:
    facts = ask({"on_init": "raise RuntimeError('No HIP GPUs are available')"})
    assert facts.devices == ()
    assert facts.problem == "RuntimeError: No HIP GPUs are available"
    assert facts.architectures == ("gfx942", "gfx1100")


def test_a_driver_that_ends_the_process(ask: Ask) -> None:
    facts = ask({"on_init": "os.abort()"})
    assert facts.version == "2.9.1+rocm7.1.0"
    assert facts.devices == ()
    assert "was killed by signal 6" in facts.problem


@pytest.mark.slow
def test_a_driver_that_hangs(ask: Ask) -> None:
    facts = ask({"on_init": "import time; time.sleep(600)"}, limit_s=10.0)
    assert facts.version == "2.9.1+rocm7.1.0"
    assert "not done after 10 seconds" in facts.problem


def test_one_broken_gpu_does_not_hide_the_others_nor_shift_them(ask: Ask) -> None:
    facts = ask({"on_properties": "assert index != 1, 'unknown error'"}, HIP_VISIBLE_DEVICES="2,1,0")
    assert entries(facts) == [("2", "gfx942"), ("0", "gfx942")]
    assert facts.problem == "GPU 1: AssertionError: unknown error"


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("raise ImportError('libamdhip64.so.7: cannot open shared object file')", "libamdhip64.so.7: cannot"),
        ("import numpy_of_another_time", "No module named 'numpy_of_another_time'"),
        ("import os; os.abort()", "was killed by signal 6"),
        ("import os; os._exit(0)", "ended early"),
        ("import sys; sys.exit(3)", "ended with exit code 3"),
    ],
)
def test_a_torch_that_cannot_be_imported(ask: Ask, statement: str, message: str) -> None:
    with pytest.raises(InvalidInput, match="torch cannot be imported by") as caught:
        ask({"on_import": statement})
    assert message in caught.value.what


def test_what_torch_prints_is_no_answer_but_is_told(tmp_path: Path) -> None:
    talk = "import sys; print('{\"python\": \"2\"}'); print('amdgpu.ids: No such file', file=sys.stderr)"
    folder = write_torch(tmp_path / "double", HIP_GPUS, BUILT, on_import=talk)
    told: list[str] = []
    facts = probe(PYTHON, env={"PYTHONPATH": str(folder)}, drop_env=NO_VARIABLES, note=told.append)
    assert facts.version == "2.9.1+rocm7.1.0"
    assert told == ["amdgpu.ids: No such file"]


def test_no_torch(tmp_path: Path) -> None:
    hidden = tmp_path / "torch.py"
    hidden.write_text("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')")
    with pytest.raises(MissingTool, match="has no torch") as caught:
        probe(PYTHON, env={"PYTHONPATH": str(tmp_path)})
    assert "--python" in (caught.value.next_step or "")


@pytest.mark.parametrize(
    ("version", "said"), [("7.0.1", "pytest 7.0.1"), ("", "no pytest"), ("x", "pytest x")]
)
def test_no_pytest_or_one_that_is_too_old(tmp_path: Path, version: str, said: str) -> None:
    write_torch(tmp_path, HIP_GPUS, BUILT)
    text = f"__version__ = {version!r}" if version else "raise ImportError('gone')"
    (tmp_path / "pytest.py").write_text(text)
    with pytest.raises(MissingTool, match=f"has {said}; the tests need 7.1 or later"):
        probe(PYTHON, env={"PYTHONPATH": str(tmp_path)}, drop_env=NO_VARIABLES)


@pytest.mark.parametrize("program", ["/bin/true", "/bin/false"])
def test_no_python(program: str) -> None:
    with pytest.raises(MissingTool, match="does not answer as a Python interpreter"):
        probe(Path(program))


def test_a_path_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(MissingTool, match="was not found"):
        probe(tmp_path / "python")


def test_a_torch_in_the_current_directory_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ask: Ask
) -> None:
    # As in a checkout of PyTorch: `import torch` there finds the sources.
    (tmp_path / "here" / "torch").mkdir(parents=True)
    (tmp_path / "here" / "torch" / "__init__.py").write_text("raise ImportError('sources')")
    monkeypatch.chdir(tmp_path / "here")
    assert ask().version == "2.9.1+rocm7.1.0"

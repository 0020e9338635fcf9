"""Installations beside others that share pip's cache."""

from __future__ import annotations

import pytest

from rocwright.errors import CommandFailed
from rocwright.system.venv import despite_others

# What pip 24 said when a wheel that it had just built was removed by another pip's `cache remove`.
TAKEN = (
    "Installing collected packages: rocm-sdk-core, rocm\n"
    "ERROR: Could not install packages due to an OSError: [Errno 2] No such file or directory: "
    "'/home/user/.cache/pip/wheels/a8/be/f9/ca42e50b8d/rocm-5.2.3-py3-none-any.whl'\n"
)


def failing(times: int, tail: str) -> list[CommandFailed | None]:
    return [*(CommandFailed("pip install rocm", 1, tail=tail) for _ in range(times)), None]


@pytest.mark.parametrize(("times", "passes"), [(0, True), (1, True), (3, True), (4, False)])
def test_a_wheel_that_another_one_took_is_built_again(times: int, passes: bool) -> None:
    answers, said = iter(failing(times, TAKEN)), []

    def act() -> str:
        if (problem := next(answers)) is not None:
            raise problem
        return "installed"

    if passes:
        assert despite_others(act, said.append) == "installed"
    else:
        with pytest.raises(CommandFailed):
            despite_others(act, said.append)
    assert said == ["another installation took a wheel out of pip's cache; trying again"] * min(times, 3)


@pytest.mark.parametrize(
    "tail",
    [
        "ERROR: No matching distribution found for rocm",
        "No such file or directory: '/home/user/rocm.whl'",
        "",
    ],
)
def test_any_other_failure_is_one_at_once(tail: str) -> None:
    answers = iter(failing(1, tail))

    def act() -> None:
        problem = next(answers)
        assert problem is not None
        raise problem

    with pytest.raises(CommandFailed):
        despite_others(act, lambda _: pytest.fail("tried again"))

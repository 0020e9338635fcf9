"""A process that does exercises: imports torch, says what it is, then step by step what worked."""

from __future__ import annotations

import importlib
import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from rocwright_about import about_devices, about_torch, mapped

# A step's name and what it does; what it returns is recorded, what it raises is its error.
Step = tuple[str, Callable[[], Any]]
_LONGEST = 1000
# So many names of kernels are kept of one exercise.
_KERNELS = 40


class Absent(Exception):
    """What the exercise is about is not in this torch."""


class Skipped(Exception):
    """A step that says nothing here, and why."""


class Line:
    """The pipe to the process that waits; each message is written at once, before anything can crash."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def say(self, what: str, **message: Any) -> None:
        """Write one message."""
        data = json.dumps({"what": what, **message}).encode() + b"\n"
        while data:
            data = data[os.write(self._descriptor, data) :]


def expect(found: Any, wanted: Any) -> None:
    """Raises `ValueError` where a result is not what it must be."""
    if found != wanted:
        raise ValueError(f"gave {str(found)[:200]}, not {str(wanted)[:200]}")


def told(error: BaseException) -> str:
    """An exception in a line: its type and the first line of its words."""
    words = str(error).strip().splitlines() or [""]
    return f"{type(error).__name__}: {words[0]}"[:_LONGEST].rstrip(": ")


def work(descriptor: int, todo: Iterable[dict[str, Any]], asked: str, *, profile: bool) -> None:
    """Import torch and do the exercises in order; everything is said through the descriptor."""
    line = Line(descriptor)
    try:
        torch = importlib.import_module("torch")
        facts = about_torch(torch)
    except BaseException as error:
        import traceback

        traceback.print_exc()
        absent = isinstance(error, ModuleNotFoundError) and error.name == "torch"
        line.say("no torch", state="absent" if absent else "failed", error=told(error))
        return
    line.say("torch", facts=facts, mapped=sorted(mapped().values()))
    devices, problem = ([], "") if asked == "cpu" else about_devices(torch)
    device = "cuda" if devices else "" if asked == "cuda" else "cpu"
    line.say("device", device=device, problem=problem, devices=devices)
    if not device:
        return
    session = Session(line, torch, device, profile=profile)
    for row in todo:
        session.do(row)
        problem = session.spoiled()
        if problem:
            line.say("spoiled", error=problem)
            return


class Session:
    """Exercises on one device, and what they map into the process."""

    def __init__(self, line: Line, torch: Any, device: str, *, profile: bool) -> None:
        self._line, self._torch, self._device = line, torch, device
        self._profile = profile and device == "cuda"
        self._mapped = set(mapped())
        self._failed = False

    def do(self, row: dict[str, Any]) -> None:
        """One exercise: each of its steps, until one fails that the others build on."""
        self._line.say("begin", id=row["id"], at=os.fstat(2).st_size)
        state, error, self._failed = "done", "", False
        try:
            for name, act in self._steps(row):
                self._step(name, act)
        except Absent as absent:
            state, error = "absent", str(absent)
        except Stop:
            pass
        except Exception as problem:
            state, error, self._failed = "failed", told(problem), True
        now = mapped()
        fresh = sorted(set(now) - self._mapped)
        self._mapped.update(now)
        self._line.say("end", state=state, error=error, mapped=[now[name] for name in fresh])

    def spoiled(self) -> str:
        """What the GPU answers after a failure to a sum that cannot fail: some errors stay for good."""
        if not self._failed or self._device == "cpu":
            return ""
        try:
            expect((self._torch.ones(1, device=self._device) + 1).tolist(), [2.0])
            self._torch.cuda.synchronize()
        except Exception as problem:
            return told(problem)
        return ""

    def _steps(self, row: dict[str, Any]) -> list[Step]:
        kind, _, name = row["id"].partition(":")
        steps: list[Step]
        if kind == "dtype":
            from rocwright_types import steps_of

            steps = steps_of(self._torch, self._device, row["names"], row["kind"])
        elif kind == "flag":
            from rocwright_flags import steps_of_flag

            steps = steps_of_flag(self._torch, self._device, row["flag"])
        else:
            from rocwright_calls import steps_of_call

            steps = steps_of_call(self._torch, self._device, name)
            if self._profile:
                acts = [act for _, act in steps]
                steps.append(("kernels", lambda: self._kernels(acts)))
        return steps

    def _step(self, name: str, act: Callable[[], Any]) -> None:
        self._line.say("step", name=name)
        value, error, state = None, "", "ok"
        try:
            value = act()
            if self._device == "cuda":
                # What a kernel did wrong is said by the next call that waits for it.
                self._torch.cuda.synchronize()
        except Absent:
            raise
        except Skipped as why:
            state, error = "skipped", str(why)
        except Exception as problem:
            state, error, self._failed = "failed", told(problem), True
        self._line.say("stepped", name=name, state=state, error=error, value=value)
        if state == "failed" and name in ("create", "to device"):
            raise Stop

    def _kernels(self, acts: list[Callable[[], Any]]) -> list[str]:
        """Names of the kernels that these steps run on the GPU: what shows a library made of templates."""
        profiler = self._torch.profiler
        with profiler.profile(activities=[profiler.ProfilerActivity.CUDA]) as found:
            for act in acts:
                try:
                    act()
                except Exception as problem:
                    print(f"in the profiler: {told(problem)}", flush=True)
            self._torch.cuda.synchronize()
        names = {event.name for event in found.events() if "CUDA" in str(event.device_type)}
        kernels = [name for name in names if not name.lower().startswith(("memcpy", "memset", "mem"))]
        return [name[:200] for name in sorted(kernels)][:_KERNELS]


class Stop(Exception):
    """The steps behind build on the one that failed."""

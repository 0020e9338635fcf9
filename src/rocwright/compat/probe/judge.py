"""Claims against answers: a pure function from the table and what the scripts wrote to a report."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence

from rocwright.compat.probe.values import (
    SCHEMA,
    Answers,
    CallFound,
    CallResult,
    DtypeFound,
    DtypeResult,
    DtypeRow,
    Exercised,
    ExerciseRow,
    FlagFound,
    FlagResult,
    FlagRow,
    HeldLibrary,
    LibraryClaim,
    LibraryFound,
    LibraryResult,
    Outcome,
    Probe,
    ProbedEnvironment,
    ProbeTable,
    Step,
    TorchAbout,
)
from rocwright.model.platforms import file_pattern

_LOST = ("crashed", "hung")


def judge(answers: Answers, table: ProbeTable, held: Sequence[HeldLibrary] = ()) -> Probe:
    """The report. `held` is what torch's own directory holds, where it could be looked at."""
    torch = answers.torch
    if torch is None:
        raise ValueError("answers without a torch are not a report")
    done = {one.id: one for one in answers.exercises}
    kinds: dict[str, tuple[str, ...]] = {kind.name: kind.needs for kind in table.kind}
    dtypes = tuple(_dtype(row, kinds[row.kind], _of(done, f"dtype:{row.name}")) for row in table.dtype)
    calls = tuple(_call(row, _of(done, f"call:{row.name}")) for row in table.exercise)
    by_name = {call.name: call for call in calls}
    libraries = tuple(judge_library(row, answers, torch, by_name, held) for row in table.library)
    flags = tuple(_flag(row, _of(done, f"flag:{row.name}")) for row in table.flag)
    failed = [f"torch.{row.name}" for row in dtypes if row.outcome == "less"]
    failed += [row.name for row in libraries if row.outcome == "less"]
    return Probe(
        schema=SCHEMA,
        environment=_environment(answers, torch, table),
        dtypes=dtypes,
        libraries=libraries,
        calls=calls,
        flags=flags,
        held=tuple(held),
        mapped=answers.mapped,
        failed=tuple(failed),
        restarts=answers.restarts,
        seconds=answers.seconds,
        lost=tuple(one for one in answers.exercises if one.state in _LOST),
    )


def _of(done: dict[str, Exercised], name: str) -> Exercised:
    return done.get(name) or Exercised(name, "not run")


def _environment(answers: Answers, torch: TorchAbout, table: ProbeTable) -> ProbedEnvironment:
    named = {name for row in table.dtype for name in (row.name, *row.also)}
    return ProbedEnvironment(
        python=answers.python,
        executable=answers.executable,
        platform=answers.platform,
        torch=torch.version,
        git_version=torch.git_version,
        kind=torch.kind,
        hip=torch.hip,
        cuda=torch.cuda,
        architectures=torch.architectures,
        device=answers.device,
        device_problem=answers.device_problem,
        devices=torch.devices,
        built_with=torch.built_with,
        config=torch.config,
        further_dtypes=tuple(name for name in torch.dtypes if name not in named),
    )


def first_line(error: str) -> str:
    """An error as a cell holds it."""
    return error.partition("\n")[0].strip()


def failed_steps(steps: Sequence[Step]) -> tuple[str, ...]:
    """Each failed step with its error."""
    return tuple(f"{one.name}: {first_line(one.error)}" for one in steps if one.state == "failed")


def _dtype(row: DtypeRow, needs: Sequence[str], done: Exercised) -> DtypeResult:
    needed = [one for one in done.own if one.name in needs]
    further = [one for one in done.own if one.name not in needs]
    found, detail = _dtype_found(needs, needed, done)
    outcome: Outcome = "as claimed" if found == "works" else "less"
    if found == "works" and row.claim == "limited" and any(one.state == "ok" for one in further):
        outcome = "more"
    return DtypeResult(
        name=row.name,
        also=row.also,
        claim=row.claim,
        found=found,
        outcome=outcome,
        detail=detail,
        beyond=failed_steps(further),
        steps=done.steps,
        seconds=done.seconds,
    )


def _dtype_found(needs: Sequence[str], needed: Sequence[Step], done: Exercised) -> tuple[DtypeFound, str]:
    if done.state == "absent":
        return "not in this torch", done.error
    if done.state == "failed":
        return "fails", first_line(done.error)
    if done.state == "not run":
        return "not run", "the process could not be started again"
    at = f"in {done.step}: {done.error}" if done.step else done.error
    if done.state == "crashed":
        return "crashes", at
    if done.state == "hung":
        return "hangs", at
    wrong = "; ".join(failed_steps(needed))
    if not any(one.name == "create" and one.state == "ok" for one in needed):
        return "fails", wrong
    if wrong or {one.name for one in needed if one.state == "ok"} != set(needs):
        return "creates only", wrong or "not all of its steps were done"
    return "works", ""


def _call(row: ExerciseRow, done: Exercised) -> CallResult:
    found, detail = _call_found(done)
    return CallResult(
        name=row.name,
        calls=row.calls,
        found=found,
        detail=detail,
        mapped=done.mapped,
        kernels=done.kernels,
        steps=done.steps,
        seconds=done.seconds,
    )


def _call_found(done: Exercised) -> tuple[CallFound, str]:
    if done.lost:
        at = f"in {done.step}: {done.error}" if done.step else done.error
        return ("crashes" if done.state == "crashed" else "hangs"), at
    if done.state == "absent":
        return "not in this torch", done.error
    if done.state == "not run":
        return "not run", "the process could not be started again"
    if done.state == "failed":
        return "fails", first_line(done.error)
    wrong = "; ".join(failed_steps(done.own))
    if wrong:
        return "fails", wrong
    if not any(one.state == "ok" for one in done.own):
        return "not for this device", "; ".join(dict.fromkeys(one.error for one in done.own))
    return "works", ""


def _flag(row: FlagRow, done: Exercised) -> FlagResult:
    steps = {one.name: one for one in done.own}
    value = str(steps["readable"].value) if "readable" in steps else ""
    found, detail, off = _flag_found(done, steps)
    return FlagResult(row.name, row.issue, found, detail, value, off)


def _flag_found(done: Exercised, steps: dict[str, Step]) -> tuple[FlagFound, str, dict[str, str]]:
    if done.state == "absent":
        return "not in this torch", done.error, {}
    if done.lost or done.state in ("failed", "not run"):
        return "fails", done.error, {}
    settable, compared = steps.get("settable"), steps.get("differs")
    if settable is None or settable.state != "ok":
        return "not settable", settable.error if settable else "", {}
    if compared is None or compared.state == "skipped":
        return "not compared", compared.error if compared else "", {}
    if compared.state == "failed":
        return "fails", compared.error, {}
    value = compared.value if isinstance(compared.value, dict) else {}
    off = {str(key): str(one) for key, one in dict(value.get("off", {})).items()}
    return ("works" if value.get("differ") else "no difference"), "", off


# -- ROCm's libraries against what is in torch's process: a mapped file, a kernel of their name, or nothing


_WRONG = ("fails", "crashes", "hangs", "not run")


def judge_library(
    row: LibraryClaim,
    answers: Answers,
    torch: TorchAbout,
    calls: Mapping[str, CallResult],
    held: Sequence[HeldLibrary],
) -> LibraryResult:
    """One library. On a torch without ROCm none is claimed, whatever its functions showed."""
    if not torch.hip:
        return LibraryResult(row.name, "", "not a ROCm torch", "not claimed", exercises=row.exercises)
    fitting = [re.compile(file_pattern(stem, windows=False), re.IGNORECASE) for stem in row.stems]

    def fits(path: str) -> bool:
        return any(pattern.fullmatch(posixpath.basename(path)) for pattern in fitting)

    at_import = [path for path in answers.mapped if fits(path)]
    later = {
        call.name: files for call in calls.values() if (files := [one for one in call.mapped if fits(one)])
    }
    files = at_import + [path for found in later.values() for path in found]
    kernels = [
        name for call in calls.values() for name in call.kernels if any(part in name for part in row.kernels)
    ]
    marked = [one.file for one in held if row.name in one.marks]
    found, outcome, detail = _found(row, answers, calls, files=files, kernels=kernels, marked=marked)
    return LibraryResult(
        name=row.name,
        claim="not reached by torch" if row.reached == "no" else row.reached,
        found=found,
        outcome=outcome,
        detail=detail,
        exercises=row.exercises,
        files=tuple(dict.fromkeys(files)),
        needed_by=tuple(one.file for one in held if any(fits(name) for name in one.needed)),
        since="import" if at_import else next(iter(later), ""),
        kernels=tuple(dict.fromkeys(kernels)),
    )


def _found(
    row: LibraryClaim,
    answers: Answers,
    calls: Mapping[str, CallResult],
    *,
    files: Sequence[str],
    kernels: Sequence[str],
    marked: Sequence[str],
) -> tuple[LibraryFound, Outcome, str]:
    if row.reached == "no":
        if files:
            return "mapped", "more", "it is in the process, although torch is not claimed to reach it"
        if marked:
            return "compiled in", "more", f"its names are in {', '.join(marked)}"
        return "not reached by torch", "as claimed", row.note
    wrong = [calls[name] for name in row.exercises if name in calls and calls[name].found in _WRONG]
    if row.reached == "linked" and not files:
        if row.optional:
            return "not in this process", "open", row.optional
        return "not in this process", "less", "torch works without it, or it could not be loaded"
    names = f"its names are in {', '.join(marked)}" if marked else ""
    if answers.device != "cuda":
        why = f"no GPU to compute on: {answers.device_problem or 'the CPU was asked for'}"
        if row.reached == "linked":
            return "mapped", "open", why
        return ("compiled in" if marked else "not seen"), "open", "; ".join(filter(None, (names, why)))
    if wrong:
        return "fails", "less", "; ".join(f"{one.name} {one.found}: {one.detail}" for one in wrong)
    if row.reached == "linked" or kernels:
        return "works", "as claimed", ""
    if marked:
        return "compiled in", "as claimed", f"{names}; no kernel that ran bears its name"
    return "not seen", "open", "no kernel that ran bears its name"

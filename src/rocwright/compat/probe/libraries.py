"""ROCm's libraries against what is in torch's process: a mapped file, a kernel of their name, or nothing."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping, Sequence

from rocwright.compat.probe.values import CallResult, HeldLibrary, LibraryFound, LibraryResult, Outcome
from rocwright.model.libraries import file_pattern
from rocwright.model.probe import Answers, LibraryClaim, TorchAbout

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
            return "mapped", "more", "it is in the process, although torch is not said to reach it"
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

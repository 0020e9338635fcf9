"""What is looked at, how it stands, and the whole answer. The table of the guide is made of `CONDITIONS`."""

from __future__ import annotations

from typing import Literal

import msgspec

from rocwright.model.findings import Clause, Finding, HasFindings

SCHEMA = "rocwright.pipeline-doctor/1"

# `unlooked`: nobody can say, and why; `note`: worth knowing, no fault; `missing`: needed and not there;
# `wrong`: there, and does not fit.
Stand = Literal["ok", "note", "unlooked", "missing", "wrong"]

CONDITIONS = (
    Clause(
        "checkout",
        "the workflows of this checkout are as they are rendered",
        next_step="`rocwright pipeline render`, then commit",
    ),
    Clause("github", "GitHub answers, and has the repository", next_step="`gh auth status`"),
    Clause(
        "actions",
        "GitHub Actions are on, and may use the actions that the workflows name",
        next_step="`gh api --method PUT repos/OWNER/NAME/actions/permissions …`",
    ),
    Clause(
        "workflows",
        "each workflow is on: those of a new fork are off until somebody turns them on",
        next_step="`gh workflow enable FILE`",
    ),
    Clause(
        "variables",
        "variables have names that a workflow reads, and values that it can use",
        next_step="`gh variable set NAME --body VALUE`",
    ),
    Clause(
        "images",
        "images that variables name for the containers of jobs",
        next_step="`gh variable set NAME --body IMAGE@sha256:…`",
    ),
    Clause("store", "the store is there and can be listed", next_step="`aws s3api create-bucket …`"),
    Clause(
        "store-write",
        "an object can be written to the store and removed again",
        next_step="give the role the rights of the guide",
    ),
    Clause(
        "store-public",
        "what installers read is readable without credentials",
        next_step="`aws s3api put-bucket-policy …`",
    ),
    Clause(
        "store-lifetimes",
        "rules of the bucket end uploads that were broken off, and delete nothing that is served",
        next_step="`aws s3api put-bucket-lifecycle-configuration …`",
    ),
    Clause(
        "role",
        "the profile's role is named, trusts this repository alone, and lasts as long as jobs need it",
        next_step="`aws iam update-assume-role-policy …`",
    ),
    Clause(
        "runners",
        "every label that jobs ask for is GitHub's, or that of a runner which is online",
        next_step="register a runner, or `gh variable set ROCWRIGHT_LINUX_RUNNER --body LABEL`",
    ),
    Clause(
        "gpu-runners",
        "the same for tests on GPUs: their jobs wait for such a machine, for a day at most",
        next_step="register a runner, or leave the family's tests out",
    ),
    Clause(
        "rocm",
        "where ROCm comes from has it for each family and platform of the profile",
        next_step="`gh variable set ROCWRIGHT_ROCM --body KIND:WHERE`",
    ),
)
_BY_ID = {row.id: row for row in CONDITIONS}


class Condition(msgspec.Struct, frozen=True, omit_defaults=True):
    """How one thing stands: `id` is one of `CONDITIONS`, `about` what in particular."""

    id: str
    verdict: Stand
    detail: str
    next_step: str = ""
    about: str = ""

    @property
    def finding(self) -> Finding | None:
        """What is missing or wrong, as a finding; None where nothing is."""
        if self.verdict not in ("missing", "wrong"):
            return None
        return _BY_ID[self.id].broken(self.about or "the repository", self.detail, self.next_step)


class Unasked(msgspec.Struct, frozen=True):
    """What could not be asked, and why; `wrong` where that itself is to be mended."""

    why: str
    next_step: str
    wrong: bool = False

    def condition(self, id_: str, about: str = "") -> Condition:
        """As it is told."""
        return Condition(id_, "wrong" if self.wrong else "unlooked", self.why, self.next_step, about)


class Readiness(HasFindings, msgspec.Struct, frozen=True):
    """All that was looked at, of one repository and one profile."""

    repository: str
    profile: str
    # `findings` is their name in JSON, as the doctor of machines has it.
    conditions: tuple[Condition, ...] = msgspec.field(name="findings")
    schema: str = SCHEMA

    @property
    def findings(self) -> tuple[Finding, ...]:
        """What is missing or wrong."""
        return tuple(found for one in self.conditions if (found := one.finding) is not None)

    @property
    def unlooked(self) -> int:
        """How many things nobody could look at."""
        return sum(one.verdict == "unlooked" for one in self.conditions)

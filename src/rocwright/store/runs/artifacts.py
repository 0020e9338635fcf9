"""Artifacts of a run: what their names say, and which of them a fetch needs. Pure functions of names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from rocwright.errors import InvalidInput
from rocwright.model.gpu import InvalidTarget, parse_target, spelled

# The better one first: where a run has both, it is fetched.
SUFFIXES = (".tar.zst", ".tar.xz")
SIDECAR = ".sha256sum"
GENERIC = "generic"
_NAME = re.compile(r"(?P<name>[^_/]+)_(?P<component>[^_/]+)_(?P<word>[^/]+)")


@dataclass(frozen=True)
class ArtifactName:
    """`<name>_<component>_<word>` with the suffix of its archive; `word` is generic, a family or a target."""

    stem: str
    component: str
    word: str
    suffix: str

    @property
    def file(self) -> str:
        """The archive's file name."""
        return self.stem + self.suffix


def artifact_name(file: str) -> ArtifactName | None:
    """What the name of a file says; None for what is no archive of an artifact."""
    for suffix in SUFFIXES:
        stem = file.removesuffix(suffix)
        match = _NAME.fullmatch(stem)
        if stem != file and match is not None:
            return ArtifactName(stem, match["component"], match["word"], suffix)
    return None


@dataclass(frozen=True)
class ArtifactChoice:
    """Which artifacts: those of any GPU, and those of these families and targets.

    Without `targets`, those of each family count; `families` may name artifact groups. `include` and
    `exclude` are patterns of artifact names (`blas_*`); without `include` every name counts.
    """

    families: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()


def words(texts: Iterable[str]) -> tuple[str, ...]:
    """Words of lists separated by spaces, `,` or `;`, each once, in order."""
    return tuple(dict.fromkeys(word for text in texts for word in re.split(r"[\s,;]+", text) if word))


def choose(
    files: Iterable[str], wanted: ArtifactChoice, families: Mapping[str, Sequence[str]]
) -> tuple[ArtifactName, ...]:
    """The archives to fetch out of a run's file names, by name.

    `families` is the table of families; families and targets may be wanted in any case. Raises
    `InvalidInput` when nothing fits, or one of the families or targets has no artifact in the run: what is
    missing would be found out on the GPU only.
    """
    found = _by_stem(files)
    if not found:
        raise InvalidInput("the run has no artifacts", next_step="check its number and the platform")
    wanted = _spelled(wanted, [one.word for one in found.values()], families)
    served = {stem: _serves(one.word, wanted, families) for stem, one in found.items()}
    _require_all(found.values(), served.values(), wanted, families)
    chosen = tuple(
        found[stem]
        for stem in sorted(found)
        if served[stem] is not None
        and (not wanted.include or _matches(stem, wanted.include))
        and not _matches(stem, wanted.exclude)
    )
    if not chosen:
        raise InvalidInput(
            "none of the run's artifacts has such a name",
            next_step=f"the run has: {' '.join(sorted(found))}",
        )
    return chosen


def _by_stem(files: Iterable[str]) -> dict[str, ArtifactName]:
    found: dict[str, ArtifactName] = {}
    for one in filter(None, map(artifact_name, files)):
        known = found.get(one.stem)
        if known is None or SUFFIXES.index(one.suffix) < SUFFIXES.index(known.suffix):
            found[one.stem] = one
    return found


def _spelled(
    wanted: ArtifactChoice, held: Iterable[str], families: Mapping[str, Sequence[str]]
) -> ArtifactChoice:
    known = (*held, *families, *(member for members in families.values() for member in members))
    return replace(
        wanted,
        families=tuple(spelled(name, known) for name in wanted.families),
        targets=tuple(spelled(name, known) for name in wanted.targets),
    )


def _serves(
    word: str, wanted: ArtifactChoice, families: Mapping[str, Sequence[str]]
) -> frozenset[str] | None:
    """The wanted families and targets that artifacts of a word are for; None where it is not needed.

    An empty set: it is for every GPU, or every GPU is wanted.
    """
    if word == GENERIC or not (wanted.families or wanted.targets):
        return frozenset()
    base = _base(word)
    found = {family for family in wanted.families if _is_family(word, family) or family == base}
    if base is not None:
        if wanted.targets:
            found |= {target for target in wanted.targets if target in (word, base)}
        # With targets named, those of a family are not fetched besides.
        found |= {
            family
            for family in wanted.families
            if base in _members(family, families) and (not wanted.targets or found)
        }
    elif found:
        found |= {target for target in wanted.targets if _base(target) in families.get(word, ())}
    return frozenset(found) or None


def _is_family(word: str, group: str) -> bool:
    # A group may have a suffix that its artifacts do not have: gfx94X-dcgpu-asan.
    return word == group or group.startswith(word + "-")


def _members(group: str, families: Mapping[str, Sequence[str]]) -> Sequence[str]:
    return next((members for name, members in families.items() if _is_family(name, group)), ())


def _base(word: str) -> str | None:
    try:
        return parse_target(word).base
    except InvalidTarget:
        return None


def _require_all(
    found: Iterable[ArtifactName],
    served: Iterable[frozenset[str] | None],
    wanted: ArtifactChoice,
    families: Mapping[str, Sequence[str]],
) -> None:
    there = frozenset[str]().union(*(each for each in served if each is not None))
    missing = [word for word in (*wanted.families, *wanted.targets) if word not in there]
    if missing:
        held = sorted({one.word for one in found} - {GENERIC})
        raise InvalidInput(
            f"the run has no artifacts for {', '.join(missing)}",
            next_step=f"it has artifacts for: {' '.join(held) or 'no GPU, generic ones only'}",
        )


def _matches(stem: str, patterns: Iterable[str]) -> bool:
    # A name alone stands for all of its components.
    return any(fnmatchcase(stem, pattern) or stem.startswith(pattern + "_") for pattern in patterns)

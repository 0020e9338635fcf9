"""Answers about what the tables list: libraries, data types, projects, functions, issues, GPUs, versions."""

from __future__ import annotations

from packaging.version import Version

from rocwright.compat.claimed.conflicts import within
from rocwright.compat.claimed.facts import Facts
from rocwright.compat.claimed.judge import Answer, Reason, Verdict, place
from rocwright.compat.claimed.markup import Markup, plain
from rocwright.compat.claimed.question import Asked
from rocwright.compat.claimed.words import Subject
from rocwright.model.compat_libraries import RocmRelease
from rocwright.model.project import PLATFORMS


def _answer(
    subject: str, asked: Asked, verdict: Verdict, text: str, *because: Reason, left: tuple[str, ...] = ()
) -> Answer:
    return Answer(subject, asked, verdict, f"{verdict}: {text}", open=left, because=because)


def _no_gpu(subject: str, asked: Asked, because: Reason) -> Answer:
    """What no table knows by GPU is not known for one."""
    text = f"{place(subject, asked)}: no table says for which GPUs this holds"
    return _answer(subject, asked, "not known", text, because)


def _elsewhere(subject: str, asked: Asked, facts: Facts) -> Answer | None:
    """Not known, for a platform that the sources of releases say nothing of."""
    if not asked.platform or asked.platform in facts.libraries.platforms:
        return None
    told = " and ".join(name.capitalize() for name in facts.libraries.platforms)
    text = f"{subject} on {asked.platform.capitalize()}: what is known of releases of ROCm is about {told}"
    return _answer(subject, asked, "not known", text)


def about_library(subject: Subject, asked: Asked, facts: Facts) -> Answer:
    """Which version of a library is in a release of ROCm."""
    library = {row.name: row for row in facts.libraries.library}[subject.name]
    purpose = Reason(plain(f"{library.purpose} {library.users}"), (facts.page.page.source,))
    if asked.targets:
        return _no_gpu(library.name, asked, purpose)
    if elsewhere := _elsewhere(library.name, asked, facts):
        return elsewhere
    if not asked.rocm:
        shown = [row for row in facts.releases if library.name in row.versions]
        if asked.torch:
            shown = [row for row in shown if _lists(row, asked.torch)]
        told = tuple(_version_reason(row, library.name) for row in shown[:5])
        text = f"the version of {library.name} goes by the release of ROCm"
        return _answer(library.name, asked, "depends", text, purpose, *told, left=("release of ROCm",))
    release = facts.release(asked.rocm)
    if library.name in release.versions:
        text = f"{library.name} {release.versions[library.name]} is in ROCm {release.rocm}"
        return _answer(library.name, asked, "yes", text, purpose, _version_reason(release, library.name))
    source = Reason(f"what ROCm {release.rocm} has", (release.source,))
    if library.name in release.absent:
        text = f"{library.name} is not in ROCm {release.rocm}"
        return _answer(library.name, asked, "no", text, source, purpose)
    text = f"the source on ROCm {release.rocm} says nothing of {library.name}"
    return _answer(library.name, asked, "not known", text, source, purpose)


def _version_reason(release: RocmRelease, library: str) -> Reason:
    return Reason(f"ROCm {release.rocm}: {library} {release.versions[library]}", (release.source,))


def _lists(release: RocmRelease, torch: str) -> bool:
    version = Version(torch)
    return any(Version(one).release[:2] == version.release[:2] for one in release.torch)


def about_data_type(subject: Subject, asked: Asked, facts: Facts) -> Answer:
    """Whether tensors of a type exist, and how far."""
    row = {one.name: one for one in facts.page.data_type}[subject.name]
    names = " or ".join((row.name, *row.aliases))
    listed = Reason(f"{names}: {row.text}", (facts.page.page.source,))
    if asked.targets:
        hardware = facts.page.data_types.hardware
        links = Markup(facts.page.addresses, facts.page.labels, "")
        address = hardware.partition("](")[2].partition(")")[0]
        sources = (links.web(address),) if address else ()
        return _no_gpu(row.name, asked, Reason(plain(hardware), sources))
    if row.native:
        return _answer(row.name, asked, "yes", f"{names} ({row.text})", listed)
    unsigned = Reason(plain(facts.page.data_types.unsigned), (facts.page.page.source,))
    text = f"{names} ({row.text}) is there, but not natively supported in ROCm, and {row.eager} in eager mode"
    return _answer(row.name, asked, "depends", text, listed, unsigned, left=("use",))


def about_project(subject: Subject, asked: Asked, facts: Facts) -> Answer:
    """Whether a project is built, and what is said of it as a domain library."""
    name = subject.name
    because: list[Reason] = []
    domain = {row.name: row for row in facts.page.domain}.get(name)
    if domain is not None:
        text = plain(f"{domain.text} {domain.note}".strip())
        because.append(Reason(text, (facts.page.page.source, domain.address)))
    status = {row.name: row for row in facts.page.status}.get(name)
    if status is not None:
        told = ", ".join(f"{platform} {status.on(platform)}" for platform in PLATFORMS)
        because.append(Reason(f"{name} is built: {told}", (facts.page.page.status_source,)))
    if domain is not None and domain.last_torch:
        if not asked.torch:
            text = f"releases of {name} ended with PyTorch {domain.last_torch}"
            return _answer(name, asked, "depends", text, *because, left=("version of PyTorch",))
        if not within(f"<={domain.last_torch}", Version(asked.torch)):
            text = f"releases of {name} ended with PyTorch {domain.last_torch}"
            return _answer(name, asked, "no", text, *because)
    if asked.targets:
        return _no_gpu(name, asked, because[0])
    if status is not None and asked.platform and status.on(asked.platform) != "supported":
        return _answer(
            name, asked, "no", f"{name} on {asked.platform}: {status.on(asked.platform)}", *because
        )
    return _answer(name, asked, "yes", f"{name} works with ROCm", *because)


def about_module(subject: Subject, asked: Asked, facts: Facts) -> Answer:
    """Whether a core module works."""
    because = Reason(plain(facts.page.modules.text), (facts.page.page.source,))
    if asked.targets:
        return _no_gpu(subject.name, asked, because)
    return _answer(subject.name, asked, "yes", f"{subject.name} is one of PyTorch's core modules", because)


def about_function(subject: Subject, asked: Asked, facts: Facts) -> Answer:
    """Which libraries a function of PyTorch uses."""
    users = [row for row in facts.libraries.library if subject.name in row.functions]
    because = tuple(
        Reason(plain(f"{row.name}: {row.purpose} {row.users}"), (facts.page.page.source,)) for row in users
    )
    if asked.targets:
        return _no_gpu(subject.name, asked, because[0])
    text = f"{subject.name} uses {', '.join(row.name for row in users)}"
    return _answer(subject.name, asked, "yes", text, *because)


def about_issue(subject: Subject, asked: Asked, facts: Facts) -> Answer:
    """Whether a known issue is one of these versions."""
    row = {one.id: one for one in facts.page.issue}[subject.name]
    name = row.names[0]
    because = Reason(
        f"{plain(row.text)} (Said of PyTorch {'/'.join(row.torch)}, ROCm {' and '.join(row.rocm)}.)",
        (facts.page.page.source,),
    )
    if not asked.torch:
        text = f"{name} is a known issue of PyTorch {'/'.join(row.torch)}"
        return _answer(name, asked, "depends", text, because, left=("version of PyTorch",))
    if _same_line(asked.torch, row.torch) and (not asked.rocm or _same_line(asked.rocm, row.rocm)):
        return _answer(
            name, asked, "no", f"{name} is not supported, {place('', asked).lstrip(', ')}", because
        )
    return _answer(name, asked, "not known", f"{name} is a known issue of other versions", because)


def _same_line(text: str, lines: tuple[str, ...]) -> bool:
    return Version(text).release[:2] in {Version(line).release[:2] for line in lines}


def about_gpu(asked: Asked, facts: Facts) -> Answer:
    """Whether AMD lists GPUs for a release of ROCm, or for one that a version of PyTorch goes with."""
    name = " ".join(asked.targets)
    if elsewhere := _elsewhere(name, asked, facts):
        return elsewhere
    releases = [row for row in facts.releases if row.targets]
    if asked.rocm:
        releases = [row for row in releases if row.rocm == asked.rocm]
    if asked.torch:
        releases = [row for row in releases if _lists(row, asked.torch)]
    listing = [row for row in releases if set(asked.targets) <= set(row.targets)]
    built = Reason(
        f"packages are built for it: families {' '.join(_families(asked.targets, facts)) or 'none'}", ()
    )
    if not releases:
        what = place("", asked).lstrip(", ")
        return _answer(name, asked, "not known", f"no source lists the GPUs of {what}", built)
    because = tuple(
        Reason(f"ROCm {row.rocm} supports {' '.join(row.targets)}", (row.source,))
        for row in (listing or releases)[:3]
    )
    if listing and (asked.rocm or asked.torch):
        told = ", ".join(row.rocm for row in listing)
        return _answer(name, asked, "yes", f"AMD supports {name} with ROCm {told}", *because, built)
    if listing:
        text = f"AMD supports {name} with ROCm {', '.join(row.rocm for row in listing)}"
        return _answer(name, asked, "depends", text, *because, built, left=("release of ROCm",))
    text = f"AMD's list has no {name} for these releases; packages for it may be built nevertheless"
    return _answer(name, asked, "depends", text, *because, built)


def _families(targets: tuple[str, ...], facts: Facts) -> list[str]:
    return [name for name, members in facts.families.items() if set(targets) <= set(members)]


def about_torch(asked: Asked, facts: Facts) -> Answer:
    """Whether a version of PyTorch goes with a release of ROCm, or is looked after."""
    name = f"PyTorch {asked.torch}"
    if asked.rocm:
        if elsewhere := _elsewhere(name, asked, facts):
            return elsewhere
        release = facts.release(asked.rocm)
        because = Reason(
            f"ROCm {release.rocm} supports PyTorch {', '.join(release.torch) or 'of versions not told'}",
            (release.source,),
        )
        verdict: Verdict = (
            "not known" if not release.torch else "yes" if _lists(release, asked.torch) else "no"
        )
        return _answer(name, asked, verdict, place(name, Asked(rocm=asked.rocm)), because)
    version = Version(asked.torch)
    line = f"{version.major}.{version.minor}"
    early = {row.name: row for row in facts.page.torch}.get(
        f"{line} alpha" if version.is_prerelease else line
    )
    late = None if version.is_prerelease else {row.name: row for row in facts.lines}.get(line)
    platforms = (asked.platform,) if asked.platform else PLATFORMS
    readings = (
        ("by the table of supported versions", early, facts.page.page.status_source),
        ("by what releases are made of, read later", late, late.source if late else ""),
    )
    told = []
    words: set[str] = set()
    for how, row, source in readings:
        if row is not None:
            said = {one: row.linux if one == "linux" else row.windows for one in platforms}
            words |= set(said.values())
            listed = ", ".join(f"{key} {value}" for key, value in said.items())
            told.append(Reason(f"{listed} {how}", (source,)))
    if not told:
        return _answer(name, asked, "not known", f"no table says whether {name} is looked after")
    verdict = "yes" if words == {"supported"} else "no" if words <= {"unsupported"} else "depends"
    return _answer(name, asked, verdict, f"{name}: {'; '.join(one.text for one in told)}", *told)

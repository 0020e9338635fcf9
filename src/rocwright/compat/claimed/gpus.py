"""Whether GPUs, releases of ROCm, versions of PyTorch and Python, and platforms go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
from packaging.version import Version

from rocwright.compat.claimed.facts import Facts, same_line, within
from rocwright.compat.claimed.judge import (
    NAMES,
    AnswerPart,
    Reason,
    Verdict,
    judge,
    mixed,
    place,
    releases,
    sources,
    unknown,
)
from rocwright.compat.claimed.question import Question
from rocwright.compat.claimed.vocabulary import Gpu
from rocwright.model.compat_releases import RocmRelease
from rocwright.model.platforms import PLATFORMS

_BUILT = "https://github.com/ROCm/TheRock/blob/main/SUPPORTED_GPUS.md"


def on_the_list(question: Question, facts: Facts) -> AnswerPart:
    """Whether AMD's lists have the GPUs: by target, and a product by its name as well."""
    what = place("", Question(gpus=question.gpus))
    platform = question.platform
    rows = facts.line_of(question.rocm, platform) if question.rocm else facts.releases_on(platform)
    rows = tuple(row for row in rows if row.targets)
    if not rows and platform not in ("", *facts.libraries.platforms):
        linux = Reason("AMD's lists of GPUs are about Linux", sources(facts, facts.releases[-1].source))
        return unknown(what, f"which GPUs ROCm supports on {NAMES[platform]}", linux)
    if question.torch and not question.rocm:
        rows = tuple(row for row in rows if same_line(question.torch, row.torch))
    if not rows:
        others = f"releases of ROCm that go with PyTorch {question.torch}"
        asked = f"ROCm {question.rocm}" if question.rocm else others
        return unknown(what, f"the GPUs of {asked}", *_sisters(question, facts))
    parts = [_gpu(gpu, _with_torch(gpu, rows, question), question, facts) for gpu in question.gpus]
    verdict = mixed(part.verdict for part in parts)
    level = parts[0].level if len(parts) == 1 else None
    because = tuple(dict.fromkeys(reason for part in parts for reason in part.because))
    return AnswerPart(what, verdict, "; ".join(part.text for part in parts), because, level)


def _with_torch(gpu: Gpu, rows: Sequence[RocmRelease], question: Question) -> Sequence[RocmRelease]:
    """The releases whose PyTorch of that version is for a GPU; all where none is, which is said elsewhere."""
    if question.rocm or not question.torch:
        return rows
    return [row for row in rows if _goes_with(row, question.torch, gpu.targets)] or rows


def _sisters(question: Question, facts: Facts) -> tuple[Reason, ...]:
    """The lists of other releases of the line, for one that has none."""
    line = ".".join(question.rocm.split(".")[:2])
    rows = [row for row in facts.line_of(line, question.platform) if row.targets] if question.rocm else []
    return tuple(_lists(row, question.platform, facts) for row in rows)


def _lists(row: RocmRelease, platform: str, facts: Facts) -> Reason:
    elsewhere = f", on {NAMES[platform]}," if platform not in ("", *facts.libraries.platforms) else ""
    return Reason(f"ROCm {row.rocm}{elsewhere} lists {' '.join(row.targets)}", sources(facts, row.source))


def _gpu(gpu: Gpu, rows: Sequence[RocmRelease], question: Question, facts: Facts) -> AnswerPart:
    by: dict[Verdict, list[str]] = {}
    for target in gpu.targets:
        by.setdefault(_target(target, rows), []).append(target)
    told = [_told(by, rows, question.platform)]
    verdict = mixed(by)
    because = [_lists(row, question.platform, facts) for row in _shown(rows, gpu)]
    level = None
    if "no" in by:
        said = [row for row in facts.statements if row.topic == "gpu"]
        alone = Question(gpus=(gpu,), rocm=question.rocm, platform=question.platform)
        beyond = judge(gpu.name, said, alone, facts)
        if beyond.verdict in ("yes", "partly"):
            verdict, level = beyond.verdict, beyond.level
            because += beyond.because
            told.append(f"named elsewhere: {beyond.because[0].text.rstrip('.')}")
        because += _built(by["no"], facts)
    products = facts.products(rows[0].rocm)
    # The list of products is for all platforms: it says nothing against one.
    if gpu.product and products and (verdict != "no" or question.platform in ("", "linux")):
        named = gpu.name.lower() in (name.lower() for name in products.names)
        told.append(
            f"its list of products (ROCm {products.rocm}) {'names' if named else 'does not name'} {gpu.name}"
        )
        because.append(Reason(f"products that ROCm {products.rocm} lists", sources(facts, *products.sources)))
        if not named and verdict == "yes":
            verdict = "partly"
    lists = next((row for name, row in rows[0].elsewhere.items() if name == question.platform), None)
    if gpu.product and lists and verdict != "no" and gpu.name in lists.without:
        verdict = "no"
        told.append(f"{gpu.name} itself is not listed on {NAMES[question.platform]}")
    part = AnswerPart(gpu.name, verdict, "; ".join(told), tuple(because), level)
    return _limited(part, rows[0], question.platform)


def _told(by: Mapping[Verdict, Sequence[str]], rows: Sequence[RocmRelease], platform: str) -> str:
    """Which targets the lists have, and which not: each target stands in one of both."""
    some = by.get("partly", ())
    has = (*by.get("yes", ()), *some)
    words = f"has {' '.join(has)}" if has else ""
    words += f" ({' '.join(some)} not in all of these releases)" if some else ""
    if "no" in by:
        words += f", not {' '.join(by['no'])}" if has else f"does not have {' '.join(by['no'])}"
    on = f" on {NAMES[platform]}" if platform not in ("", "linux") else ""
    return f"AMD's list of supported GPUs for ROCm {_span(has, rows)}{on} {words}"


def _target(target: str, rows: Sequence[RocmRelease]) -> Verdict:
    """The newest of the releases decides; one that only older ones list is one in part."""
    if target in rows[0].targets:
        return "yes"
    return "partly" if any(target in row.targets for row in rows) else "no"


def _span(targets: Sequence[str], rows: Sequence[RocmRelease]) -> str:
    """The releases whose lists these are: `6.4.1 to 7.1.1`."""
    listing = [row.rocm for row in rows if set(targets) <= set(row.targets)] or [row.rocm for row in rows]
    return f"{listing[-1]} to {listing[0]}" if len(listing) > 1 else listing[0]


def _shown(rows: Sequence[RocmRelease], gpu: Gpu) -> Sequence[RocmRelease]:
    """The newest and the oldest list that decide."""
    listing = [row for row in rows if set(gpu.targets) & set(row.targets)] or rows
    return listing[:1] if listing[0].targets == listing[-1].targets else (listing[0], listing[-1])


def _built(targets: Sequence[str], facts: Facts) -> list[Reason]:
    families = [name for name, members in facts.families.items() if set(targets) <= set(members)]
    if not families:
        return []
    named = f"packages for {' '.join(targets)} are built anyway (families {' '.join(families)})"
    text = f"{named}; that says nothing about support"
    return [Reason(text, sources(facts, _BUILT))]


def torch_with_rocm(question: Question, facts: Facts) -> AnswerPart:
    """Whether AMD lists a version of PyTorch for a release of ROCm, and for the GPUs of the question."""
    what = f"PyTorch {question.torch} with ROCm {question.rocm}"
    on = "" if question.platform in ("", *facts.libraries.platforms) else f" on {NAMES[question.platform]}"
    rows = [row for row in facts.line_of(question.rocm, question.platform) if row.torch]
    if not rows:
        return unknown(what, f"{what}{on}" if on else f"versions of PyTorch for ROCm {question.rocm}")
    because = tuple(
        Reason(f"ROCm {row.rocm} supports PyTorch {', '.join(row.torch)}{on}", sources(facts, row.source))
        for row in rows
    )
    has = [row for row in rows if same_line(question.torch, row.torch)]
    if not has:
        listed = ", ".join(dict.fromkeys(version for row in rows for version in row.torch))
        return AnswerPart(what, "no", f"ROCm {question.rocm} supports PyTorch {listed}{on}", because)
    fits = [row for row in has if _goes_with(row, question.torch, question.targets)]
    only = has[0].torch_for.get(next(one for one in has[0].torch if same_line(question.torch, (one,))), ())
    if not fits:
        text = f"ROCm {has[0].rocm} supports PyTorch {question.torch} on {_in_words(only, facts)} only"
        return AnswerPart(what, "partly" if set(question.targets) & set(only) else "no", text, because)
    # Of a line its newest release decides.
    text = "" if len(fits) == len(rows) else f"with ROCm {', '.join(row.rocm for row in fits)} only"
    if only and not question.targets:
        text = f"on {_in_words(only, facts)} only"
    part = AnswerPart(what, "yes" if rows[0] in fits else "partly", text, because)
    return _limited(part, fits[0], question.platform)


def _goes_with(row: RocmRelease, torch: str, targets: Sequence[str]) -> bool:
    """Whether a release has a version of PyTorch, for these GPUs."""
    return any(
        same_line(torch, (version,)) and set(targets) <= set(row.torch_for.get(version, targets))
        for version in row.torch
    )


def _limited(part: AnswerPart, row: RocmRelease, platform: str) -> AnswerPart:
    """A yes with what limits the release on a platform."""
    lists = next((lists for name, lists in row.elsewhere.items() if name == platform and lists.text), None)
    if lists is None or part.verdict != "yes":
        return part
    text = "; ".join(filter(None, (part.text, lists.text.rstrip("."))))
    return msgspec.structs.replace(part, verdict="partly", text=text, level=lists.level)


def _in_words(targets: Sequence[str], facts: Facts) -> str:
    """`Instinct (gfx90a gfx942)`: targets, with what their products are called where that is one word."""
    brands = {name.split()[0] for target in targets for name in facts.gpus.get(target, ())}
    return f"{brands.pop()} ({' '.join(targets)})" if len(brands) == 1 else " ".join(targets)


def torch_on(torch: str, platform: str, facts: Facts) -> AnswerPart:
    """Whether a version of PyTorch is built for a platform: by what was said first, and later."""
    what = f"PyTorch {torch} on {NAMES[platform]}"
    version = Version(torch)
    line = f"{version.major}.{version.minor}"
    alpha = version.is_prerelease
    because: list[Reason] = []
    words: set[str] = set()
    for row in facts.page.torch if platform in PLATFORMS else ():
        if row.name == (f"{line} alpha" if alpha else line):
            words.add(row.on(platform))
            source = row.source or facts.page.page.status_source
            because.append(Reason(f"{what}: {row.on(platform)}", sources(facts, source)))
    for later in facts.lines if platform in PLATFORMS and not alpha else ():
        if later.name == line:
            words.add(later.on(platform))
            said = "previously built" if later.on(platform) == "previous" else later.on(platform)
            because.append(Reason(f"{what}: {said}", sources(facts, later.source)))
    listed = [row for row in facts.releases_on(platform) if same_line(torch, row.torch)]
    if listed and not alpha:
        words.add("supported")
        on = "" if platform in facts.libraries.platforms else f" on {NAMES[platform]}"
        text = f"AMD lists PyTorch {line}{on} for ROCm {', '.join(row.rocm for row in listed)}"
        because.append(Reason(text, sources(facts, listed[0].source)))
    if not words:
        return unknown(what, what)
    if words & {"unsupported", "not supported"}:
        return AnswerPart(what, "no", f"{what} is unsupported", tuple(dict.fromkeys(because)))
    part = AnswerPart(what, "yes", "", tuple(dict.fromkeys(because)))
    return _limited(part, listed[0], platform) if listed else part


def torch_alone(question: Question, facts: Facts) -> AnswerPart:
    """Whether a version of PyTorch is built, on each platform where the question names none."""
    platforms = (question.platform,) if question.platform else PLATFORMS
    parts = [torch_on(question.torch, platform, facts) for platform in platforms]
    known = [part for part in parts if part.verdict != "unknown"] or parts
    told = (
        [part.text or f"{part.what}: {part.verdict}" for part in known]
        if len({one.verdict for one in known}) > 1
        else []
    )
    because = tuple(reason for part in parts for reason in part.because)
    verdict = mixed(part.verdict for part in known)
    return AnswerPart(f"PyTorch {question.torch}", verdict, "; ".join(told) or known[0].text, because)


def python(question: Question, facts: Facts) -> AnswerPart:
    """Whether wheels are built for a version of Python."""
    line = ".".join(question.python.split(".")[:2])
    what = place("", Question(torch=question.torch, rocm=question.rocm, python=line))
    if question.platform not in ("", *PLATFORMS):
        return unknown(what, f"{what} on {NAMES[question.platform]}")
    listed = {version for row in facts.line_of(question.rocm) for version in row.torch}
    versions = [Version(one) for one in ([question.torch] if question.torch else sorted(listed))]
    open_ = not (question.torch or question.rocm)
    fitting = [row for row in facts.page.python if open_ or any(within(row.torch, one) for one in versions)]
    fitting = [row for row in fitting if not row.platforms or (question.platform or "linux") in row.platforms]
    rows = [row for row in fitting if row.versions]
    missing = [row for row in fitting if line in row.missing]
    because = tuple(
        Reason(row.text, sources(facts, *row.sources)) for row in (*missing, *rows) or facts.page.python
    )
    if not rows:
        return unknown(what, what, *because)
    has = [row for row in rows if line in row.versions]
    if not has:
        built = " ".join(sorted({version for row in rows for version in row.versions}, key=Version))
        others = [row for row in facts.page.python if line in row.versions]
        because += tuple(Reason(row.text, sources(facts, *row.sources)) for row in others)
        return AnswerPart(what, "no", f"wheels are built for Python {built}", because)
    # What came later, by a row of its own, was not so at first.
    whole = all(row in has for row in rows if len(row.versions) > 1)
    text = "" if whole else "; ".join(row.text.rstrip(".") for row in has)
    return AnswerPart(what, "yes" if whole else "partly", text, because)


def distribution(question: Question, facts: Facts) -> AnswerPart:
    """Whether AMD's list of distributions has one of Linux."""
    name = question.system
    listing = facts.distributions(releases(question, facts)[0] if question.rocm else facts.releases[0].rocm)
    if listing is None:
        return unknown(name, f"distributions for ROCm {question.rocm}")
    span = f"{listing.rocm} to {listing.through}" if listing.through else listing.rocm
    because = (Reason(f"distributions for ROCm {span}", sources(facts, listing.source)),)
    last = Version(listing.through or listing.rocm)
    if question.rocm and not any(Version(row.rocm) <= last for row in facts.line_of(question.rocm)):
        return unknown(name, f"distributions for ROCm {question.rocm}, only of ROCm {span}", *because)
    known = []
    for rows, limit in ((listing.whole, ""), (listing.limited, ", for some GPUs only")):
        if not (distro := next((one for one in rows if name.startswith(one)), "")):
            continue
        number = name[len(distro) :].strip()
        known.append(f"AMD lists {distro} {' '.join(rows[distro])} for ROCm {span}{limit}")
        # 10 is any 10.x, and 24.04.3 is of 24.04.
        if not number or any(
            f"{number}.".startswith(f"{one}.") or f"{one}.".startswith(f"{number}.") for one in rows[distro]
        ):
            return AnswerPart(name, "partly" if limit else "yes", known[-1], because)
    text = "; ".join(known) or f"AMD's list of distributions for ROCm {span} does not have it"
    return AnswerPart(name, "no", text, because)

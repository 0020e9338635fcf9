"""Whether GPUs, releases of ROCm, versions of PyTorch and Python, and platforms go together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
    if question.platform not in ("", *facts.libraries.platforms):
        linux = Reason("AMD's lists of GPUs are about Linux", sources(facts, facts.releases[0].source))
        return unknown(what, f"which GPUs ROCm supports on {NAMES[question.platform]}", linux)
    rows = [row for row in (facts.line_of(question.rocm) if question.rocm else facts.releases) if row.targets]
    if question.torch and not question.rocm:
        rows = [row for row in rows if same_line(question.torch, row.torch)]
    if not rows:
        others = f"releases of ROCm that go with PyTorch {question.torch}"
        return unknown(what, f"the GPUs of {f'ROCm {question.rocm}' if question.rocm else others}")
    parts = [_gpu(gpu, rows, question, facts) for gpu in question.gpus]
    verdict = mixed(part.verdict for part in parts)
    level = parts[0].level if len(parts) == 1 else None
    because = tuple(dict.fromkeys(reason for part in parts for reason in part.because))
    return AnswerPart(what, verdict, "; ".join(part.text for part in parts), because, level)


def _gpu(gpu: Gpu, rows: Sequence[RocmRelease], question: Question, facts: Facts) -> AnswerPart:
    by: dict[Verdict, list[str]] = {}
    for target in gpu.targets:
        by.setdefault(_target(target, rows), []).append(target)
    told = [_told(by, rows)]
    verdict = mixed(by)
    because = [
        Reason(f"ROCm {row.rocm} lists {' '.join(row.targets)}", sources(facts, row.source))
        for row in _shown(rows, gpu)
    ]
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
    if gpu.product and products:
        named = gpu.name.lower() in (name.lower() for name in products.names)
        told.append(
            f"its list of products (ROCm {products.rocm}) {'names' if named else 'does not name'} {gpu.name}"
        )
        because.append(Reason(f"products that ROCm {products.rocm} lists", sources(facts, *products.sources)))
        if not named and verdict == "yes":
            verdict = "partly"
    return AnswerPart(gpu.name, verdict, "; ".join(told), tuple(because), level)


def _told(by: Mapping[Verdict, Sequence[str]], rows: Sequence[RocmRelease]) -> str:
    """Which targets the lists have, and which not: each target stands in one of both."""
    some = by.get("partly", ())
    has = (*by.get("yes", ()), *some)
    words = f"has {' '.join(has)}" if has else ""
    words += f" ({' '.join(some)} not in all of these releases)" if some else ""
    if "no" in by:
        words += f", not {' '.join(by['no'])}" if has else f"does not have {' '.join(by['no'])}"
    return f"AMD's list of supported GPUs for ROCm {_span(has, rows)} {words}"


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
    """Whether AMD lists a version of PyTorch for a release of ROCm."""
    what = f"PyTorch {question.torch} with ROCm {question.rocm}"
    if question.platform not in ("", *facts.libraries.platforms):
        return unknown(what, f"{what} on {NAMES[question.platform]}")
    rows = [row for row in facts.line_of(question.rocm) if row.torch]
    if not rows:
        return unknown(what, f"versions of PyTorch for ROCm {question.rocm}")
    because = tuple(
        Reason(f"ROCm {row.rocm} supports PyTorch {', '.join(row.torch)}", sources(facts, row.source))
        for row in rows
    )
    has = [row.rocm for row in rows if same_line(question.torch, row.torch)]
    if not has:
        listed = ", ".join(dict.fromkeys(version for row in rows for version in row.torch))
        return AnswerPart(what, "no", f"ROCm {question.rocm} supports PyTorch {listed}", because)
    # Of a line its newest release decides.
    text = "" if len(has) == len(rows) else f"with ROCm {', '.join(has)} only"
    return AnswerPart(what, "yes" if rows[0].rocm in has else "partly", text, because)


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
            because.append(
                Reason(f"{what}: {row.on(platform)}", sources(facts, facts.page.page.status_source))
            )
    for later in facts.lines if platform in PLATFORMS and not alpha else ():
        if later.name == line:
            words.add(later.on(platform))
            said = "previously built" if later.on(platform) == "previous" else later.on(platform)
            because.append(Reason(f"{what}: {said}", sources(facts, later.source)))
    listed = [row for row in facts.releases if same_line(torch, row.torch)]
    if platform in facts.libraries.platforms and listed and not alpha:
        words.add("supported")
        text = f"AMD lists PyTorch {line} for ROCm {', '.join(row.rocm for row in listed)}"
        because.append(Reason(text, sources(facts, listed[0].source)))
    if not words:
        return unknown(what, what)
    if words & {"unsupported", "not supported"}:
        return AnswerPart(what, "no", f"{what} is unsupported", tuple(because))
    return AnswerPart(what, "yes", "", tuple(because))


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
    rows = [row for row in facts.page.python if open_ or any(within(row.torch, one) for one in versions)]
    because = tuple(Reason(row.text, sources(facts, *row.sources)) for row in rows or facts.page.python)
    if not rows:
        return unknown(what, what, *because)
    has = [row for row in rows if line in row.versions]
    if not has:
        built = " ".join(dict.fromkeys(version for row in rows for version in row.versions))
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
    because = (Reason(f"distributions for ROCm {listing.rocm}", sources(facts, listing.source)),)
    if question.rocm and listing.rocm not in (row.rocm for row in facts.line_of(question.rocm)):
        return unknown(name, f"distributions for ROCm {question.rocm}, only of ROCm {listing.rocm}", *because)
    for rows, limit in ((listing.whole, ""), (listing.limited, ", for some GPUs only")):
        known = next((one for one in rows if name.startswith(one)), "")
        if known:
            number = name[len(known) :].strip()
            text = f"AMD lists {known} {' '.join(rows[known])} for ROCm {listing.rocm}{limit}"
            # 10 is any 10.x, and 24.04.3 is of 24.04.
            has = not number or any(
                f"{number}.".startswith(f"{one}.") or f"{one}.".startswith(f"{number}.")
                for one in rows[known]
            )
            return AnswerPart(name, ("partly" if limit else "yes") if has else "no", text, because)
    return AnswerPart(
        name, "no", f"AMD's list of distributions for ROCm {listing.rocm} does not have it", because
    )

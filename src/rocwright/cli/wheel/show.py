"""`rocwright wheel show`: what a wheel is, and how that is printed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from rocwright.cli.reply import Reply, for_json, for_people, plain, replies
from rocwright.errors import UsageError
from rocwright.pipeline.wheel_about import Code, Compiled, Variant, WheelAbout, about_wheel
from rocwright.system import console
from rocwright.system.console import human_bytes

# So many libraries, licences and the like are listed.
_LISTED = 20
# What the kinds of `Compiled` are called. A program that can lie anywhere is a shared object, too.
_KINDS = {"dyn": "shared object", "exec": "program", "rel": "object file", "pe": "of Windows"}


@replies
def show(*wheels: Path) -> Iterator[Reply]:
    """Show what wheels are: metadata, compiled files with what they need, device code for each target, sizes.

    `rocwright check` tells whether all of that is right.

    Parameters
    ----------
    wheels
        Wheels to look into.
    json
        Print the result as JSON.
    """
    if not wheels:
        raise UsageError(
            "nothing to show", next_step="give wheels: rocwright wheel show torch-2.9.1-cp312-….whl"
        )
    for wheel in wheels:
        if not wheel.is_file():
            raise UsageError(f"{wheel} is not a file", next_step="give the path of a wheel")
    found: list[WheelAbout] = []
    for wheel in wheels:
        if found:
            yield for_people(lambda: console.out(""))
        about = about_wheel(wheel)
        found.append(about)
        yield for_people(partial(show_about, about))
    yield for_json({"wheels": found})


def show_about(wheel: WheelAbout) -> None:
    """Print a wheel: metadata, compiled files, device code, largest members."""
    console.out(plain(wheel.file))
    for label, values in _metadata(wheel):
        more = len(values) - _LISTED
        listed = [*values[:_LISTED], f"and {more} more; --json lists all"] if more > 0 else values
        for number, value in enumerate(listed):
            console.out(f"  {'' if number else label:<10}  {plain(value)}", hang=14)
    for problem in wheel.problems:
        console.out(f"  problem     {plain(problem)}", hang=14)
    if wheel.compiled:
        # What has code for GPUs, or is damaged, is what people look for.
        first = sorted(wheel.compiled, key=lambda one: not (one.code or one.marker or one.problem))
        console.out("\nCompiled files")
        for one in first[:_LISTED]:
            _compiled(one)
        if len(first) > _LISTED:
            console.out(f"  and {len(first) - _LISTED} more; --json lists all")
    if wheel.archives:
        console.out("\nArchives of device code")
        for archive in wheel.archives:
            libraries = f"{archive.libraries} libraries" if archive.libraries != 1 else "1 library"
            console.out(f"  {plain(archive.member)}  {human_bytes(archive.size)}  code of {libraries}")
            console.out(f"    code     {_code(archive.code)}", hang=13)
    if wheel.code:
        rows = [(name, str(code.objects), human_bytes(code.bytes)) for name, code in wheel.code.items()]
        console.out("")
        console.table("", ("Target", "Code objects and files", "Unpacked"), rows, right=(1, 2))
    large = [(human_bytes(one.size), human_bytes(one.packed), plain(one.member)) for one in wheel.largest]
    console.out("")
    console.table("", ("Unpacked", "In the wheel", "Largest members"), large, right=(0, 1))


def _metadata(wheel: WheelAbout) -> Iterator[tuple[str, Sequence[str]]]:
    yield "name", [f"{wheel.name} {wheel.version}"]
    yield "tags", wheel.tags
    yield "variant", _variant(wheel.variant) if wheel.variant else []
    sizes = f"{human_bytes(wheel.size)}, unpacked {human_bytes(wheel.unpacked)} in {wheel.members} files"
    yield "size", [sizes]
    yield "python", [wheel.requires_python] if wheel.requires_python else []
    yield "requires", wheel.requires
    yield "extras", [" ".join(wheel.extras)] if wheel.extras else []
    yield "licence", [*([wheel.license] if wheel.license else []), *wheel.licences]
    yield "sbom", wheel.sboms
    ceiling = [f"glibc {wheel.glibc}"] if wheel.glibc else []
    ceiling += [f"GLIBCXX {wheel.glibcxx}"] if wheel.glibcxx else []
    yield "needs", [", ".join(ceiling)] if ceiling else []


def _variant(variant: Variant) -> list[str]:
    """The label, and below it each property with who tells whether a machine has it."""
    if not variant.properties:
        whom = "for which machines is unknown" if variant.properties is None else "for any machine"
        return [f"{variant.label}, {whom}"]
    lines = [variant.label]
    for namespace, features in variant.properties.items():
        told = variant.providers.get(namespace)
        by = f", told by {told}" if told not in (None, "itself", "builtin") else ""
        lines += [f"{namespace} :: {one} :: {' or '.join(values)}{by}" for one, values in features.items()]
    return lines


def _compiled(one: Compiled) -> None:
    named = [one.soname] if one.soname and not one.member.endswith(f"/{one.soname}") else []
    console.out(
        plain("  " + "  ".join([one.member, human_bytes(one.size), _KINDS.get(one.kind, one.kind), *named]))
    )
    versions = [f"glibc {one.glibc}"] if one.glibc else []
    versions += [f"GLIBCXX {one.glibcxx}"] if one.glibcxx else []
    told = (
        ("problem", one.problem),
        ("needs", " ".join(one.needed)),
        ("RPATH", one.rpath),
        ("RUNPATH", one.runpath),
        ("at least", ", ".join(versions)),
        ("code", _code(one.code)),
        ("code of", one.marker and f"{one.marker}, in archives"),
    )
    for label, value in told:
        if value:
            console.out(f"    {label:<8} {plain(value)}", hang=13)


def _code(code: Mapping[str, Code]) -> str:
    return ", ".join(f"{name} {human_bytes(one.bytes)} ({one.objects})" for name, one in code.items())

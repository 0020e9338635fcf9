"""What is in a published package, as rows of corpus.toml; found by the second reader of the formats alone.

`PYTHONPATH=tests python -m real.corpus_rows FILE...` prints the rows of packages that are to join the table.
"""

from __future__ import annotations

import hashlib
import re
import sys
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path

from elftools.common.exceptions import ELFError
from elftools.elf.elffile import ELFFile

from oracle import fatbin_walk
from real.corpus import Database, Library, unpack


def digest_of(objects: Iterable[tuple[int, str, int, str]]) -> str:
    """One sha256 for many code objects, given as (wrapper index, target, bytes, sha256).

    Taken over one line for each, "<index> <target> <bytes> <sha256>\\n", in the order of index and target.
    """
    lines = [f"{index} {target} {size} {sha256}\n" for index, target, size, sha256 in sorted(objects)]
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def target_of_entry(entry: str) -> str:
    """The target in a bundle entry's id, with its features."""
    return entry.rpartition("--")[2]


def fat_libraries(tree: Path) -> list[Path]:
    """Every file below `tree` with a section `.hip_fatbin`, sorted."""
    return sorted(path for path in tree.rglob("*") if not path.is_symlink() and _is_fat(path))


def _is_fat(path: Path) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        try:
            return ELFFile(file).get_section_by_name(".hip_fatbin") is not None
        except ELFError:
            return False


def observe_library(tree: Path, path: Path) -> Library:
    """The row of one library, as the second reader sees it."""
    wrappers = list(fatbin_walk.walk(path, digest=True))
    objects = [
        (wrapper.index, target_of_entry(entry), code.size, code.sha256)
        for wrapper in wrappers
        for entry, code in wrapper.device.items()
    ]
    return Library(
        path=path.relative_to(tree).as_posix(),
        size=path.stat().st_size,
        bundles=len({wrapper.offset for wrapper in wrappers}),
        form="+".join(sorted({wrapper.form for wrapper in wrappers})),
        objects=len(objects),
        code=sum(size for _, _, size, _ in objects),
        targets=tuple(sorted({target for _, target, _, _ in objects})),
        sha256=digest_of(objects),
    )


def observe_databases(tree: Path) -> tuple[Database, ...]:
    """The rows of all directories with kernel files."""
    kernels = {path.parent for suffix in ("co", "hsaco") for path in tree.rglob(f"*.{suffix}")}
    return tuple(_database(tree, directory) for directory in sorted(kernels))


def _database(tree: Path, directory: Path) -> Database:
    forms: dict[str, int] = {}
    targets: dict[str, tuple[int, int]] = {}
    for path in sorted(directory.iterdir()):
        named = re.findall(r"gfx[0-9a-f]+(?:-xnack[+-])?", path.name)
        key, form = (named[-1] if named else ""), _form(path)
        files, size = targets.get(key, (0, 0))
        targets[key] = (files + 1, size + path.stat().st_size)
        forms[form] = forms.get(form, 0) + 1
    return Database(directory.relative_to(tree).as_posix(), forms, targets)


def _form(path: Path) -> str:
    with path.open("rb") as file:
        start = file.read(24)
    if start[:4] == b"CCOB":
        return f"ccob{start[4]}"
    return {b"\x7fELF": "elf", b"__CL": "bundle"}.get(start[:4], "data")


def _rows(package: Path) -> Iterator[str]:
    kind = "pypi" if package.suffix == ".whl" else "debian"
    name, version = package.name.split("_")[:2] if kind == "debian" else package.name.split("-")[:2]
    digest = hashlib.sha256(package.read_bytes()).hexdigest()
    yield "[[item]]"
    yield f'kind = "{kind}"\nname = "{name.replace("_", "-")}"\nversion = "{version.replace("%3a", ":")}"'
    yield f'file = "{package.name}"\nsize = {package.stat().st_size}\nsha256 = "{digest}"\nholds = ""'
    with tempfile.TemporaryDirectory() as directory:
        tree = Path(directory) / "tree"
        unpack(package, tree)
        for path in fat_libraries(tree):
            row = observe_library(tree, path)
            yield f'[[item.library]]\npath = "{row.path}"\nsize = {row.size}\nbundles = {row.bundles}'
            yield f'form = "{row.form}"\nobjects = {row.objects}\ncode = {row.code}'
            names = textwrap.wrap(", ".join(f'"{target}"' for target in row.targets), 100)
            yield "\n  ".join(["targets = [", *names]) + "\n]"
            yield f'sha256 = "{row.sha256}"'
        for data in observe_databases(tree):
            forms = ", ".join(f"{form} = {count}" for form, count in sorted(data.forms.items()))
            yield f'[[item.database]]\npath = "{data.path}"\nforms = {{ {forms} }}\n[item.database.targets]'
            yield from (f'"{key}" = [{files}, {size}]' for key, (files, size) in sorted(data.targets.items()))


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        sys.stdout.writelines(f"{line}\n" for line in _rows(Path(argument)))

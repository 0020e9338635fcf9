"""What the sources say, read out of their texts: nothing is imported or run, and nothing is guessed."""

from __future__ import annotations

import ast
import csv
import io
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rocwright.errors import InvalidInput
from rocwright.model.gpu import is_target

_CALL = re.compile(r"^\s*therock_add_amdgpu_target\s*\(([^()]*)\)", re.MULTILINE)
_WORD = re.compile(r'"([^"]*)"|([^\s"]+)')
_FAMILY = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+_-]{0,63}")
_REF = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,99}")
_PYTHON = re.compile(r"3\.[0-9]{1,2}t?")
_VERSION = re.compile(r"[0-9]+(\.[0-9]+){1,3}")
_NAMED = re.compile(r"([0-9A-Fa-f]{4}),\s*([0-9A-Fa-f]{2}),\s*(\S.*?)\s*")
_DEVICE = re.compile(r"\t([0-9a-f]{4})  (\S.*?)\s*")
_DRIVER = re.compile(r"\{\s*0x1002\s*,\s*0x([0-9A-Fa-f]{4})\s*,[^{}]*?\bCHIP_(\w+)")
_FOOTNOTE = re.compile(r"\[#[^\]]*\]_?")
_MOST_NAME = 120


def fail(where: str, why: str) -> InvalidInput:
    """The error for a text that is not what it should be."""
    return InvalidInput(
        f"{where}: {why}; nothing of it is taken",
        where=where,
        next_step="see whether its form has changed, and give another with --from",
    )


def target_families(text: str, where: str) -> dict[str, list[str]]:
    """Families and their targets, of TheRock's therock_amdgpu_targets.cmake."""
    found: dict[str, list[str]] = {}
    # Product names hold no #, comments behind a project may hold parentheses.
    bare = re.sub(r"#[^\n]*", "", text)
    for call in _CALL.finditer(bare):
        words = [quoted or plain for quoted, plain in _WORD.findall(call[1])]
        target, options = words[0] if words else "", words[2:]
        if not is_target(target) or ":" in target:
            raise fail(where, f"{target!r} is not a GPU target")
        in_family = False
        for word in options:
            if word in ("FAMILY", "EXCLUDE_TARGET_PROJECTS"):
                in_family = word == "FAMILY"
            elif in_family:
                if not _FAMILY.fullmatch(word):
                    raise fail(where, f"{word!r} is not the name of a family")
                found.setdefault(word, []).append(target)
    if not found:
        raise fail(where, "it declares no GPU target")
    return found


def assigned(text: str, where: str) -> dict[str, ast.expr]:
    """The values that a Python module gives to names at its top, as syntax."""
    try:
        body = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise fail(where, f"it is not Python ({type(error).__name__})") from error
    found: dict[str, ast.expr] = {}
    for node in body:
        targets = node.targets if isinstance(node, ast.Assign) else ()
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            targets = [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and isinstance(node, (ast.Assign, ast.AnnAssign)) and node.value:
                found[target.id] = node.value
    return found


def literal(values: Mapping[str, ast.expr], name: str, where: str) -> Any:
    """The plain value of a name; what would have to be run is refused."""
    if name not in values:
        raise fail(where, f"it has no {name}")
    try:
        return ast.literal_eval(values[name])
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise fail(where, f"{name} is not plain data") from error


def listed(value: Any, pattern: re.Pattern[str], what: str, where: str) -> list[str]:
    """A list of texts of one form."""
    wrong = [one for one in value if not isinstance(one, str) or not pattern.fullmatch(one)] if value else []
    if not isinstance(value, list) or not value or wrong:
        raise fail(where, f"{wrong[0]!r} is not {what}" if wrong else f"it lists no {what}")
    return value


def family_tiers(text: str, where: str) -> dict[str, dict[str, Any]]:
    """Families that TheRock builds: the tier, and by platform the label of the machines that test it."""
    values, found = assigned(text, where), dict[str, dict[str, Any]]()
    for tier in ("presubmit", "postsubmit", "nightly"):
        rows = literal(values, f"amdgpu_family_info_matrix_{tier}", where)
        for row in rows.values() if isinstance(rows, dict) else ():
            platforms = row if isinstance(row, dict) else {}
            for platform in ("linux", "windows"):
                told = platforms.get(platform)
                if not isinstance(told, dict):
                    continue
                family, label = told.get("family"), told.get("test-runs-on", "")
                if not isinstance(family, str) or not _FAMILY.fullmatch(family) or not isinstance(label, str):
                    raise fail(where, f"{family!r} is not the name of a family")
                found.setdefault(family, {"tier": tier})[platform] = label
    if not found:
        raise fail(where, "it has no family")
    return found


def release_matrix(text: str, where: str) -> dict[str, dict[str, list[str]]]:
    """Pythons and refs of PyTorch by kind of run: `ci`, `prerelease` and `nightly`."""
    values, found = assigned(text, where), dict[str, dict[str, list[str]]]()
    releases = listed(
        literal(values, "RELEASE_PYTHON_VERSIONS", where), _PYTHON, "a version of Python", where
    )
    ci_pythons = literal(values, "CI_PYTHON_VERSIONS", where)
    for kind, name in (("ci", "CI_PYTORCH_REFS"), ("prerelease", "RELEASE_STABLE_PYTORCH_REFS")):
        refs = literal(values, name, where)
        if not isinstance(refs, dict) or not isinstance(ci_pythons, dict):
            raise fail(where, f"{name} is no table by platform")
        by_platform = {
            platform: listed(refs.get(platform), _REF, "a branch", where) for platform in ("linux", "windows")
        }
        pythons = releases if kind != "ci" else ci_pythons.get("linux")
        found[kind] = {
            "pythons": listed(pythons, _PYTHON, "a version of Python", where),
            "refs": by_platform["linux"],
            "refs_windows": by_platform["windows"],
        }
    stable = found["prerelease"]
    found["nightly"] = {
        "pythons": releases,
        "refs": [*stable["refs"], "nightly"],
        "refs_windows": [*stable["refs_windows"], "nightly"],
    }
    return found


def table_rows(text: str, *columns: str) -> Iterator[tuple[str, ...]]:
    """The rows of each Markdown table that begins with these columns, without what only decorates."""
    width = 0
    for line in text.splitlines():
        cells = [re.sub(r"[*`]", "", cell).strip() for cell in line.strip(" >").strip("|").split("|")]
        if "|" not in line:
            width = 0
        elif tuple(cells[: len(columns)]) == columns:
            width = len(cells)
        elif len(cells) == width and not set(line) <= set("|-: >"):
            yield tuple(cells)


def device_extras(text: str, where: str) -> dict[str, str]:
    """What the GPUs of a target are called, of the table of device extras in TheRock's RELEASES.md."""
    found = {}
    for products, target, extra, *_ in table_rows(text, "Product Name", "GFX Target", "Device Extra"):
        if target == "(all)":
            continue
        if not is_target(target) or extra != f"device-{target}":
            raise fail(where, f"{target!r} is not a GPU target with an extra")
        found[target] = name(products, where)
    if not found:
        raise fail(where, "it has no table of device extras")
    return found


def supported_targets(text: str, where: str) -> dict[str, str]:
    """Targets with their architectures, of TheRock's SUPPORTED_GPUS.md."""
    found = {}
    for architecture, target, *_ in table_rows(text, "Architecture", "LLVM target"):
        if not is_target(target):
            raise fail(where, f"{target!r} is not a GPU target")
        found[target] = name(architecture, where)
    if not found:
        raise fail(where, "it has no table of targets")
    return found


def rocm_version(text: str, where: str) -> str:
    """The version of ROCm in TheRock's version.json."""
    try:
        value = json.loads(text)["rocm-version"]
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise fail(where, "it has no rocm-version") from error
    if not isinstance(value, str) or not _VERSION.fullmatch(value):
        raise fail(where, f"{value!r} is not a version")
    return value


def bootstrap_targets(text: str, where: str) -> list[str]:
    """The targets that rocm-bootstrap knows."""
    values = assigned(text, where)
    names = {
        variable: keyword.value.value
        for variable, call in values.items()
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == "GfxTarget"
        for keyword in call.keywords
        if keyword.arg == "name" and isinstance(keyword.value, ast.Constant)
    }
    every = values.get("ALL_TARGETS")
    members = every.elts if isinstance(every, ast.Tuple) else ()
    found = [names.get(one.id) for one in members if isinstance(one, ast.Name)]
    if not found or len(found) < len(members):
        raise fail(where, "ALL_TARGETS does not list its targets by name")
    for one in found:
        if not isinstance(one, str) or not is_target(one) or ":" in one:
            raise fail(where, f"{one!r} is not a GPU target")
    return [str(one) for one in found]


def bootstrap_owners(text: str, where: str) -> dict[str, str]:
    """Targets whose code comes in the package of another."""
    found = literal(assigned(text, where), "_OVERRIDE_PACKAGE_OWNERS", where)
    pairs = list(found.items()) if isinstance(found, dict) else [(found, found)]
    for pair in pairs:
        for one in pair:
            if not isinstance(one, str) or not is_target(one) or ":" in one:
                raise fail(where, f"{one!r} is not a GPU target")
    return dict(pairs)


def board_names(text: str, where: str) -> dict[tuple[str, str], str]:
    """What boards are sold as, by device id and revision, of libdrm's amdgpu.ids; of two names the first."""
    found: dict[tuple[str, str], str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.startswith("#") or _VERSION.fullmatch(line.strip()):
            continue
        row = _NAMED.fullmatch(line)
        if row is None:
            raise fail(where, f"line {number} is not DEVICE, REVISION, NAME")
        found.setdefault((row[1].lower(), row[2].lower()), name(row[3], f"{where}, line {number}"))
    if not found:
        raise fail(where, "it names no board")
    return found


def pci_chips(text: str, where: str) -> tuple[dict[str, str], str]:
    """Chips by device id, of AMD's part of pci.ids, and the date that the list gives itself."""
    date = re.search(r"^#\s+Date:\s+([0-9]{4}-[0-9]{2}-[0-9]{2})", text, re.MULTILINE)
    ours, found = False, dict[str, str]()
    for line in text.splitlines():
        if line[:1] not in ("\t", "#", ""):
            ours = line.startswith("1002  ")
        elif ours and (row := _DEVICE.fullmatch(line)):
            found[row[1]] = name(row[2], f"{where}, device {row[1]}").partition(" [")[0]
    if not found:
        raise fail(where, "it has no devices of vendor 1002")
    return found, date[1] if date else ""


def driver_chips(text: str, where: str) -> dict[str, str]:
    """Chips by device id, of the driver's amdgpu_drv.c."""
    found = {row[1].lower(): row[2] for row in _DRIVER.finditer(text)}
    if not found:
        raise fail(where, "it has no ids of vendor 1002")
    return found


def release_rows(text: str, libraries: Mapping[str, str], where: str) -> dict[str, dict[str, Any]]:
    """Releases of ROCm in its compatibility matrix (CSV): versions of libraries, PyTorch, targets."""
    try:
        rows = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise fail(where, f"it is no CSV ({error})") from error
    heads = [cell.strip() for cell in rows[0]] if rows else []
    if len(heads) < 2 or heads[0] != "ROCm Version" or not all(map(_VERSION.fullmatch, heads[1:])):
        raise fail(where, "its first line is not ROCm Version and versions")
    found: dict[str, dict[str, Any]] = {
        one: {"torch": [], "targets": [], "versions": {}, "absent": []} for one in heads[1:]
    }
    label = ""
    for row in rows[1:]:
        label = _label(row[0]) or label if row and (row[0].strip() or any(row[1:])) else ""
        for release, cell in zip(heads[1:], row[1:], strict=False):
            _take(found[release], label, _FOOTNOTE.sub("", cell).strip(), libraries)
    return found


def _take(release: dict[str, Any], label: str, cell: str, libraries: Mapping[str, str]) -> None:
    """One cell of the matrix."""
    library = libraries.get(label.lower())
    if label == "GPU / LLVM target" and is_target(cell):
        release["targets"].append(cell)
    elif label == "PyTorch":
        release["torch"] += [one.strip() for one in cell.split(",") if _VERSION.fullmatch(one.strip())]
    elif library and cell == "N/A":
        release["absent"].append(library)
    elif library and _VERSION.fullmatch(cell):
        release["versions"][library] = cell


def _label(cell: str) -> str:
    """`:doc:`hipBLAS <hipblas:index>`` and `` `half <https://…>`_ `` are hipBLAS and half."""
    text = _FOOTNOTE.sub("", cell).strip()
    linked = re.fullmatch(r"(?::\w+:)?`([^<`]+?)\s*<[^>]*>`_?", text)
    return linked[1] if linked else text


def name(text: str, where: str) -> str:
    """A name as it may stand in a table: printable, and of a sensible length."""
    if not text or len(text) > _MOST_NAME or not text.isprintable():
        raise fail(where, f"{text[:_MOST_NAME]!a} is not a name")
    return text

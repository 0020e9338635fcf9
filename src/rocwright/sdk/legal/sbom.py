"""The software bill of materials of a wheel: what it bundles, from where, under which licence.

CycloneDX 1.6 as JSON, to lie in `.dist-info/sboms` (PEP 770). It holds no time and no random number: the
same contents give the same bytes.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote

from rocwright import __version__
from rocwright.device_code.kpack import SUFFIX
from rocwright.sdk.legal.licences import ComponentFiles, joined, library_name
from rocwright.sdk.legal.provenance import Provenance
from rocwright.wheel.metadata import normalized_name, normalized_version

SBOM_PATH = "sboms/rocwright.cdx.json"


@dataclass(frozen=True)
class Bundled:
    """Something that a wheel bundles. `licence` is an SPDX expression, `files` are paths in the wheel."""

    name: str
    version: str | None = None
    licence: str | None = None
    purl: str | None = None
    files: tuple[str, ...] = ()


def bundled(
    parts: Iterable[ComponentFiles], members: Mapping[str, str], provenance: Provenance
) -> tuple[Bundled, ...]:
    """What `licences_of` found in a package, as entries of its bill.

    Of the files only libraries and archives of device code are listed. `members` maps a path in the ROCm tree
    to the path in the wheel.
    """
    found: list[Bundled] = []
    for part in parts:
        origin = provenance.origins.get(part.package or "")
        libraries = [members[path] for path in part.files if _is_code(path) and path in members]
        found.append(
            Bundled(
                name=part.component.name,
                version=origin.version if origin else None,
                licence=joined(part.component.licences) or None,
                purl=origin.purl if origin else None,
                files=tuple(sorted(libraries)),
            )
        )
    return tuple(found)


def sbom(
    name: str,
    version: str,
    parts: Sequence[Bundled],
    *,
    licence: str | None = None,
    digests: Mapping[str, str] | None = None,
) -> bytes:
    """The bill of a wheel.

    `digests` maps paths in the wheel to hex sha256, where they are known; no file is read.
    """
    project, release = normalized_name(name), normalized_version(version)
    purl = f"pkg:pypi/{project}@{quote(release, safe='')}"
    main: dict[str, object] = {"type": "library", "bom-ref": purl, "name": project, "version": release}
    main |= {"purl": purl, **_licences(licence)}
    ordered = sorted(parts, key=lambda part: (part.name, part.version or "", part.purl or "", part.files))
    components = [
        _component(part, f"bundled-{number}", digests or {}) for number, part in enumerate(ordered, start=1)
    ]
    refs = [str(component["bom-ref"]) for component in components]
    document: dict[str, object] = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": main,
            "tools": {"components": [{"type": "application", "name": "rocwright", "version": __version__}]},
        },
        "components": components,
        "dependencies": [{"ref": purl, "dependsOn": refs}, *({"ref": ref} for ref in refs)],
    }
    # A bill needs a number of its own; derived from what it says, equal bills have equal numbers.
    digest = hashlib.sha256(_render(document)).hexdigest()
    document["serialNumber"] = f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, digest)}"
    return _render(document)


def _is_code(path: str) -> bool:
    return library_name(path) is not None or path.endswith(SUFFIX)


def _component(part: Bundled, ref: str, digests: Mapping[str, str]) -> dict[str, object]:
    component: dict[str, object] = {"type": "library", "bom-ref": ref, "name": part.name}
    if part.version is not None:
        component["version"] = part.version
    component |= _licences(part.licence)
    if part.purl is not None:
        component["purl"] = part.purl
    if part.files:
        component["components"] = [_file(path, digests.get(path)) for path in sorted(part.files)]
    return component


def _file(path: str, digest: str | None) -> dict[str, object]:
    hashes = {"hashes": [{"alg": "SHA-256", "content": digest}]} if digest else {}
    return {"type": "file", "name": path, **hashes}


def _licences(expression: str | None) -> dict[str, object]:
    return {"licenses": [{"expression": expression}]} if expression else {}


def _render(document: Mapping[str, object]) -> bytes:
    return (json.dumps(document, indent=1, sort_keys=True) + "\n").encode()

"""Which form of a page a client prefers, by its `Accept` header (RFC 9110, PEP 691)."""

from __future__ import annotations

_JSON = ("application/vnd.pypi.simple.v1+json", "application/vnd.pypi.simple.latest+json")
_HTML = ("application/vnd.pypi.simple.v1+html", "application/vnd.pypi.simple.latest+html", "text/html")


def prefers_json(accept: str) -> bool:
    """Whether JSON is asked for by name, at least as much as HTML; who asks for anything gets HTML."""
    weights = dict(map(_weight, accept.split(",")))
    wanted = max((weights.get(name, 0.0) for name in _JSON), default=0.0)
    return wanted > 0 and wanted >= max((weights.get(name, 0.0) for name in _HTML), default=0.0)


def _weight(item: str) -> tuple[str, float]:
    name, *parameters = (part.strip().lower() for part in item.split(";"))
    weight = 1.0
    for parameter in parameters:
        key, _, value = parameter.partition("=")
        if key.strip() == "q":
            try:
                weight = min(max(float(value), 0.0), 1.0)
            except ValueError:
                weight = 0.0
    return name, weight

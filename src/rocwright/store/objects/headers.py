"""What a client is told about an object: Content-Type and Cache-Control follow from its key alone.

A folder needs none of it until it is served; a bucket keeps it with each object, so it must be right from the
first write on.
"""

from __future__ import annotations

from dataclasses import dataclass

from rocwright.store.layout import JSON_PAGES, LOG

SIMPLE_JSON = "application/vnd.pypi.simple.v1+json"
# What S3 and web servers call a year; longer is not honoured everywhere.
_FOR_EVER = "public, max-age=31536000, immutable"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".metadata": "text/plain; charset=utf-8",
    ".txt": "text/plain; charset=utf-8",
    ".toml": "application/toml",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".whl": "application/zip",
    # Without Content-Encoding: clients would unpack the file on the way and its digest would be another.
    ".gz": "application/gzip",
    ".xz": "application/x-xz",
    ".zst": "application/zstd",
}
# Written again under the same key, outside of places where nothing changes.
_PAGES = (".html", ".json", ".txt", ".toml", ".css", ".js", ".svg", ".png")


@dataclass(frozen=True)
class ObjectHeaders:
    """Two headers of an answer that holds an object."""

    content_type: str
    cache_control: str


def headers_for(key: str, max_age: int) -> ObjectHeaders:
    """The headers of a key; `max_age` is for how many seconds a page may be kept (`channels.max_age`)."""
    return ObjectHeaders(_content_type(key), _cache_control(key, max_age))


def is_immutable(key: str) -> bool:
    """Whether nothing else ever stands under this key: files, what belongs to a set, logs of channels."""
    return key.startswith(("files/", "sets/")) or f"/{LOG}" in f"/{key}" or not key.endswith(_PAGES)


def _content_type(key: str) -> str:
    name = key.rpartition("/")[2]
    if f"/{JSON_PAGES}" in f"/{key}" and name == "index.html":
        return SIMPLE_JSON
    _, dot, suffix = name.rpartition(".")
    return _TYPES.get(dot + suffix, "application/octet-stream")


def _cache_control(key: str, max_age: int) -> str:
    if key.startswith(("pins/", "_")):
        # Read by ourselves alone, and then as it is now.
        return "no-cache"
    return _FOR_EVER if is_immutable(key) else f"public, max-age={max_age}"

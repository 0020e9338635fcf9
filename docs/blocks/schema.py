"""Fields of the tables of facts and of what commands print, from the values that they are read into."""

from __future__ import annotations

import typing

import msgspec

from blocks.text import code, table


def schema(root: type[msgspec.Struct]) -> str:
    """Field lists of a table; the root itself only lists what the file holds at its top."""
    parts = [f"At the top of the file:\n\n{_fields(root)}"]
    for struct in _structs(root)[1:]:
        text = " ".join((struct.__doc__ or "").split())
        parts.append(f"### {struct.__name__}\n\n{text}\n\n{_fields(struct)}")
    return "\n".join(parts)


def values(*roots: type[msgspec.Struct], known: type[msgspec.Struct]) -> str:
    """What commands print as JSON: each value once, without those that `known` is made of."""
    told = set(_structs(known))
    parts = []
    for struct in dict.fromkeys(each for root in roots for each in _structs(root)):
        if struct in told:
            continue
        text = " ".join((struct.__doc__ or "").split()).replace("`None`", "null")
        rows = ((code(field.encode_name), _json_text(field.type)) for field in msgspec.structs.fields(struct))
        parts.append(f"### {struct.__name__}\n\n{text}\n\n{table(('Field', 'Value'), rows)}")
    return "\n".join(parts)


def _structs(root: type[msgspec.Struct]) -> list[type[msgspec.Struct]]:
    """The rows that a table is made of, each once, in the order in which they are met."""
    found: list[type[msgspec.Struct]] = []

    def visit(hint: object) -> None:
        if isinstance(hint, type) and issubclass(hint, msgspec.Struct) and hint not in found:
            found.append(hint)
            for field in msgspec.structs.fields(hint):
                visit(field.type)
        for inside in typing.get_args(hint):
            visit(inside)

    visit(root)
    return found


def _fields(struct: type[msgspec.Struct]) -> str:
    rows = []
    tag = struct.__struct_config__.tag
    if tag is not None:
        rows.append((code(str(struct.__struct_config__.tag_field)), f"always {code(str(tag))}", "yes"))
    rows += [
        (code(field.encode_name), _type_text(field.type), "yes" if field.required else "no")
        for field in msgspec.structs.fields(struct)
    ]
    return table(("Field", "Value", "Required"), rows)


def _type_text(hint: object) -> str:
    """A type as a reader of TOML would say it."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return " ".join([_type_text(inside[0]), *map(_bounds, inside[1:])])
    if origin is tuple:
        return f"list of {_type_text(inside[0])}"
    if origin is dict:
        return f"table of {_type_text(inside[1])}"
    kinds = [_type_text(kind) for kind in inside if kind is not type(None)]
    if kinds:
        return " or ".join(kinds)
    words: dict[object, str] = {str: "text", int: "number", float: "number", bool: "true or false"}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    return words.get(hint) or str(getattr(hint, "__name__", hint))


def _bounds(meta: msgspec.Meta) -> str:
    known = {"above": meta.gt, "from": meta.ge, "below": meta.lt, "up to": meta.le}
    return " and ".join(f"{word} {bound:g}" for word, bound in known.items() if bound is not None)


def _json_text(hint: object) -> str:
    """A type as a reader of JSON would say it."""
    return _type_text(hint) + (" or null" if type(None) in typing.get_args(hint) else "")

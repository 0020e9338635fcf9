"""What a command replies: a value, and how people see it. Which of the two is printed is decided here alone.

A command with `--json` is declared with `@replies`, which gives it the option, and returns its `Reply`. One
that goes on when the reply is printed (its verdict is an error, there is something to say, a server runs)
yields it instead; so does one that shows people how far it is. An error ends the command as everywhere.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, overload

from cyclopts import Parameter

from rocwright.system import console

Json = Annotated[bool, Parameter(name="--json")]
# Without the spelling --no-json.
OnlyJson = Annotated[bool, Parameter(name="--json", negative="")]
_NOTHING = object()


@dataclass(frozen=True)
class Reply:
    """The value that is printed as JSON, and what prints it for people."""

    value: object
    show: Callable[[], object]


def for_people(show: Callable[[], object]) -> Reply:
    """What JSON does not have: how far a command is, or lines that say the same as its value."""
    return Reply(_NOTHING, show)


def for_json(value: object) -> Reply:
    """The value of what people have seen already."""
    return Reply(value, lambda: None)


def plain(text: str) -> str:
    """Text that changes nothing on a terminal; names in files may hold anything."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


Command = Callable[..., Reply | Iterator[Reply]]
Refusal = Callable[[Mapping[str, object]], None]


@overload
def replies(command: Command) -> Callable[..., None]: ...
@overload
def replies(
    *, before: str = "", option: object = Json, within: str = "", refuse: Refusal | None = None
) -> Callable[[Command], Callable[..., None]]: ...
def replies(
    command: Command | None = None,
    *,
    before: str = "",
    option: object = Json,
    within: str = "",
    refuse: Refusal | None = None,
) -> Callable[..., None] | Callable[[Command], Callable[..., None]]:
    """Declare a command whose reply is printed: for people, or with `--json` as JSON.

    The option is the last one, or stands `before` another. A command that has it `within` a group of options
    gets no other. `refuse` is called with the command's arguments before a reply for JSON is worked out, and
    raises `UsageError` for those that contradict it.
    """
    if command is None:
        return lambda found: _replying(found, before, option, within, refuse)
    return _replying(command, before, option, within, refuse)


def _replying(
    command: Command, before: str, option: object, within: str, refuse: Refusal | None
) -> Callable[..., None]:
    own = inspect.signature(command)

    @wraps(command)
    def replying(*args: object, json: bool = False, **kwargs: object) -> None:
        given = own.bind(*args, **kwargs)
        given.apply_defaults()
        as_json = given.arguments[within].json if within else json
        if as_json and refuse is not None:
            refuse(given.arguments)
        found = command(*args, **kwargs)
        for reply in (found,) if isinstance(found, Reply) else found:
            _print(reply, as_json=as_json)

    # What cyclopts reads: the command's own parameters, and the option among them.
    parameters = list(own.parameters.values())
    if not within:
        place = list(own.parameters).index(before) if before else len(parameters)
        added = inspect.Parameter("json", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=option)
        parameters.insert(place, added)
    replying.__dict__["__signature__"] = own.replace(parameters=parameters, return_annotation=None)
    hints = {name: hint for name, hint in command.__annotations__.items() if name != "return"}
    replying.__annotations__ = hints if within else {**hints, "json": option}
    return replying


def _print(reply: Reply, *, as_json: bool) -> None:
    if not as_json:
        reply.show()
    elif reply.value is not _NOTHING:
        console.out_json(reply.value)

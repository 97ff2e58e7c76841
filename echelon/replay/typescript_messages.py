"""TypeScript types of play sessions, generated from the models of ``echelon.play_protocol``."""

from __future__ import annotations

import json
import types
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

from echelon import play_protocol

SCALARS = {str: "string", int: "number", float: "number", bool: "boolean", bytes: "Uint8Array", Any: "unknown"}
NAMES = {"Message": "", "Input": "PlayInput", "Frame": "PlayFrame", "Begin": "PlayBegin", "Source": "PlaySource"}
"""Names of interfaces that differ from those of the models; others get the prefix ``Play``."""
HEADER_FIELD = "header"
"""Field with the header of a replay, which has an own type."""


def play_types() -> list[str]:
    """Return the lines of constants, column names and message types."""
    lines = [f"export const {name} = {json.dumps(value)};" for name, value in play_protocol.NUMBERS.items()]
    lines += [f"export const {name} = {json.dumps(names)} as const;" for name, names in play_protocol.COLUMNS.items()]
    for model in (*play_protocol.PARTS, *play_protocol.FROM_CLIENT, *play_protocol.FROM_SESSION):
        lines.append(_interface(model))
    lines.append(_union("PlayRequest", play_protocol.FROM_CLIENT))
    lines.append(_union("PlayMessage", play_protocol.FROM_SESSION))
    return lines


def _name(model: type[BaseModel]) -> str:
    return NAMES.get(model.__name__, f"Play{model.__name__}")


def _union(name: str, models: Iterable[type[BaseModel]]) -> str:
    return f"export type {name} = {' | '.join(_name(model) for model in models)};"


def _interface(model: type[BaseModel]) -> str:
    """Return a model as an interface; fields with a default, except the type, may be left out."""
    lines = [f"/** {' '.join((model.__doc__ or '').split())} */", f"export interface {_name(model)} {{"]
    for name, field in model.model_fields.items():
        optional = "" if name == "t" or field.is_required() else "?"
        kind = "Header" if name == HEADER_FIELD else _type(field.annotation)
        lines.append(f"  {name}{optional}: {kind};")
    return "\n".join([*lines, "}"])


def _type(annotation: Any) -> str:
    """Return the TypeScript type of a field; ``TypeError`` for one that messages do not have."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _type(arguments[0])
    if origin is Literal:
        return " | ".join(json.dumps(value) for value in arguments)
    if origin in (Union, types.UnionType):
        return " | ".join("null" if part is type(None) else _type(part) for part in arguments)
    if origin is list:
        inner = _type(arguments[0])
        return f"{inner}[]" if " " not in inner else f"({inner})[]"
    if origin is dict:
        return f"Record<string, {_type(arguments[1])}>"
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _name(annotation)
    if annotation in SCALARS:
        return SCALARS[annotation]
    raise TypeError(f"field has type {annotation!r}, expected one of messages")

"""Values of options and arguments that need no conversion, without pydantic, whose import takes a tenth of a second.

Typer converts every value, defaults and None included, with an adapter that it builds for the first one.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from typer import core

CONVERTER = "build_runtime_param"
"""Name in ``typer.core`` of what makes the converter of a parameter."""
PLAIN = (str, int, float, bool)


class LazyCoercion:
    """Converts the values of one parameter as Typer does; of text, None and defaults there is nothing to convert."""

    def __init__(self, descriptor: Any) -> None:
        self._descriptor, self._typers = descriptor, None

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the value that the command gets; Typer's error for one that cannot be converted."""
        is_many, annotation = param.multiple or param.nargs == -1, self._descriptor.annotation
        if value is None:
            return () if is_many else None
        if self._descriptor.parameter_info.parser is None:
            if not is_many and type(value) in PLAIN and annotation is type(value):
                # a command line has text only: a number or a switch is the default of the signature
                return value
            if annotation == list[str] and isinstance(value, (list, tuple)) and all(type(v) is str for v in value):
                return list(value)
        if self._typers is None:
            self._typers = import_module("typer._coercion").build_runtime_param(self._descriptor)
        return self._typers.coerce(value, param=param, ctx=ctx)


def install() -> None:
    """Let Typer convert values through ``LazyCoercion``; one that builds its converters elsewhere stays as it is."""
    if hasattr(core, CONVERTER):
        core.__dict__[CONVERTER] = LazyCoercion

"""Usage errors of values that a command reads itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import typer


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turn a ``ValueError`` about the command line into a usage error."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None

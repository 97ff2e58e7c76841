"""Text of unknown origin made safe for a terminal or a clipboard.

Names of folders, labels, messages and log lines may contain anything. ``visible`` is applied where text enters the
terminal, in ``output`` and in ``tui.widgets.cells``, where the dashboard copies, and nowhere else. ``completable`` is
applied to the names that a shell completes.
"""

import re
from collections.abc import Iterable

IGNORABLE = re.compile("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]")
"""Characters that Python counts as printable and Unicode as default ignorable: they have no width or no ink."""

UNSAFE = frozenset("`$\\\"'!;&|<>()[]{}*?~#")
"""Characters with which a shell would do something; names with them come from elsewhere and are not offered."""


def visible(text: str) -> str:
    r"""Return the text with every character that is not printable as its escape, such as ``\x1b`` or ``\u202e``.

    These are control characters, line breaks, characters that change the direction of text or have no width, and
    surrogates. The result is printable and has one line.
    """
    if text.isprintable() and (text.isascii() or not IGNORABLE.search(text)):
        return text
    return "".join(char if char.isprintable() and not IGNORABLE.match(char) else _escape(char) for char in text)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode()


def completable(names: Iterable[str]) -> list[str]:
    """Return the names that a shell may insert as they are: one printable line without quotes and operators."""
    return [name for name in names if name and name == visible(name) and not UNSAFE & set(name)]

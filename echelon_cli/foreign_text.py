"""Text of unknown origin made safe for a terminal.

Names of folders, labels, messages and log lines may contain anything. ``visible`` is applied where text enters the
terminal, in ``output`` and in ``tui.widgets.cells``, and nowhere else.
"""

from __future__ import annotations


def visible(text: str) -> str:
    r"""Return the text with every character that is not printable as its escape, such as ``\x1b`` or ``\u202e``.

    These are control characters, line breaks, characters that change the direction of text or have no width, and
    surrogates. The result is printable and has one line.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in text)

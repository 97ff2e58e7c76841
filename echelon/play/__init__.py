"""Play sessions: matches with human pilots, taken over from recordings or new, in one process per session.

``match`` plays and records one match tick by tick, ``perception`` reduces it to what a pilot perceives, ``catalogue``
finds policies and recordings by name, ``what_if`` continues recordings, and ``session`` serves clients over the local
socket of ``channel``. The server passes messages between that socket and browsers; docs/play.md.
"""

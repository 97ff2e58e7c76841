"""Replays in notebooks: ``echelon.show`` returns an object that a notebook displays as the viewer."""

from __future__ import annotations

import html
from pathlib import Path

from echelon.files import write_output
from echelon.replay.embed import embed_world
from echelon.replay.match_text import team_name
from echelon.replay.reader import Replay
from echelon.server.page import single_page

HEIGHT = 520
"""Height of the viewer in a notebook [px]."""


class ReplayView:
    """A replay that notebooks display: Jupyter and others call ``_repr_html_``. ``save`` writes it as a page."""

    def __init__(self, path: Path, *, height: int = HEIGHT, at: float | None = None) -> None:
        self._height = height
        self._start = "" if at is None else f"t={at:.1f}"
        with Replay(path) as replay:
            self._data = embed_world(replay)
            self.title = " against ".join(team_name(replay.header, team) for team in (0, 1))
        self._name = path.name

    def __repr__(self) -> str:
        return f"<ReplayView {self._name!r}: {self.title}>"

    def page(self, *, embed: bool = False) -> str:
        """Return the viewer with the replay as an HTML page; ``embed`` is one without links and panels."""
        return single_page(self._data, self._name, f"{self.title} · Echelon", start=self._start, embed=embed)

    def save(self, path: Path | str) -> None:
        write_output(Path(path), self.page().encode(errors="backslashreplace"))

    def _repr_html_(self) -> str:
        page = html.escape(self.page(embed=True), quote=True)
        style = f"width: 100%; height: {self._height}px; border: 0; border-radius: 8px"
        return f'<iframe srcdoc="{page}" style="{style}" allow="fullscreen" title="{html.escape(self.title)}"></iframe>'


def show(replay: Replay | Path | str, *, height: int = HEIGHT, at: float | None = None) -> ReplayView:
    """Return a replay for display in a notebook: as the last value of a cell it is shown in the viewer.

    ``replay`` is a file or an open ``Replay``, ``height`` that of the viewer [px], and ``at`` the second at which it
    opens, paused; without it the match plays from its start. No server and no IPython are needed.
    """
    path = replay.path if isinstance(replay, Replay) else Path(replay)
    return ReplayView(path, height=height, at=at)

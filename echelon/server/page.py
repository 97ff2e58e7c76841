"""Export of the viewer and one replay as a single HTML file that opens without a server.

The page embeds scripts, style, fonts and workers of the built viewer, and the replay with its world in base64;
``viewer/src/data/embedded.ts`` reads them.
"""

import base64
import html
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from echelon.files import write_output
from echelon.replay.embed import embed_world
from echelon.replay.match_text import match_title
from echelon.replay.reader import Replay
from echelon.server.routes import STATIC

SCRIPT = re.compile(r'<script type="module"[^>]*\bsrc="\./([^"]+)"[^>]*></script>')
STYLE = re.compile(r'<link rel="stylesheet"[^>]*\bhref="\./([^"]+)"[^>]*>')
ICON = re.compile(r'<link rel="icon"[^>]*\bhref="\./([^"]+)"[^>]*>')
NEEDLESS = re.compile(r'<link rel="preload"[^>]*>|<svg id="skeleton".*?</svg>', re.S)
"""What helps a page whose parts arrive one by one."""
ASSET_URL = re.compile(r"url\(\./([^)]+)\)")
WORKER = "*.worker-*.js"
BASE = '<base href="http://echelon.invalid/">'
"""Of a page in a frame: that of the page around it may be none that addresses can be relative to."""
MIME_TYPES = {".woff2": "font/woff2", ".svg": "image/svg+xml", ".js": "text/javascript", ".css": "text/css"}


def single_page(
    replay: bytes, name: str, title: str, static: Path = STATIC, *, start: str = "", embed: bool = False
) -> str:
    """Return the page; ``ValueError`` if the viewer is not built or its index has no script or style.

    ``start`` is the moment at which it opens, as the fragment of an address; ``embed`` is a page within another, of
    picture, score and player alone.
    """
    index = static / "index.html"
    if not index.is_file():
        raise ValueError(f"the viewer is not built in {str(static)!r}; install with `pip install .` to build it")
    page = NEEDLESS.sub("", index.read_text(encoding="utf-8"))
    script, style = SCRIPT.search(page), STYLE.search(page)
    if script is None or style is None:
        raise ValueError(f"viewer {str(index)!r} lacks a script or a style sheet, expected both; build it again")
    workers = {path.name: _base64(path) for path in sorted((static / "assets").glob(WORKER))}
    embedded = f'<script type="text/plain" id="echelon-replay" data-name="{html.escape(name)}"'
    embedded += f' data-start="{html.escape(start)}"' if start else ""
    embedded += " data-embed>" if embed else ">"
    embedded += base64.b64encode(replay).decode("ascii") + "</script>"
    code = (static / script[1]).read_text(encoding="utf-8")
    # no string in it ends the script element
    code = code.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    embedded += f'<script type="application/json" id="echelon-workers">{embedded_json(workers)}</script>'
    parts = (embedded, f'<script type="module">{code}</script>')
    css = static / style[1]
    rules = ASSET_URL.sub(lambda found: f"url({_data_url(css.parent / found[1])})", css.read_text(encoding="utf-8"))
    page = page.replace(script[0], "").replace(style[0], f"<style>{rules}</style>")
    page = ICON.sub(lambda found: found[0].replace(f"./{found[1]}", _data_url(static / found[1])), page)
    page = re.sub(r"<title>.*?</title>", lambda _: f"<title>{html.escape(title)}</title>", page)
    page = page.replace("<head>", f"<head>{BASE}", 1) if embed else page
    return page.replace("</body>", "\n".join(parts) + "\n</body>")


def embedded_json(value: Mapping[str, Any]) -> str:
    """Return JSON without characters that end or begin an element."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _data_url(path: Path) -> str:
    return f"data:{MIME_TYPES[path.suffix]};base64,{_base64(path)}"


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")


HEIGHT = 520
"""Height of the viewer in a notebook [px]."""


class ReplayView:
    """A replay that notebooks display: Jupyter and others call ``_repr_html_``. ``save`` writes it as a page."""

    def __init__(self, path: Path | str, *, height: int = HEIGHT, at: float | None = None) -> None:
        self._height = height
        self._start = "" if at is None else f"t={at:.1f}"
        with Replay(path) as replay:
            self._data = embed_world(replay)
            self.title, self._name = match_title(replay.header), replay.path.name

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

    ``replay`` is what ``Replay`` takes, or an open one, ``height`` that of the viewer [px], and ``at`` the second at
    which it opens, paused; without it the match plays from its start. No server and no IPython are needed.
    """
    return ReplayView(replay.path if isinstance(replay, Replay) else replay, height=height, at=at)

"""The viewer and one replay as a single HTML page that opens without a server.

Scripts, style, fonts and workers of the built viewer are put into the page, and the replay with its world in base64.
Workers cannot be had from another file where a page was opened from a disk, so a few lines before the viewer's script
hand it blobs instead; as classic scripts, since a module of a page on disk may not be one.
"""

from __future__ import annotations

import base64
import html
import json
import re
from pathlib import Path

from echelon.server.routes import STATIC

SCRIPT = re.compile(r'<script type="module"[^>]*\bsrc="\./([^"]+)"[^>]*></script>')
STYLE = re.compile(r'<link rel="stylesheet"[^>]*\bhref="\./([^"]+)"[^>]*>')
ICON = re.compile(r'<link rel="icon"[^>]*\bhref="\./([^"]+)"[^>]*>')
ASSET_URL = re.compile(r"url\(\./([^)]+)\)")
WORKER = "*.worker-*.js"
KINDS = {".woff2": "font/woff2", ".svg": "image/svg+xml", ".js": "text/javascript", ".css": "text/css"}
SHIM = """<script>
(() => {{
  const held = {workers};
  const Native = window.Worker;
  window.Worker = class extends Native {{
    constructor(url, options) {{
      const name = String(url).split("/").pop();
      const kind = {{ type: "text/javascript" }};
      const bytes = held[name] && Uint8Array.from(atob(held[name]), (letter) => letter.charCodeAt(0));
      super(bytes ? URL.createObjectURL(new Blob([bytes], kind)) : url, bytes ? {{}} : options);
    }}
  }};
}})();
</script>"""


def single_page(replay: bytes, name: str, title: str, static: Path = STATIC) -> str:
    """Return the page; ``ValueError`` where the viewer is not built or not as this module knows it."""
    index = static / "index.html"
    if not index.is_file():
        raise ValueError(f"the viewer is not built in {str(static)!r}, wanted it there: install with `pip install .`")
    page = index.read_text(encoding="utf-8")
    script, style = SCRIPT.search(page), STYLE.search(page)
    if script is None or style is None:
        raise ValueError(f"viewer {str(index)!r} has no script or no style, wanted both")
    workers = {path.name: _base64(path) for path in sorted((static / "assets").glob(WORKER))}
    held = f'<script type="text/plain" id="echelon-replay" data-name="{html.escape(name)}">'
    held += base64.b64encode(replay).decode("ascii") + "</script>"
    code = _escaped((static / script[1]).read_text(encoding="utf-8"))
    parts = (held, SHIM.format(workers=json.dumps(workers)), f'<script type="module">{code}</script>')
    css = static / style[1]
    page = page.replace(script[0], "").replace(style[0], f"<style>{_with_assets(css)}</style>")
    page = ICON.sub(lambda found: found[0].replace(f"./{found[1]}", _data_url(static / found[1])), page)
    page = re.sub(r"<title>.*?</title>", lambda _: f"<title>{html.escape(title)}</title>", page)
    return page.replace("</body>", "\n".join(parts) + "\n</body>")


def _with_assets(css: Path) -> str:
    """Return a style sheet with the files that it names put into it."""
    text = css.read_text(encoding="utf-8")
    return ASSET_URL.sub(lambda found: f"url({_data_url(css.parent / found[1])})", text)


def _data_url(path: Path) -> str:
    return f"data:{KINDS[path.suffix]};base64,{_base64(path)}"


def _base64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode("ascii")


def _escaped(code: str) -> str:
    """Return a script that may stand in a page: nothing in its strings ends it."""
    return code.replace("</script", "<\\/script").replace("<!--", "<\\!--")

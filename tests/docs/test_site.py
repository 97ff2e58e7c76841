"""The docs site is built without warnings and requests nothing from other hosts."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest

LOADING = {"script": "src", "img": "src", "iframe": "src", "source": "src", "video": "src", "link": "href"}
"""Attributes of elements whose address a browser loads; ``a`` waits for a click."""


class Loads(HTMLParser):
    """Addresses that a page loads."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.loaded: list[str] = []
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if (address := found.get(LOADING.get(tag, ""))) and found.get("rel") != "canonical":
            self.loaded.append(address)


@pytest.mark.long
@pytest.mark.skipif(not find_spec("mkdocs"), reason="building the docs site needs the extra 'docs'")
def test_site_is_built_and_loads_nothing_from_other_hosts(repository, tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, cwd=repository)
    assert done.returncode == 0, done.stdout + done.stderr
    foreign = {(p.name, url) for p in tmp_path.rglob("*.html") for url in Loads(p).loaded if urlsplit(url).netloc}
    assert foreign == set()
    styles = "".join(file.read_text(encoding="utf-8") for file in tmp_path.rglob("*.css"))
    assert [url for url in re.findall(r"url\(([^)]+)\)", styles) if urlsplit(url.strip("\"'")).netloc] == []
    for page in ("reference/commands", "reference/configuration", "reference/python", "decisions", "tour"):
        assert (tmp_path / page / "index.html").is_file(), page

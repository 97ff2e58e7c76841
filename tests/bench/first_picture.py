"""Bytes over the wire and time to the first complete picture of a match, in headless Chromium with software rendering.

Usage: ``python -m tests.bench.first_picture FILE.ecr [VISITS]``.

Every visit is the first of a new browser profile, without a cache, in the automatic graphics tier. Prints one JSON
object: bytes by kind of file, and the times of all visits. Not a test: run it on an idle machine.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from tests.bench.viewer_speed import WINDOW, browsing, median
from tests.browser.conftest import TIMEOUT_MS
from tests.browser.player import FIRST_PICTURE, count_transfers

VISITS = 5


def kind_of(url: str) -> str:
    """Return the kind of a file by its address: fonts, match or page."""
    return "fonts" if url.endswith(".woff2") else "match" if "/api/" in url else "page"


def visit(browser: Any, address: str, match: str) -> tuple[Counter[str], float]:
    """Open a match in a new profile; returns its bytes by kind and the time to the first complete picture [ms]."""
    context = browser.new_context(viewport=WINDOW)
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    count = count_transfers(page)
    page.goto(f"{address}/#match={match}")
    page.wait_for_function("() => window.echelon && echelon.cost().firstFrameMs > 0")
    milliseconds = page.evaluate("() => echelon.cost().firstFrameMs")
    sizes: Counter[str] = Counter()
    for url, size in count(page.evaluate(FIRST_PICTURE)).items():
        sizes[kind_of(url)] += size
    context.close()
    return sizes, round(milliseconds)


def main(path: Path, visits: int = VISITS) -> None:
    with browsing(path) as (page, address, match):
        found = [visit(page.context.browser, address, match) for _ in range(visits)]
    sizes, times = zip(*found, strict=True)
    print(json.dumps({"bytes": sizes[0] | {"all": sizes[0].total()}, "ms": times, "median_ms": median(list(times))}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), *map(int, sys.argv[2:3]))

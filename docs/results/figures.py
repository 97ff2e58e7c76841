"""Writes measured figures into the documents; every number in them comes from a file beside this one.

A result file has a title, defaults, maybe ``checks`` (by row the commands of ``echelon results check``, the matches
of a figure and the spread of training seeds [points]), and results: row, column, value, interval [low, high], and any
default that differs (date, commit, machine, command, seeds, unit, interval_of). In a document,
``<!-- table NAME -->`` to ``<!-- end -->`` is the table of NAME.json, and ``<!-- NAME/ROW/COLUMN -->`` to
``<!-- end -->`` one of its figures.
``just figures`` runs this; with ``--check`` it changes nothing and exits with 1 where a document differs.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"(<!-- (table )?([\w-]+(?:/[^>]*?)?) -->)(.*?)(<!-- end -->)", re.DOTALL)
DEFAULTS = {"date", "commit", "machine", "command", "seeds", "unit", "interval_of"}
RESULT = {"row", "column", "value", "interval"}


def load(name: str) -> dict[str, Any]:
    """Return a result file; raise ``ValueError`` where it breaks the schema."""
    path = Path(__file__).with_name(f"{name}.json")
    if not path.exists():
        raise ValueError(f"result {name!r} has no file {path.relative_to(ROOT)}")
    content = json.loads(path.read_text(encoding="utf-8"))
    if missing := DEFAULTS ^ content["defaults"].keys():
        raise ValueError(f"{path.name}: defaults differ from the schema in {', '.join(sorted(missing))}")
    for result in content["results"]:
        if not RESULT <= result.keys() <= RESULT | DEFAULTS:
            raise ValueError(f"{path.name}: result {result} has other keys than the schema")
    return content


def number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}" if abs(value) < 1e5 else f"{value:,.0f}"


def figure(result: dict[str, Any]) -> str:
    """Return a value with its interval."""
    text = number(result["value"])
    return text if result["interval"] is None else f"{text} ({' to '.join(map(number, result['interval']))})"


def table(name: str, page: Path) -> str:
    """Return a result file as a Markdown table above its source, linked from ``page``."""
    content = load(name)
    cells = {(result["row"], result["column"]): figure(result) for result in content["results"]}
    rows, columns = (list(dict.fromkeys(key[axis] for key in cells)) for axis in (0, 1))
    source = content["defaults"]
    head = content["title"] + (f" [{source['unit']}]" if source["unit"] else "")
    facts = [source["date"], source["machine"], source["commit"] and f"commit {source['commit']}"]
    facts += [source["interval_of"] and f"intervals: {source['interval_of']}"]
    lines = [f"| {head} | {' | '.join(columns)} |", "|---|" + "---:|" * len(columns)]
    lines += [f"| {row} | {' | '.join(cells.get((row, column), '') for column in columns)} |" for row in rows]
    caption = "; ".join(filter(None, facts))
    link = Path(os.path.relpath(Path(__file__).with_name(f"{name}.json"), page.parent)).as_posix()
    return "\n\n" + "\n".join(lines) + f"\n\n*{caption}: [{name}.json]({link})*\n\n"


def rendered(text: str, page: Path) -> str:
    """Return the text of a document with its tables and figures as the result files have them."""

    def fill(match: re.Match[str]) -> str:
        begin, is_table, name, _, end = match.groups()
        if is_table:
            return begin + table(name, page) + end
        file, row, column = name.split("/", 2)
        found = [r for r in load(file)["results"] if (r["row"], r["column"]) == (row, column)]
        if len(found) != 1:
            raise ValueError(f"figure {name!r} has {len(found)} results, expected 1")
        return begin + figure(found[0]) + end

    return BLOCK.sub(fill, text)


def main(check: bool) -> int:
    stale = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        if (new := rendered(text, page)) != text:
            stale.append(str(page.relative_to(ROOT)))
            if not check:
                page.write_text(new, encoding="utf-8")
    print("\n".join(stale) or "every figure is current")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv))

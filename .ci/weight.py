"""Prints the weight of the project beside its limits (weight.toml); exits with 1 above one of them."""

from __future__ import annotations

import dataclasses
import re
import sys
import tomllib
import typing
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


def texts(*patterns: str) -> list[str]:
    """Return the contents of the files that match the patterns, generated ones left out."""
    paths = {path for pattern in patterns for path in ROOT.glob(pattern) if not path.name.endswith(".gen.ts")}
    return [path.read_text(encoding="utf-8") for path in paths]


def lines(*patterns: str) -> int:
    return sum(text.count("\n") for text in texts(*patterns))


def fields(kind: type) -> int:
    """Return the number of configuration fields, those of nested groups counted instead of the groups."""
    hints = typing.get_type_hints(kind)
    return sum(
        fields(hints[field.name]) if dataclasses.is_dataclass(hints[field.name]) else 1
        for field in dataclasses.fields(kind)
    )


def commands() -> int:
    from echelon_cli.main import root

    def count(command: Any) -> int:
        children = getattr(command, "commands", {})
        return sum(count(child) for child in children.values()) if children else 1

    return count(root().load_all())


def main() -> int:
    from echelon.config import RunConfig

    limits = tomllib.loads((ROOT / ".ci/weight.toml").read_text())
    weight = {
        "product_lines": lines(
            *(f"{top}/**/*.py" for top in ("echelon", "echelon_cli")),
            "echelon/**/*.h",
            "viewer/src/**/*.ts",
            "viewer/src/**/*.css",
        ),
        "test_lines": lines("tests/**/*.py", "viewer/tests/**/*.ts"),
        "config_fields": fields(RunConfig),
        "commands": commands(),
        "docs_words": sum(len(re.sub(r"<!--.*?-->", "", text).split()) for text in texts("docs/**/*.md")),
        "readme_lines": lines("README.md"),
    }
    for name, value in weight.items():
        above = "  above the limit of .ci/weight.toml; leave something out" if value > limits[name] else ""
        print(f"{name:14} {value:7,} of {limits[name]:7,}{above}")
    return int(any(value > limits[name] for name, value in weight.items()))


if __name__ == "__main__":
    sys.exit(main())

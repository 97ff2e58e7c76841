"""Hooks of MkDocs, named in ``mkdocs.yml``: generated pages, and sections of the navigation that list a folder."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echelon_cli.docs_pages import generated_pages

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig  # pyright: ignore[reportMissingImports]
    from mkdocs.structure.files import Files  # pyright: ignore[reportMissingImports]

INDEX = "README.md"
"""Page of a folder that its section of the navigation opens."""
FILE_LINK = re.compile(r"\[((?:docs/)?([\w-]+\.md))\]\(")
"""Begin of a link whose text is a file."""
CODE = re.compile(r"`[^`\n]+`")
"""Code within a line."""


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Return the configuration with a section in the navigation for every folder whose ``README.md`` it names."""
    config.nav = with_folders(config.nav, Path(config.docs_dir))
    return config


def with_folders(nav: Any, docs: Path) -> Any:
    """Return a navigation in which an entry for ``FOLDER/README.md`` has the other pages of the folder below it."""
    if isinstance(nav, list):
        return [with_folders(entry, docs) for entry in nav]
    if isinstance(nav, dict):
        return {title: with_folders(target, docs) for title, target in nav.items()}
    folder, _, name = nav.rpartition("/")
    if not folder or name != INDEX:
        return nav
    return [nav, *(f"{folder}/{path.name}" for path in sorted((docs / folder).glob("*.md")) if path.name != INDEX)]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Return the files of the site with the generated pages among them."""
    from mkdocs.structure.files import File  # pyright: ignore[reportMissingImports]

    for path, text in generated_pages(Path(config.config_file_path).parent).items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, *, config: MkDocsConfig, **_: Any) -> str:
    """Return a page as the site needs it where it was written for a checkout.

    Links named by a file are named by the title of that page. Code in tables loses the backslashes before bars.
    """
    titles = dict(titles_of(config.nav))
    markdown = CODE.sub(lambda found: found[0].replace("\\|", "|"), markdown)
    return FILE_LINK.sub(lambda found: f"[{titles.get(found[2], found[1])}](", markdown)


def titles_of(nav: Any) -> Iterator[tuple[str, str]]:
    """Yield name and title of every page of the navigation that has a title there."""
    for entry in nav:
        for title, target in entry.items() if isinstance(entry, dict) else ():
            if isinstance(target, str):
                yield Path(target).name, title
            else:
                yield from titles_of(target)

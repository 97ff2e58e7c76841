"""Pages that mkdocs generates at every build: commands, configuration, Python names, examples, root documents."""

from __future__ import annotations

import ast
import json
import posixpath
import re
from pathlib import Path
from typing import Any

from echelon.jobs.config_layers import default_values, expected_values, field_descriptions
from echelon_cli.reference import reference

ROOT = Path(__file__).resolve().parents[1]
DOCUMENTS = {"ARCHITECTURE.md": "architecture.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
PYTHON = {
    "Train and evaluate": ("echelon.jobs.api", "echelon.training.api", "echelon.training.evaluation.evaluate_ladder"),
    "Environments": (
        "echelon.training.task_env",
        "echelon.training.task_parallel.parallel_env",
        "echelon.env.env.EchelonEnv",
        "echelon.training.vec_env.VectorEnv",
    ),
    "Policies": (
        "echelon.rl.weights.load_policy",
        "echelon.training.policy_agent.PolicyAgent",
        "echelon.rl.model.ActorCriticLSTM",
    ),
    "Runs and replays": ("echelon.run_data", "echelon.replay.reader.Replay", "echelon.server.page.show"),
    "Statistics": ("echelon.statistics",),
}
LANGUAGES = {".py": "python", ".sh": "sh", ".sbatch": "sh"}
EXAMPLES = [path for path in sorted((ROOT / "examples").glob("*")) if path.suffix in LANGUAGES]
PAGES = {
    "echelon_cli/commands": "reference/commands.md",
    "echelon/config": "reference/configuration.md",
    "echelon/__init__.py": "reference/python.md",
    "examples": "examples/index.md",
    "examples/tour.ipynb": "python-tour.md",
    **{f"examples/{path.name}": f"examples/{path.name.replace('.', '-')}.md" for path in EXAMPLES},
    **DOCUMENTS,
}
"""Pages of files and folders outside ``docs/``."""


def configuration_page() -> str:
    described, expected, section = field_descriptions(), expected_values(), None
    lines = ["# Configuration\n\nEvery field, for `--set KEY=VALUE` and TOML files; presets set their own values."]
    for key, value in sorted(default_values().items(), key=lambda item: item[0].rpartition(".")[0]):
        if section != (section := key.rpartition(".")[0]):
            lines.append(f"\n## {section or 'run'}\n\n| Key | Default | Expected | Meaning |\n|---|---|---|---|")
        lines.append(f"| `{key}` | `{value!r}` | {cell(expected[key])} | {cell(described[key])} |")
    return "\n".join(lines) + "\n"


def python_page() -> str:
    parts = ["# Python interface\n\n`import echelon` offers the names that most programs need."]
    for heading, names in PYTHON.items():
        parts += [f"## {heading}", *(f"::: {name}" for name in names)]
    return "\n\n".join(parts) + "\n"


def example_pages() -> dict[str, str]:
    pages, rows = {}, ["# Examples\n\nWhole programs to start from, which tests run.\n\n| Program | Does |\n|---|---|"]
    for path in EXAMPLES:
        source, page = path.read_text(encoding="utf-8"), f"{path.name.replace('.', '-')}.md"
        stated = re.search(r"^# (.+)$", source, re.MULTILINE)
        purpose = ast.get_docstring(ast.parse(source)) if path.suffix == ".py" else stated and stated[1]
        rows.append(f"| [{path.name}]({page}) | {cell((purpose or '').splitlines()[0])} |")
        pages[f"examples/{page}"] = f"# {path.name}\n\n```{LANGUAGES[path.suffix]}\n{source.strip()}\n```\n"
    return {**pages, "examples/index.md": "\n".join(rows) + "\n"}


def notebook_page() -> str:
    cells = json.loads((ROOT / "examples" / "tour.ipynb").read_text(encoding="utf-8"))["cells"]
    texts = [("".join(c["source"]).strip(), c["cell_type"] == "code") for c in cells]
    page = "\n\n".join(f"```python\n{text}\n```" if is_code else text for text, is_code in texts)
    return linked(page, "examples", "") + "\n"


def linked(text: str, folder: str, page_folder: str) -> str:
    """Return a Markdown text of a repository folder with its links relative to a folder of pages.

    Links name files of the repository, so that they work there too; those of ``PAGES`` have a page of their own.
    """

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[1]))
        page = PAGES.get(target, target.removeprefix("docs/") if target.startswith("docs/") else None)
        return match[0] if page is None else f"]({posixpath.relpath(page, page_folder or '.')}"

    return re.sub(r"\]\((?!\w+:)([^)#\s]+)", link, text)


def cell(text: str) -> str:
    """Return a text as one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;").replace("[", "\\[")


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages to those of ``docs/``."""
    from mkdocs.structure.files import File  # pyright: ignore[reportMissingImports]

    pages = {
        "reference/commands.md": reference(),
        "reference/configuration.md": configuration_page(),
        "reference/python.md": python_page(),
        "python-tour.md": notebook_page(),
        **example_pages(),
        **{page: linked((ROOT / name).read_text(encoding="utf-8"), "", "") for name, page in DOCUMENTS.items()},
    }
    for path, text in pages.items():
        files.append(File.generated(config, path, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point links out of ``docs/`` at the pages generated from their targets."""
    if page.file.generated_by:
        return markdown
    folder = posixpath.dirname(page.file.src_uri)
    return linked(markdown, posixpath.join("docs", folder), folder)

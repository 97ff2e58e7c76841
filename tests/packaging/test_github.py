"""Workflows and forms of the repository's host: valid, with pinned actions and few permissions."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

SCHEMAS = {
    "github-workflows": ".github/workflows/*.yml",
    "github-issue-forms": ".github/ISSUE_TEMPLATE/*.yml",
    "citation-file-format": "CITATION.cff",
}
"""Files by the schema that they follow; the linter contains the schemas."""


@pytest.mark.parametrize("schema", SCHEMAS)
def test_files_follow_their_schema(repository: Path, schema: str):
    files = sorted(repository.glob(SCHEMAS[schema]))
    assert files
    linter = (sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *map(str, files))
    done = subprocess.run(linter, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


def workflows(repository: Path) -> dict[str, dict]:
    paths = (repository / ".github" / "workflows").glob("*.yml")
    return {path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in paths}


def test_actions_are_pinned_and_keep_no_credentials(repository: Path):
    steps = [s for flow in workflows(repository).values() for job in flow["jobs"].values() for s in job["steps"]]
    actions = [step for step in steps if "uses" in step]
    assert [step["uses"] for step in actions if not re.search(r"@v\d+(\.\d+)*$", step["uses"])] == []
    checkouts = [step for step in actions if step["uses"].startswith("actions/checkout@")]
    assert checkouts and all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_jobs_write_only_what_they_publish(repository: Path):
    """Each job has the permissions that it states, else those of its workflow."""
    found = {
        (name, job, scope)
        for name, flow in workflows(repository).items()
        for job, rules in flow["jobs"].items()
        for scope, access in rules.get("permissions", flow["permissions"]).items()
        if access == "write"
    }
    assert found == {
        ("pages.yml", "publish", "pages"),
        ("pages.yml", "publish", "id-token"),
        ("release.yml", "pypi", "id-token"),
        ("release.yml", "github", "contents"),
    }


def test_each_supported_python_plays_a_match(repository: Path):
    versions = workflows(repository)["ci.yml"]["jobs"]["versions"]["strategy"]["matrix"]["python"]
    project = (repository / "pyproject.toml").read_text(encoding="utf-8")
    assert f'requires-python = ">={versions[0]}"' in project
    assert re.findall(r'"Programming Language :: Python :: (3\.\d+)"', project) == versions

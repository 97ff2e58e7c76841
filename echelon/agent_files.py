"""Agents as files: each names a command, and copies of it run only where the user has named that command."""

import hashlib
import json
from pathlib import Path

from echelon.files import atomic_write, make_folder
from echelon.runs import runs_home
from echelon.state_files import open_regular, parse_json

AGENT = "process:"
"""Begins the name of a player that is a command."""
FOLDER = "agents"
"""Folder in that of the runs with a file for each command that its user has named."""


def agent_file(command: str) -> Path:
    """Return the file of a command, which its user names: from now on copies of the file run it."""
    text = json.dumps({"agent": command, "folder": str(Path.cwd())})
    path = _file_of(text.encode())
    if not path.exists():
        make_folder(path.parent)
        atomic_write(path, text)
    return path


def named_agent(data: bytes, path: Path) -> dict[str, str]:
    """Return the fields of an agent's file; ``ValueError`` for one that the user has not named here."""
    found = parse_json(data)
    if not isinstance(found, dict) or not all(isinstance(found.get(key), str) for key in ("agent", "folder")):
        raise ValueError(f"{str(path)!r} is not the file of an agent: expected texts 'agent' and 'folder'")
    if not _file_of(data).exists():
        raise ValueError(f"agent {found.get('agent')!r} is new here and was not run; name it as {AGENT}COMMAND first")
    return found


def _file_of(data: bytes) -> Path:
    return runs_home().absolute() / FOLDER / f"{hashlib.sha256(data).hexdigest()[:16]}.json"


def is_agent(path: Path) -> bool:
    """Whether a policy's path is the file of an agent."""
    if not path.is_file():
        return False
    with open_regular(path) as file:
        return file.read(1) == b"{"

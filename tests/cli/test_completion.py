"""What a shell completes, and that no completion loads a slow library."""

import json
import subprocess
import sys

from echelon.runs import match_id

COMPLETED = {
    "runs stop calm": {"calm-fox"},
    "runs stop 2026": {"20260101-000000-quickstart-calm-fox"},
    "config show --run ca": {"calm-fox"},
    "runs compare quick": {"quickstart"},
    "runs compare quickstart calm": {"calm-fox"},
    "policy pu": {"push", "pull"},
    "po": {"policy"},
    "sto": set(),
    "train --device c": {"cpu"},
    "sim --device a": {"auto"},
    "train --opponents lea": {"league"},
    "train --set ppo.gam": {"ppo.gamma="},
    "replay info cal": {"calm-fox"},
    "replay info @match": {"@match"},
    "runs list --filter stat": {"state:", "status:"},
    "runs list --filter state:run": {"state:running"},
    "runs list --filter tag:pa": {"tag:paper"},
    "runs list --columns variant,ppo.gam": {"variant,ppo.gamma"},
    "runs label fox --tag p": {"paper"},
    "sweep start --sampler t": {"tpe"},
    "sweep start --vary ppo.gam": {"ppo.gamma="},
    "runs queue --slots c": {"cpu="},
    "sim --blue h": {"hard"},
    "runs compare --chart w": {"wins"},
    "bench ray": {"rays"},
}
"""What a shell completes; ``@match`` is the id of a recorded match."""

COMPLETING = """
import contextlib, io, json, os, sys
from echelon_cli.main import run
found = {}
for typed in json.loads(sys.argv[1]):
    words = f"echelon {typed}"
    os.environ.update(_ECHELON_COMPLETE="complete_bash", COMP_WORDS=words, COMP_CWORD=str(words.count(" ")))
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.suppress(SystemExit):
        run([])
    found[typed] = [text.getvalue().split(), [name for name in json.loads(sys.argv[2]) if name in sys.modules]]
print(json.dumps(found))
"""
SLOW_TO_IMPORT = ("torch", "warp", "numpy", "scipy", "textual", "rich", "aiohttp", "optuna", "sqlite3")
"""Beside pydantic, which Typer reads values with."""


def test_completions_offer_names_and_load_nothing_slow(repository, echelon, ended_run):
    paths = ended_run("20260101-000000-quickstart-calm-fox")
    assert echelon("runs", "label", "fox", "--tag", "paper")[0] == 0
    paths.replays.mkdir()
    (paths.replays / "u000004.ecr").touch()
    ident = match_id(paths.id, "u000004.ecr")
    offered = {typed.replace("@match", ident[:6]): names for typed, names in COMPLETED.items()}
    done = subprocess.run(
        [sys.executable, "-c", COMPLETING, json.dumps(list(offered)), json.dumps(SLOW_TO_IMPORT)],
        cwd=repository,
        capture_output=True,
        text=True,
    )
    found = {typed: (set(names), slow) for typed, (names, slow) in json.loads(done.stdout).items()}
    assert found == {
        typed: ({ident if name == "@match" else name for name in names}, []) for typed, names in offered.items()
    }

"""Plays matches natively, in Node and in Chromium, and compares the state hashes after every decision.

``python -m tests.web.everywhere FILE [MATCHES]`` plays MATCHES (20) of every pair of levels and a quarter as many of
the champion, which acts natively, and writes a result file. The exit status is 1 where a hash differs.
"""

import json
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from itertools import combinations_with_replacement
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from echelon import champion
from echelon.agents.heuristic import SKILLS, script_of
from echelon.env.engine import Engine
from echelon.rl.host_program import HostPolicy
from echelon.rl.weights import load_policy
from echelon.web import build
from tests.state_hash import state_hash
from tests.web.in_node import BUNDLER, Compiled, compiled_game, first_difference, hashed_arrays

SCRIPT = Path(__file__).with_name("everywhere.mjs")
BUNDLE = "everywhere.js"
BATTLE = ["reset", *["decision"] * 124]
PROGRAMS = BATTLE * 8
"""1,000 programs; each reset draws another seed, since few mechs live after a hundred decisions."""

Play = Callable[[Path], list[str]]
"""Plays the job in a folder; returns the state hash after each program."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def write_job(
    folder: Path, compiled: Compiled, engine: Engine, map_seed: int, pilots: Sequence[str], programs: Sequence[str]
) -> list[str]:
    """Play a match natively, and write what others need to play it; return the state hashes.

    The pilot ``champion`` acts by its mean; its actions are those of the job.
    """
    batch, half = engine.batch, engine.num_mechs // 2
    build.map_file(engine, map_seed)
    batch.set(
        "script", np.repeat([0 if x == champion.NAME else script_of(x) for x in pilots], half)[None].astype(np.int32)
    )
    first = b"".join(batch.numpy(name).tobytes() for name in compiled.arrays)
    flown = [m for m in range(engine.num_mechs) if pilots[m // half] == champion.NAME]
    acts, memory = HostPolicy(load_policy(champion.FOLDER).policy), torch.zeros(engine.num_mechs, 128)
    actions, obs = (torch.from_numpy(batch.numpy(name)[0]) for name in ("actions", "obs"))
    later, hashes = list[bytes](), list[str]()
    for number, name in enumerate(programs):
        if name == "reset":
            memory.zero_()
        elif flown:
            acts.act_in(torch.tensor(flown), obs, memory, None, actions)
        if number and flown:
            later.append(batch.numpy("actions").tobytes())
        engine.run(name)
        hashes.append(state_hash(batch, 0))
    job = {
        "description": compiled.description,
        "first": compiled.arrays,
        "programs": programs,
        "each": ["actions"] if flown else [],
        "hashed": hashed_arrays(compiled.arrays),
    }
    (folder / "job.json").write_text(json.dumps(job))
    (folder / "inputs.bin").write_bytes(first + b"".join(later))
    (folder / "game.wasm").write_bytes(compiled.module)
    return hashes


def write_bundle(folder: Path) -> None:
    subprocess.run(
        [str(BUNDLER), str(SCRIPT), "-o", str(folder / BUNDLE), "--format", "esm", "--external", "node:fs/promises"],
        check=True,
    )


def play_in_node(folder: Path) -> list[str]:
    done = subprocess.run(["node", str(folder / BUNDLE), str(folder)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@contextmanager
def served(folder: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


def play_in_page(page: Any, address: str) -> list[str]:
    """Play the job that an address serves in a page."""
    page.goto(f"{address}/job.json")
    page.add_script_tag(url=f"/{BUNDLE}", type="module")
    page.wait_for_function("() => window.play")
    return page.evaluate("() => play()")


def main() -> int:
    from playwright.sync_api import sync_playwright

    from tests.browser.conftest import FLAGS, chromium

    target, matches = Path(sys.argv[1]), int((sys.argv[2:] or ["20"])[0])
    cfg = build.game_config("5v5")
    compiled, engine = compiled_game(cfg), build.web_engine(cfg)
    pairs = [(pair, matches) for pair in combinations_with_replacement(SKILLS, 2)]
    pairs.append(((champion.NAME, "expert"), -(-matches // 4)))
    rows, decisions = dict[str, list[int]](), PROGRAMS.count("decision")
    with TemporaryDirectory() as name, sync_playwright() as playwright, served(Path(name)) as address:
        folder, browser = Path(name), playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        write_bundle(folder)
        page = browser.new_page()
        for (blue, red), count in pairs:
            row = rows[f"{blue} – {red}"] = [count, 0, 0]
            for number in range(count):
                native = write_job(folder, compiled, engine, number, (blue, red), PROGRAMS)
                for place, played in enumerate((play_in_node(folder), play_in_page(page, address)), start=1):
                    row[place] += first_difference(native, played) is None
            print(blue, red, row, flush=True)
        browser.close()
    columns = ("matches", "equal in Node", "equal in Chromium")
    results = [
        {"row": pair, "column": column, "value": value, "interval": None}
        for pair, values in rows.items()
        for column, value in zip(columns, values, strict=True)
    ]
    command = " ".join(["python -m tests.web.everywhere", *sys.argv[1:]])
    defaults = {"date": "", "commit": "", "machine": "", "command": command}
    defaults |= {"seeds": f"maps 0 to {matches - 1}", "unit": f"matches of {decisions} decisions", "interval_of": None}
    content = {
        "title": "Matches with equal state hashes after every decision",
        "defaults": defaults,
        "results": results,
    }
    target.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(any(values[0] != value for values in rows.values() for value in values[1:]))


if __name__ == "__main__":
    sys.exit(main())

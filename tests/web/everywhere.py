"""Plays matches natively, in Node and in Chromium, and compares the state hashes of every battle.

``python -m tests.web.everywhere FILE [MATCHES]`` plays MATCHES (20) of every pair of levels and a quarter as many of
the champion, which acts natively, and writes a result file. The exit status is 1 where a hash differs.
"""

import json
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
from tests.web.in_node import BUNDLER, Compiled, compiled_game, hashed_arrays, node

SCRIPT = Path(__file__).with_name("everywhere.mjs")
BUNDLE = "everywhere.js"
BATTLES, DECISIONS = 8, 125
"""Battles of a match, each with another seed since few mechs live after a hundred decisions, and decisions of each."""
HASHED_EVERY = 50
"""Decisions between state hashes in a battle; its last state is hashed too."""

Play = Callable[[Path], list[str]]
"""Plays the job in a folder; returns the state hashes."""


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: Any) -> None:
        pass


def write_job(
    folder: Path,
    compiled: Compiled,
    engine: Engine,
    pilots: Sequence[str],
    maps: Sequence[int] = (0,),
    battles: int = BATTLES,
    decisions: int = DECISIONS,
) -> list[str]:
    """Play battles on each map natively, and write what others need to play them; return the state hashes.

    The pilot ``champion`` acts by its mean; its actions are those of the job.
    """
    batch, half = engine.batch, engine.num_mechs // 2
    scripts = np.repeat([0 if x == champion.NAME else script_of(x) for x in pilots], half)
    flown = torch.tensor([m for m in range(engine.num_mechs) if pilots[m // half] == champion.NAME])
    acts, memory = HostPolicy(load_policy(champion.FOLDER).policy), torch.zeros(engine.num_mechs, 128)
    actions, obs = (torch.from_numpy(batch.numpy(name)[0]) for name in ("actions", "obs"))
    inputs, hashes = list[bytes](), list[str]()
    batch.set("script", scripts[None].astype(np.int32))
    batch.set("forced_slot", np.zeros(1, np.int32))
    for number in range(len(maps) * battles):
        if number % battles == 0:
            inputs.append(build.map_file(engine, maps[number // battles]))
        batch.set("forced_seed", np.array([number], np.int32))
        memory.zero_()
        engine.run("reset")
        for i in range(1, decisions + 1):
            if len(flown):
                acts.act_in(flown, obs, memory, None, actions)
                inputs.append(batch.numpy("actions").tobytes())
            engine.run("decision")
            if i % HASHED_EVERY == 0 or i == decisions:
                hashes.append(state_hash(batch, 0))
    job = {
        "description": compiled.description,
        "scripts": scripts.tolist(),
        "maps": len(maps),
        "battles": battles,
        "decisions": decisions,
        "hashed_every": HASHED_EVERY,
        "flown": len(flown) > 0,
        "hashed": hashed_arrays(compiled.arrays),
    }
    (folder / "job.json").write_text(json.dumps(job))
    (folder / "inputs.bin").write_bytes(b"".join(inputs))
    (folder / "game.wasm").write_bytes(compiled.module)
    return hashes


def write_bundle(folder: Path) -> None:
    node(BUNDLER, SCRIPT, "-o", folder / BUNDLE, "--format", "esm", "--external", "node:fs/promises")


def play_in_node(folder: Path) -> list[str]:
    return json.loads(node(folder / BUNDLE, folder))


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


def equal_matches(native: Sequence[str], played: Sequence[str], matches: int) -> int:
    """Return the number of matches, of equal lengths and one after the other, whose hashes are equal."""
    pairs = np.array(native) == np.array(played)
    return int(pairs.reshape(matches, -1).all(1).sum())


def main() -> int:
    from playwright.sync_api import sync_playwright

    from tests.browser.conftest import FLAGS, chromium

    target, matches = Path(sys.argv[1]), int((sys.argv[2:] or ["20"])[0])
    cfg = build.game_config("5v5")
    compiled, engine = compiled_game(cfg), build.web_engine(cfg)
    pairs = [(pair, matches) for pair in combinations_with_replacement(SKILLS, 2)]
    pairs.append(((champion.NAME, "expert"), -(-matches // 4)))
    rows = dict[str, list[int]]()
    with TemporaryDirectory() as name, sync_playwright() as playwright, served(Path(name)) as address:
        folder, browser = Path(name), playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
        write_bundle(folder)
        page = browser.new_page()
        for (blue, red), count in pairs:
            row = rows[f"{blue} – {red}"] = [count, 0, 0]
            native = write_job(folder, compiled, engine, (blue, red), range(count))
            for place, played in enumerate((play_in_node(folder), play_in_page(page, address)), start=1):
                row[place] = equal_matches(native, played, count)
            print(blue, red, row, flush=True)
        browser.close()
    columns = ("matches", "equal in Node", "equal in Chromium")
    results = [
        {"row": pair, "column": column, "value": value, "interval": None}
        for pair, values in rows.items()
        for column, value in zip(columns, values, strict=True)
    ]
    command = " ".join(["python -m tests.web.everywhere", *sys.argv[1:]])
    defaults = {"date": "", "commit": "", "machine": "", "command": command, "seeds": f"maps 0 to {matches - 1}"}
    defaults |= {"unit": f"matches of {BATTLES * DECISIONS} decisions", "interval_of": None}
    content = {"title": "Matches whose states have equal hashes", "defaults": defaults, "results": results}
    target.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return int(any(values[0] != value for values in rows.values() for value in values[1:]))


if __name__ == "__main__":
    sys.exit(main())

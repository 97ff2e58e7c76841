"""``python -m tests.bench [SCENE]...``: measure parts whose speed is the project's own concern."""

import argparse
import json

from echelon.bench import scenes
from tests.bench import dashboard, league, learning, serving

SCENES = {
    "dash-first": dashboard.first_paint,
    "dash-live": dashboard.live,
    "dash-long": dashboard.long_run,
    "server-load": serving.server_load,
    "chunk": learning.chunk,
    "crowded": learning.crowded,
    "league-scripted": league.scripted,
    "league-4": league.four,
    "league-20": league.twenty,
    "league-opponents": league.opponents,
    "league-history": league.history,
}
CUDA_ENVS = {
    **scenes.CUDA_ENVS,
    "chunk": (2048, 4096),
    **dict.fromkeys(("league-scripted", "league-4", "league-20", "league-opponents"), (1024, 4096)),
}
"""Scenes that run on CUDA, those of ``echelon bench`` too, and their numbers of environments there."""

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="tests.bench")
    parser.add_argument("scene", nargs="*", default=list(SCENES))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    scenes.SCENES.update(SCENES)
    scenes.CUDA_ENVS.update(CUDA_ENVS)
    print(json.dumps(scenes.run_scenes(options.scene, options.repeats, device=options.device), indent=1))

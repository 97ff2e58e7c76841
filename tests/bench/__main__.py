"""``python -m tests.bench [SCENE]...``: measure dashboard and server, whose speed is the project's own concern."""

from __future__ import annotations

import json
import sys

from echelon.bench import scenes
from tests.bench import dashboard, serving

SCENES = {
    "dash-first": dashboard.first_paint,
    "dash-live": dashboard.live,
    "dash-long": dashboard.long_run,
    "server-load": serving.server_load,
}

if __name__ == "__main__":
    scenes.SCENES.update(SCENES)
    print(json.dumps(scenes.run_scenes(sys.argv[1:] or list(SCENES)), indent=1))

"""Seek time and memory of the viewer for an hour of 200 mechs, in headless Chromium.

Usage: ``python -m tests.bench.long_replay [SECONDS] [FILE] [SEEKS]``; a file that exists is not recorded again.

Mechs have more hit points, so that the match lasts. Prints one JSON object: file size, time from seek to the displayed
frame anywhere in the match, and memory along the way: of the page after garbage collection, as objects and as buffers
of typed arrays, and of the browser's processes. Not a test: run it on an idle machine.
"""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil

from tests.bench.viewer_speed import SEEK, TIME_FRAMES, browsing, median
from tests.browser.player import open_match

HOUR_S = 3600.0
HIT_POINT_FACTOR = 60.0
"""Factor of the mechs' hit points."""
SEEKS, BETWEEN = 600, 50
"""Number of seeks by default, and seeks between two memory measurements."""
MIB = 2**20


def record(path: Path, seconds: float) -> None:
    """Play 100v100 scripted pilots for ``seconds`` and record the match into ``path``."""
    from echelon.config import EnvConfig
    from echelon.replay.record import MatchInfo, Recorder
    from echelon.sim.arsenal import CHASSIS
    from echelon.training.batch_options import Episodes, Pilots, Sides
    from echelon.training.vec_env import VectorEnv

    base = EnvConfig()
    world = replace(base.world, size_x=200, size_y=200, size_z=28)
    cfg = replace(base, world=world, num_packs=20, max_episode_seconds=seconds, zone_win_share=1.0)
    overrides = {f"{spec.chassis.name.lower()}.hp": spec.hp * HIT_POINT_FACTOR for spec in CHASSIS}
    overrides |= {f"{spec.chassis.name.lower()}.leg_hp": spec.leg_hp * HIT_POINT_FACTOR for spec in CHASSIS}
    with VectorEnv(
        1,
        cfg,
        sides=Sides("none"),
        pilots=Pilots("medium", weapon_prob=1.0),
        episodes=Episodes(seeds=[7], autoreset=False),
        changes=[overrides],
    ) as env:
        env.reset()
        recorder = Recorder(env.engine, [0], path.parent, [MatchInfo(name=path.stem, map_seed=7)])
        recorder.begin()
        while not recorder.outcomes:
            env.step()
            recorder.after_step()
        recorder.finish()


def resident() -> float:
    """Return the resident memory of the browser's processes [MiB]."""
    children = psutil.Process().children(recursive=True)
    return sum(process.memory_info().rss for process in children if "chrom" in process.name()) / MIB


def scrub(page: Any, address: str, match: str, seeks: int) -> dict[str, Any]:
    """Seek to positions all over the match and measure time and memory."""
    page.add_init_script(TIME_FRAMES)
    open_match(page, address, match, quality="low")
    page.wait_for_function("() => echelon.cost().firstFrameMs > 0")
    inspector = page.context.new_cdp_session(page)
    times, heap, buffers, rss = [], [], [], []
    for k in range(seeks):
        times.append(page.evaluate(SEEK, (k * 0.618034) % 1.0))
        if k % BETWEEN == BETWEEN - 1:
            inspector.send("HeapProfiler.collectGarbage")
            held = inspector.send("Runtime.getHeapUsage")
            heap.append(round(held["usedSize"] / MIB))
            buffers.append(round(held["backingStorageSize"] / MIB))
            rss.append(round(resident()))
    return {
        "minutes": round(page.evaluate("() => echelon.control.lastTick(echelon.state.match)") / 20 / 60, 1),
        "mechs": page.evaluate("() => echelon.state.match.header.mechs"),
        "first_picture_ms": round(page.evaluate("() => echelon.cost().firstFrameMs")),
        "seek_ms": median(times),
        "slowest_seek_ms": round(max(times)),
        "page_objects_mib": heap,
        "page_buffers_mib": buffers,
        "browser_mib": rss,
    }


def main(seconds: float = HOUR_S, file: str = "", seeks: int = SEEKS) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(file) if file else Path(folder) / "hour.ecr"
        if not path.exists():
            record(path, seconds)
        with browsing(path) as (page, address, match):
            print(json.dumps({"file_mb": round(path.stat().st_size / 1e6, 1)} | scrub(page, address, match, seeks)))


if __name__ == "__main__":
    main(*map(float, sys.argv[1:2]), *sys.argv[2:3], *map(int, sys.argv[3:4]))

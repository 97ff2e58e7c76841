"""What the director shows of the ends of fights, without a browser.

Usage: ``python -m tests.bench.director_sight FILE.ecr…``.

Prints one JSON object: shares of the living mechs that are in the picture in the last 5 s of fights, with no wall
before them (``walls``) and with none that is not cut away (``seen``), means over matches with bootstrap intervals of
95 %. Also the processor time of a shot that is found at once, as after a seek, and of a part of the search for the
next one, as at every picture [ms]: median and 95 % quantile. Record matches with ``echelon sim --record all``.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

from echelon.replay.embed import embed_world
from echelon.replay.reader import Replay

VIEWER = Path(__file__).resolve().parents[2] / "viewer"
RUN = """
const { createServer } = await import("vite");
const options = { configFile: false, logLevel: "error", appType: "custom", server: { middlewareMode: true } };
const server = await createServer(options);
await (await server.ssrLoadModule("/tests/sight.ts")).main(process.argv.slice(1));
await server.close();
"""
RESAMPLES = 10_000


def sights(files: list[Path]) -> list[dict[str, object]]:
    with tempfile.TemporaryDirectory(prefix="echelon-sight-") as folder:
        whole = []
        for number, file in enumerate(files):
            with Replay(file) as replay:
                whole.append(Path(folder) / f"{number}.ecr")
                whole[-1].write_bytes(embed_world(replay))
        command = ["node", "--input-type=module", "--eval", RUN, "--", *map(str, whole)]
        done = subprocess.run(command, cwd=VIEWER, capture_output=True, text=True, check=True)
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def interval(values: np.ndarray) -> list[float]:
    draws = np.random.default_rng(0).choice(values, (RESAMPLES, len(values))).mean(axis=1)
    return [round(float(q), 3) for q in np.quantile(draws, [0.025, 0.975])]


def main(files: list[Path]) -> None:
    found = [sight for sight in sights(files) if sight["living"]]
    report: dict[str, object] = {"matches": len(found), "moments": sum(int(str(sight["moments"])) for sight in found)}
    for name in ("framed", "walls", "seen"):
        shares = np.array([sight[name] / sight["living"] for sight in found])  # type: ignore[operator]
        report[name] = {"mean": round(float(shares.mean()), 3), "interval": interval(shares)}
    for name in ("found", "ahead"):
        times = np.concatenate([sight[name] for sight in found])
        report[f"{name} [ms]"] = [round(float(q), 2) for q in np.quantile(times, [0.5, 0.95])]
    print(json.dumps(report))


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])

"""Chunk latency of the replay server beside a hostile client: ``python -m tests.bench.attacked_server``.

Prints one JSON object: the results of the benchmark scene ``server-load``, first alone and then under attack. Run it on
an idle machine.
"""

from __future__ import annotations

import json
import multiprocessing

from echelon.bench.serving import RUN, start_server
from tests.bench.attack import attack


def main() -> None:
    with start_server() as server:
        results = {"alone": server.measure()}
        match = server.home / RUN / "replays" / "target.ecr"
        match.write_bytes((server.home / "whole.ecr").read_bytes())
        attacked = (server.base, server.match_id(match.name))
        client = multiprocessing.get_context("spawn").Process(target=attack, args=attacked, daemon=True)
        client.start()
        try:
            results["attacked"] = server.measure()
        finally:
            client.terminate()
            client.join()
    print(json.dumps(results))


if __name__ == "__main__":
    main()

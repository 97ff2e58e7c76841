"""The process that plays rounds of the league: ``python -m echelon.jobs.arena_worker RUN``, started by a supervisor.

It speaks, beats and stops as the one that trains, and several may play together. What is played is in ``league.db``, so
it needs no checkpoint: started again after whatever ended it, it goes on with the matches that are not written down.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from echelon.jobs import control, worker
from echelon.jobs.spec import read_spec
from echelon.jobs.worker import RunLink
from echelon.runs import RunPaths
from echelon.telemetry.events import EventAlert, EventEnd, EventMatch, EventRound, EventStart

if TYPE_CHECKING:
    from echelon.arena.config import ArenaConfig
    from echelon.arena.workers import ProcessGroup

PROGRESS_SHARE = 0.1
"""Share of a round after which it says again how far it has come."""


def work(paths: RunPaths, link: RunLink, resume: str | None) -> None:
    """Play the rounds that the run's spec asks for."""
    from echelon.arena.config import ArenaConfig
    from echelon.training.runtime.threads import thread_environment

    config = ArenaConfig.from_dict(read_spec(paths).config["arena"])
    os.environ.update(thread_environment())
    from echelon.arena.rounds import RATED, RoundCallbacks, RoundProgress, play_rounds
    from echelon.arena.store import Store, league_path

    said = [0.0]

    def news(news: RoundProgress) -> None:
        share = news.played / max(1, news.matches)
        if news.state != RATED and share - said[0] < PROGRESS_SHARE:
            return
        said[0] = 0.0 if news.state == RATED else share
        closed = news.closed
        link.emit(
            EventRound(
                round=news.round,
                state=news.state,
                rounds=config.rounds,
                matches=news.matches,
                played=news.played,
                seconds=news.seconds,
                ratings={i: r.rating for i, r in closed.after.items()} if closed else {},
                promoted=closed.promoted if closed else [],
                retired=closed.retired if closed else [],
            )
        )

    def replay(path: Path, blue: str, red: str, winner: str, seed: int) -> None:
        name = f"{path.parent.name}/{path.name}"
        link.emit(EventMatch(update=0, global_step=0, path=name, blue=blue, red=red, winner=winner, seed=seed))

    def should_stop() -> bool:
        # the first process reads the control folder in its link; the others, who meet nobody between matches, do here
        return link.should_stop() > 0 or (worker.rank() > 0 and bool(control.stop_requests(paths)))

    listeners = RoundCallbacks(
        on_status=lambda text: link.beat(),
        should_stop=should_stop,
        news=news,
        replay=replay,
        warn=lambda text: link.emit(EventAlert(message=text)),
    )
    with Store(league_path(paths.root.parent)) as store, _together(config) as (together, config):
        link.emit(EventStart(device=config.device, seed=config.seed, preset="arena", num_envs=config.envs))
        finished = play_rounds(store, paths.id, config, paths.replays, listeners, together)
    link.emit(EventEnd(reason="completed" if finished else "stopped"))


@contextlib.contextmanager
def _together(config: ArenaConfig) -> Iterator[tuple[ProcessGroup, ArenaConfig]]:
    """Meet the other processes of this job, if there are any; gives them, and the dials of this one."""
    from echelon.arena.workers import SINGLE_PROCESS

    if worker.world_size() == 1:
        yield SINGLE_PROCESS, config
        return
    import torch

    from echelon.training.runtime.devices import resolve_device
    from echelon.training.runtime.process_group import process_group_from_environment

    with process_group_from_environment() as world:
        world.join(torch.device("cpu"))
        yield world, replace(config, device=str(resolve_device(config.device, world.local_rank, world.local_size)))


if __name__ == "__main__":
    sys.exit(worker.main(work=work, phase="playing"))

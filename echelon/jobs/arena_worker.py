"""The process that plays rounds of the league: ``python -m echelon.jobs.arena_worker RUN``, started by a supervisor.

It reports, writes progress and stops like the training process, and several can play one job. All results are in
``league.db``, so it needs no checkpoint: started again after any end, it continues with the matches not stored yet.
"""

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from echelon.jobs import control, worker
from echelon.jobs.leave import leave
from echelon.jobs.memory import require_match_memory
from echelon.jobs.spec import read_spec
from echelon.jobs.worker import RunLink
from echelon.runs import RunPaths
from echelon.telemetry.events import EventAlert, EventEnd, EventMatch, EventRound, EventStart
from echelon.validation import validated

if TYPE_CHECKING:
    from echelon.arena.config import ArenaConfig
    from echelon.arena.rounds import RoundProgress
    from echelon.arena.workers import WorkerGroup

PROGRESS_STEP = 0.1
"""Fraction of a round between two progress records."""


class _ProgressRecords:
    """Emits an ``EventRound`` for every ``PROGRESS_STEP`` of a round and for its rating."""

    def __init__(self, link: RunLink, rounds: int) -> None:
        self._link, self._rounds, self._last = link, rounds, 0.0

    def __call__(self, progress: "RoundProgress") -> None:
        closed = progress.closed
        fraction = progress.played / max(1, progress.matches)
        if closed is None and fraction - self._last < PROGRESS_STEP:
            return
        self._last = 0.0 if closed else fraction
        self._link.emit(
            EventRound(
                round=progress.round,
                state=progress.state,
                rounds=self._rounds,
                matches=progress.matches,
                played=progress.played,
                seconds=progress.seconds,
                ratings={i: r.rating for i, r in closed.after.items()} if closed else {},
                promoted=closed.promoted if closed else [],
                retired=closed.retired if closed else [],
            )
        )


def work(paths: RunPaths, link: RunLink, resume: str | None) -> None:
    from echelon.arena.config import ArenaConfig

    config = validated(ArenaConfig, read_spec(paths).config["arena"])
    with worker.loading():
        from echelon.arena.ray_matches import RayHosts, connect
        from echelon.arena.rounds import RoundCallbacks, play_rounds
        from echelon.arena.store import Store, league_path
        from echelon.arena.submit import league_env_config
        from echelon.jobs.launchers import parse_launcher, passed_environment
        from echelon.jobs.shards import Hosts

    def on_replay(path: Path, blue: str, red: str, winner: str, seed: int) -> None:
        name = f"{path.parent.name}/{path.name}"
        link.emit(EventMatch(update=0, global_step=0, path=name, blue=blue, red=red, winner=winner, seed=seed))

    def should_stop() -> bool:
        # the first process reads the control folder in its link; the others do not synchronise between matches
        return link.should_stop() > 0 or (worker.rank() > 0 and bool(control.stop_requests(paths)))

    callbacks = RoundCallbacks(
        on_status=lambda text: link.write_progress(),
        should_stop=should_stop,
        on_progress=_ProgressRecords(link, config.rounds),
        on_replay=on_replay,
        on_warning=lambda text: link.emit(EventAlert(message=text)),
    )
    with Store(league_path(paths.root.parent)) as store, _join_processes(config) as (process_group, config):
        launcher = parse_launcher(config.launcher) if config.launcher else None
        player = None
        if launcher is not None and launcher.name == "ray":
            player = RayHosts(connect(passed_environment()), paths.replays, launcher.cpus)
        elif launcher is not None:
            player = Hosts(paths)
        device = player.device if player else config.device
        if player is None:
            # a pair plays its seeds from both sides
            require_match_memory(league_env_config(store), min(config.envs, 2 * config.seeds), device)
        link.emit(EventStart(device=device, seed=config.seed, preset="arena", num_envs=config.envs))
        finished = play_rounds(store, paths.id, config, paths.replays, callbacks, process_group, player)
    link.emit(EventEnd(reason="completed" if finished else "stopped"))


@contextlib.contextmanager
def _join_processes(config: "ArenaConfig") -> "Iterator[tuple[WorkerGroup, ArenaConfig]]":
    from echelon.arena.workers import SINGLE_PROCESS

    if worker.world_size() == 1:
        yield SINGLE_PROCESS, config
        return
    import torch

    from echelon.training.runtime.devices import resolve_device
    from echelon.training.runtime.process_group import process_group_from_environment

    with process_group_from_environment() as group:
        group.join(torch.device("cpu"))
        yield group, replace(config, device=str(resolve_device(config.device, group.local_rank, group.local_size)))


if __name__ == "__main__":
    leave(worker.main(work=work, phase="playing"))

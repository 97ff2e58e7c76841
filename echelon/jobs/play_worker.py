"""The process of a play session: ``python -m echelon.jobs.play_worker RUN``, started by a supervisor.

It ends a minute after its last client, or when it is stopped; started again after a crash it begins its match again.
At most ``MAX_SESSIONS`` run at a time, counted by locks in the runs folder.
"""

import asyncio
import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager

from echelon.jobs import lock, worker
from echelon.jobs.leave import leave
from echelon.jobs.spec import read_spec
from echelon.jobs.status import job_status
from echelon.jobs.worker import RunLink
from echelon.play_channel import MAX_SESSIONS, write_token
from echelon.runs import RunPaths, list_runs, require_plain_folder, runs_home
from echelon.telemetry.events import EventEnd, EventMatch, EventStart
from echelon.validation import validated

SLOT_NAME = ".play-{n}.lock"


@contextmanager
def session_slot(paths: RunPaths) -> Iterator[None]:
    home = runs_home(paths.root.parent)
    for n in range(MAX_SESSIONS):
        handle = lock.acquire(home / SLOT_NAME.format(n=n))
        if handle is not None:
            try:
                yield
            finally:
                os.close(handle)
            return
    raise ValueError(
        f"{MAX_SESSIONS} play sessions run already, expected fewer; stop one: echelon runs list --filter kind:play"
    )


def work(paths: RunPaths, link: RunLink, resume: str | None) -> None:
    from echelon.play.config import PlayConfig

    config = validated(PlayConfig, read_spec(paths).config.get("play"), "play option ")
    for folder in (paths.playing, paths.replays):
        require_plain_folder(folder, f"run {paths.id!r}", paths.root)
    with session_slot(paths):
        from echelon.play.match import PlayedMatch
        from echelon.play.session import PlaySession
        from echelon.play_protocol import Ended

        write_token(paths)
        _list_unfinished(paths)
        link.emit(EventStart(device="cpu", seed=config.seed, preset="play", num_envs=1))

        def on_match(match: PlayedMatch, ended: Ended) -> None:
            blue, red = (team["name"] for team in match.header["teams"])
            name = f"{paths.replays.name}/{match.path.name}"
            seed = int(match.header["seed"])
            with contextlib.suppress(OSError):  # a full disk ends no session
                link.emit(
                    EventMatch(update=0, global_step=0, path=name, blue=blue, red=red, winner=ended.winner, seed=seed)
                )

        session = PlaySession(paths, config, should_stop=link.should_stop, on_match=on_match)
        asyncio.run(session.run())
    link.emit(EventEnd(reason="stopped" if link.should_stop() else "completed"))


def _list_unfinished(paths: RunPaths) -> None:
    """List recordings that killed sessions of this runs folder left; they can be read up to their last chunk."""
    ended = [run for run in list_runs(paths.root.parent) if run.playing.is_dir() and not job_status(run).is_alive]
    for run in (paths, *ended):
        with contextlib.suppress(OSError, ValueError):
            require_plain_folder(run.playing, f"run {run.id!r}", run.root)
            run.replays.mkdir(exist_ok=True)
            for path in sorted(run.playing.iterdir()):
                path.rename(run.replays / path.name)


if __name__ == "__main__":
    leave(worker.main(work=work, phase="playing"))

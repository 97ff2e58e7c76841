"""Records matches from a batch of battles: a frame per decision, and the journal of what happened in between.

The device writes frames, journal and changed voxels of the chosen environments; ``Recorder`` fetches them every two
seconds of play and hands a chunk to each file. The other environments pay one comparison per kernel.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from echelon.replay import frames
from echelon.replay import policy_columns as insight
from echelon.replay.columns import Ints
from echelon.replay.header import TeamInfo, build_header
from echelon.replay.schema import (
    CHUNK_SECONDS,
    CLOUDS,
    REASONS,
    ROUNDS,
    SUFFIX,
    WORLDS_FOLDER,
)
from echelon.replay.writer import MatchWriter, world_payload
from echelon.sim.backend import Program
from echelon.sim.batch import Batch
from echelon.sim.state import JOURNAL_VALUES
from echelon.sim.tables import duration_ticks

LOGS = ("journal", "round_log", "cloud_log", "edit_log")
COUNTERS = ("journal_count", "round_count", "cloud_count", "edit_count")
FETCHED = ("frames", "digests", "frame_count", "page_open", *LOGS, *COUNTERS)
PolicyColumnMode = Literal["none", "acts", "values"]
"""Which policy columns are recorded."""
TICK, CELL, MATERIAL = 0, 1, 2
"""Places of columns in rows of edits; frames, events and clouds have their tick there too."""
MOST_CHUNKS = 4
"""Chunks after which what the device noted must be fetched."""
FETCH_S = 0.1
"""Time between fetches while play is faster than that; many small chunks at once are cheaper [s]."""


class RecordedEngine(Protocol):
    """What is recorded; ``echelon.env.engine.Engine`` is one."""

    batch: Batch
    action_names: tuple[str, ...]
    """Name of each entry of an action vector."""
    term_names: tuple[str, ...]
    """Name of each reward term."""

    def record(self, envs: Sequence[int], frame: Program = ()) -> None:
        """Keep the journal of these environments and run ``frame`` at each decision's end."""
        ...

    def run(self, name: str) -> None:
        """Run a program; ``frame`` is the one given to ``record``."""
        ...


@dataclass(frozen=True, kw_only=True)
class MatchInfo:
    """What a recorder must be told about one environment."""

    name: str
    """Stem of the file."""
    teams: tuple[TeamInfo, TeamInfo] = (TeamInfo(name="blue"), TeamInfo(name="red"))
    map_seed: int = -1
    """-1 takes the episode's seed."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the header: run, update, global_step."""


@dataclass(frozen=True)
class _Fetched:
    """What the device wrote about one environment since the last fetch."""

    first: int
    """Number of the first of its frames."""
    frames: NDArray[np.int32]
    events: NDArray[np.int32]
    rounds: NDArray[np.int32]
    clouds: NDArray[np.int32]
    edits: NDArray[np.int32]
    digests: NDArray[np.uint32]


class _Track:
    """One environment being recorded: turns what was fetched into chunks."""

    def __init__(self, env: int, page: int, writer: MatchWriter, cells: NDArray[np.uint8], cloud_ticks: int) -> None:
        self.env, self.page, self.writer, self._cloud_ticks = env, page, writer, cloud_ticks
        self.cells = cells
        """Material of each cell, as far as its edits were fetched."""
        self.seen = 0
        """Frames fetched."""
        self._last: Ints | None = None
        self._rounds: Ints = np.zeros((0, len(ROUNDS.columns)), np.int64)
        self._clouds: Ints = np.zeros((0, len(CLOUDS.columns)), np.int64)
        """Those that may still live."""

    def write(self, fetched: _Fetched, stride: int) -> None:
        """Write the frames that were fetched as chunks of ``stride`` frames and the one before them."""
        rows, rounds = fetched.frames.astype(np.int64), fetched.rounds.astype(np.int64)
        events, first = fetched.events.astype(np.int64), fetched.first
        edits = fetched.edits.astype(np.int64)
        edits = edits[np.lexsort((edits[:, CELL], edits[:, TICK]))]
        if len(fetched.clouds):
            clouds = np.concatenate([self._clouds, fetched.clouds.astype(np.int64)])
            self._clouds = clouds[np.lexsort(clouds.T[::-1])]
        lead = 0 if self._last is None else 1
        if self._last is not None:
            rows, first = np.concatenate([self._last, rows]), first - 1
            rounds = np.concatenate([self._rounds, rounds]) if len(self._rounds) else rounds
        last = len(rows) - 1
        for start in range(0, max(last, 1), stride):
            end = min(start + stride, last)
            ticks = rows[start, TICK] if start else -1, rows[end, TICK]
            tables = {"events": rows_between(events, TICK, *ticks), "edits": rows_between(edits, TICK, *ticks)}
            tables["rounds"] = rows_between(rounds, 0, first + start - 1, first + end)
            tables["rounds"][:, 0] -= first + start
            tables["clouds"] = rows_between(self._clouds, TICK, rows[start, TICK] - self._cloud_ticks, rows[end, TICK])
            fresh = start if start == 0 and not lead else start + 1  # the frame before belongs to the chunk before
            state = fetched.digests[fresh - lead : end + 1 - lead].tobytes()
            state += tables["clouds"].tobytes()
            self.writer.chunk(rows[start : end + 1], tables, state)
        self._clouds = rows_between(self._clouds, TICK, rows[last, TICK] - self._cloud_ticks, rows[last, TICK])
        self._last = rows[last:]
        self._rounds = rows_between(rounds, 0, first + last - 1, first + last)


class Recorder:
    """Writes one file per environment of ``envs`` into ``folder``, worlds into its ``worlds``.

    Call ``begin`` after a reset, ``after_step`` after every step and ``finish`` at the end. Chunks are written as they
    fill, or a few at a time where play is so fast that they fill within ``FETCH_S``; a match is closed at the fetch
    after its end. ``outcomes`` maps the environments whose match is over to winner and reason. ``policy`` asks for the
    policy columns: "acts", or "values" where somebody writes estimates to the batch's ``value`` before each decision.
    """

    def __init__(
        self,
        stage: RecordedEngine,
        envs: Sequence[int],
        folder: Path,
        matches: Sequence[MatchInfo],
        *,
        embed_world: bool = False,
        policy: PolicyColumnMode = "none",
    ) -> None:
        if len(envs) != len(matches) or not envs:
            raise ValueError(f"matches has {len(matches)} entries, wanted one for each of {len(envs)} environments")
        self.stage, self.envs, self.folder = stage, list(envs), Path(folder)
        self.matches, self._embed = list(matches), embed_world
        self.outcomes: dict[int, tuple[int, str]] = {}
        self.dropped = 0
        """Rows of journals and logs that did not fit."""
        self._tracks: list[_Track] = []
        cfg = stage.batch.cfg
        self._stride = chunk_frames(cfg.dt_sim, cfg.decision_repeat)
        self._steps = 0
        self._fetched_at, self._fetched_step = 0.0, 0
        self.insight = _insight(stage, policy)
        more = self.insight.columns(stage.batch.num_mechs) if self.insight else ()
        frames.add_arrays(stage.batch, len(self.envs), (MOST_CHUNKS + 1) * self._stride, more)
        if self.insight:
            insight.add_constants(stage.batch, self.insight)
        stage.record(self.envs, frames.launches(insight.launches() if self.insight else ()))
        on_host = stage.batch.device == "cpu"
        self._views = {name: stage.batch[name].numpy() for name in FETCHED} if on_host else {}
        """On a CPU, the simulator's own memory."""
        if on_host:
            self._views |= {name: stage.batch[name].numpy() for name in ("material", "tick")}

    @property
    def paths(self) -> list[Path]:
        """Where each match is written."""
        return [self.folder / f"{match.name}{SUFFIX}" for match in self.matches]

    def begin(self) -> None:
        """Open the files and record the first frame; call it when the episodes have just begun."""
        worlds = None if self._embed else self.folder / WORLDS_FOLDER
        self.stage.run("frame")
        for page, (env, match, path) in enumerate(zip(self.envs, self.matches, self.paths, strict=True)):
            x, y, z = (int(v) for v in self._row("size", env))
            voxels = self._row("material", env)[:z, :y, :x]
            header = build_header(self.stage.batch, env, match.teams, match.map_seed, match.about, self.insight)
            path.unlink(missing_ok=True)
            writer = MatchWriter(path, header, world_payload(voxels), worlds=worlds)
            cloud_ticks = duration_ticks(header["cloud"]["life_s"], self.stage.batch.cfg.dt_sim)
            self._tracks.append(_Track(env, page, writer, cells_in_order(voxels), cloud_ticks))

    def after_step(self) -> None:
        """Count the decision just played, and write a chunk where one is due."""
        self._steps += 1
        self._fetch(self._over())
        if self._steps % self._stride == 0:
            full = self._steps - self._fetched_step >= MOST_CHUNKS * self._stride
            if full or time.monotonic() - self._fetched_at >= FETCH_S:
                self._fetched_at, self._fetched_step = time.monotonic(), self._steps
                self._fetch(self._tracks)

    def finish(self) -> list[Path]:
        """Write what is left, close every file, stop recording, and return the files."""
        self._fetch(self._tracks)
        for track in self._tracks:
            track.writer.close()
        self._tracks = []
        self.stage.record([])
        return self.paths

    def abandon(self) -> None:
        """Close the files as they stand; such a file plays up to its last whole chunk."""
        for track in self._tracks:
            track.writer.abandon()
        self._tracks = []
        self.stage.record([])

    def _row(self, name: str, env: int) -> NDArray[Any]:
        """Return the row of an environment: a view on a CPU, a copy of that row from a GPU."""
        if name in self._views:
            return self._views[name][env]
        return self.stage.batch[name][env : env + 1].numpy()[0]

    def _over(self) -> list[_Track]:
        """Return the matches that have ended: their maps are read before what still flies there changes them."""
        is_open = self._views["page_open"] if self._views else self.stage.batch["page_open"].numpy()
        return [track for track in self._tracks if not is_open[track.page]]

    def _fetch(self, tracks: Sequence[_Track]) -> None:
        """Write what the device noted of some matches since the last fetch, and let it go on with empty pages."""
        if not tracks:
            return
        batch = self.stage.batch
        arrays = self._views or {name: batch[name].numpy() for name in FETCHED}
        for track in tracks:
            self._take(track, arrays)
            for name in COUNTERS:
                if self._views:  # a slice of the device's array costs more than all the rest of emptying a page
                    self._views[name][track.page] = 0
                else:
                    batch[name][track.page : track.page + 1].zero_()
        for track in [track for track in tracks if not arrays["page_open"][track.page]]:
            winner = int(self._row("done_winner", track.env))
            reason = REASONS[int(self._row("done_reason", track.env))]
            self.outcomes[track.env] = winner, reason
            track.writer.close(winner=winner, reason=reason)
            self._tracks.remove(track)

    def _take(self, track: _Track, arrays: Mapping[str, NDArray[Any]]) -> None:
        page, count = track.page, int(arrays["frame_count"][track.page])
        if count == track.seen:
            return
        at = np.arange(track.seen, count) % arrays["frames"].shape[1]
        logs = (self._logged(arrays[log][page], int(arrays[n][page])) for log, n in zip(LOGS, COUNTERS, strict=True))
        events, rounds, clouds, edits = logs
        rows, digests = arrays["frames"][page][at], arrays["digests"][page][at]
        edits = self._whole(track, edits, int(arrays["edit_count"][page]), int(rows[-1, TICK]))
        fetched = _Fetched(track.seen, rows, events[:, :JOURNAL_VALUES], rounds, clouds, edits, digests)
        track.seen = count
        track.write(fetched, self._stride)

    def _logged(self, log: NDArray[np.int32], count: int) -> NDArray[np.int32]:
        self.dropped += max(0, count - len(log))
        return log[:count]

    def _whole(self, track: _Track, edits: NDArray[np.int32], count: int, tick: int) -> NDArray[np.int32]:
        """Return the edits and, where the log was too short for them, what else the map differs in, dated ``tick``.

        The map of an episode that another has replaced is gone.
        """
        track.cells[edits[:, CELL]] = edits[:, MATERIAL]
        if count <= len(edits) or int(self._row("tick", track.env)) == 0:
            return edits
        x, y, z = track.writer.header["world"]["size"]
        now = cells_in_order(self._row("material", track.env)[:z, :y, :x])
        at = np.flatnonzero(now != track.cells)
        track.cells[at] = now[at]
        return np.concatenate([edits, np.column_stack([np.full(len(at), tick), at, now[at]]).astype(np.int32)])


def cells_in_order(material: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a copy of materials ``[z, y, x]`` by cell: along z, then x, then y."""
    return material.transpose(1, 2, 0).flatten()


def _insight(stage: RecordedEngine, policy: PolicyColumnMode) -> insight.PolicyColumns | None:
    if policy == "none":
        return None
    contacts = stage.batch["contact"].shape[2]
    return insight.PolicyColumns(
        actions=stage.action_names, terms=stage.term_names, contacts=contacts, estimates=policy == "values"
    )


def rows_between(rows: Ints, column: int, after: int, until: int) -> Ints:
    """Return a copy of the rows whose column lies above ``after`` and up to ``until``; rows ascend in it."""
    start, end = np.searchsorted(rows[:, column], (after, until), side="right")
    return rows[start:end].copy()


def chunk_frames(dt_sim: float, decision_repeat: int) -> int:
    """Return the decisions of a chunk."""
    return max(1, round(CHUNK_SECONDS / (dt_sim * decision_repeat)))

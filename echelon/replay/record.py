"""Records matches from a batch of battles: a frame per decision, and the journal of what happened in between.

The device writes frames and journal of the chosen environments; ``Recorder`` fetches them every two seconds of play,
compares the voxels where something struck or died, and hands a chunk to each file. The other environments pay one
comparison per kernel.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from echelon.replay import frames, insight
from echelon.replay.columns import Ints
from echelon.replay.header import Team, build_header
from echelon.replay.schema import (
    CHUNK_SECONDS,
    CLOUDS,
    COLUMNS,
    PLACE,
    REASONS,
    ROUNDS,
    SUFFIX,
    WORLDS_FOLDER,
    EventKind,
)
from echelon.replay.writer import MatchWriter, world_payload
from echelon.sim.arsenal import CHASSIS, WEAPONS
from echelon.sim.backend import Program
from echelon.sim.batch import Batch
from echelon.sim.state import JOURNAL_VALUES
from echelon.sim.tables import duration_ticks

SPLASH_MARGIN = 1.5
"""An explosion lies a little before the cell that its round struck [vox]."""
Cells = tuple[NDArray[np.intp], ...]
COUNTERS = ("journal_count", "round_count", "cloud_count")
FETCHED = ("frames", "digests", "frame_count", "page_open", "journal", "round_log", "cloud_log", *COUNTERS)
HALF = np.array([c.size for c in CHASSIS], np.float64) / 2
ROUNDING = max(column.scale for column in COLUMNS if column.name in ("x", "y", "z"))
"""How far a recorded position may lie from the real one [vox]."""
SPLASH = np.array([w.splash_vox + SPLASH_MARGIN if w.splash_vox else 0.0 for w in WEAPONS])
"""How far from its recorded place a weapon's round may change voxels, by weapon [vox]."""
NO_EDITS = np.zeros((0, 3), np.int64)
IMPACT, KILL = int(EventKind.IMPACT), int(EventKind.KILL)
"""What changes voxels."""
AXES = ("x", "y", "z")
Policy = Literal["none", "acts", "values"]
"""Which policy columns are recorded."""
TICK, KIND, WHOM, WEAPON, WHERE = 0, 1, 3, 4, slice(7, 10)
"""Places of columns in rows of events."""
MOST_CHUNKS = 4
"""Chunks after which what the device noted must be fetched."""
FETCH_S = 0.1
"""Time between fetches while play is faster than that; many small chunks at once are cheaper [s]."""


class Stage(Protocol):
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
class Match:
    """What a recorder must be told about one environment."""

    name: str
    """Stem of the file."""
    teams: tuple[Team, Team] = (Team(name="blue"), Team(name="red"))
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
    digests: NDArray[np.uint32]
    cells: Cells
    """Voxels that changed: z, y, x."""
    kinds: NDArray[np.uint8]
    """Their materials."""


class _Track:
    """One environment being recorded: turns what was fetched into chunks."""

    def __init__(self, env: int, page: int, writer: MatchWriter, voxels: NDArray[np.uint8], cloud_ticks: int) -> None:
        self.env, self.page, self.writer, self._cloud_ticks = env, page, writer, cloud_ticks
        self.voxels = voxels
        """As they were when last compared ``[z, y, x]``."""
        self.seen = 0
        """Frames fetched."""
        self.chassis = np.array([mech["chassis"] for mech in writer.header["roster"]], np.int32)
        self._scale = np.array([c["scale"] for c in writer.header["columns"] if c["name"] in AXES])
        self._last: Ints | None = None
        self._rounds: Ints = np.zeros((0, len(ROUNDS.columns)), np.int64)
        self._clouds: Ints = np.zeros((0, len(CLOUDS.columns)), np.int64)
        """Those that may still live."""

    def write(self, fetched: _Fetched, stride: int) -> None:
        """Write the frames that were fetched as chunks of ``stride`` frames and the one before them."""
        rows, rounds = fetched.frames.astype(np.int64), fetched.rounds.astype(np.int64)
        events, first = fetched.events.astype(np.int64), fetched.first
        edits = self._edits(rows, events, fetched)
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
            tables = {"events": between(events, TICK, *ticks), "edits": between(edits, TICK, *ticks)}
            tables["rounds"] = between(rounds, 0, first + start - 1, first + end)
            tables["rounds"][:, 0] -= first + start
            tables["clouds"] = between(self._clouds, TICK, rows[start, TICK] - self._cloud_ticks, rows[end, TICK])
            fresh = start if start == 0 and not lead else start + 1  # the frame before belongs to the chunk before
            state = fetched.digests[fresh - lead : end + 1 - lead].tobytes()
            state += tables["clouds"].tobytes()  # edits are dated when they are fetched, so they are none of it
            self.writer.chunk(rows[start : end + 1], tables, state)
        self._clouds = between(self._clouds, TICK, rows[last, TICK] - self._cloud_ticks, rows[last, TICK])
        self._last = rows[last:]
        self._rounds = between(rounds, 0, first + last - 1, first + last)

    def _edits(self, rows: Ints, events: Ints, fetched: _Fetched) -> Ints:
        """Return the changed voxels as rows of tick, cell and material, in order of ticks."""
        if not len(fetched.kinds):
            return NO_EDITS
        height, _, width = self.voxels.shape
        z, y, x = fetched.cells
        cells = z + height * (x + width * y)
        edits = np.column_stack([self._when(rows, fetched.cells, events), cells, fetched.kinds]).astype(np.int64)
        return edits[np.lexsort((cells, edits[:, TICK]))]

    def _when(self, rows: Ints, cells: Sequence[NDArray[Any]], events: Ints) -> Ints:
        """Return the tick of each changed cell: that of the impact or death that explains it, else the last frame's."""
        z, y, x = cells
        ticks = np.full(len(z), rows[-1, TICK], np.int64)
        frame = self.writer.layout.split(rows[-1:])
        pos = np.stack([frame[name][0] for name in AXES], axis=1) * self._scale
        causes = events[causes_of(events)]
        low, high = reaches(causes, pos, self.chassis)
        cell = np.stack([x, y, z], axis=1)
        inside = ((cell >= low[:, None]) & (cell < high[:, None])).all(axis=2)
        newest = np.where(inside, np.arange(1, len(causes) + 1)[:, None], 0).max(axis=0, initial=0)
        return np.where(newest > 0, np.append(0, causes[:, TICK])[newest], ticks)


class Recorder:
    """Writes one file per environment of ``envs`` into ``folder``, worlds into its ``worlds``.

    Call ``begin`` after a reset, ``after_step`` after every step and ``finish`` at the end. Chunks are written as they
    fill, or a few at a time where play is so fast that they fill within ``FETCH_S``; a match is closed at the fetch
    after its end. ``outcomes`` maps the environments whose match is over to winner and reason. ``policy`` asks for the
    policy columns: "acts", or "values" where somebody writes estimates to the batch's ``value`` before each decision.
    """

    def __init__(
        self,
        stage: Stage,
        envs: Sequence[int],
        folder: Path,
        matches: Sequence[Match],
        *,
        embed_world: bool = False,
        policy: Policy = "none",
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
            self._views |= {name: stage.batch[name].numpy() for name in ("material", "tick", "pos")}

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
            voxels = self._row("material", env)[:z, :y, :x].copy()
            header = build_header(self.stage.batch, env, match.teams, match.map_seed, match.about, self.insight)
            path.unlink(missing_ok=True)
            writer = MatchWriter(path, header, world_payload(voxels), worlds=worlds)
            cloud_ticks = duration_ticks(header["cloud"]["life_s"], self.stage.batch.cfg.dt_sim)
            self._tracks.append(_Track(env, page, writer, voxels, cloud_ticks))

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
        events = self._logged(arrays["journal"][page, :, :JOURNAL_VALUES], int(arrays["journal_count"][page]))
        rounds = self._logged(arrays["round_log"][page], int(arrays["round_count"][page]))
        clouds = self._logged(arrays["cloud_log"][page], int(arrays["cloud_count"][page]))
        cells, kinds = self._changed(track, events)
        fetched = _Fetched(
            track.seen, arrays["frames"][page][at], events, rounds, clouds, arrays["digests"][page][at], cells, kinds
        )
        track.seen = count
        track.write(fetched, self._stride)

    def _logged(self, log: NDArray[np.int32], count: int) -> NDArray[np.int32]:
        self.dropped += max(0, count - len(log))
        return log[:count]

    def _changed(self, track: _Track, events: NDArray[np.int32]) -> tuple[Cells, NDArray[np.uint8]]:
        """Return the voxels that changed since the last fetch, and their materials.

        They change only by impacts and deaths, so only those places are compared, unless the journal is not whole. The
        voxels of an episode that another has replaced are gone.
        """
        causes = events[causes_of(events)]
        if not (self.dropped or len(causes)) or int(self._row("tick", track.env)) == 0:
            return (), np.zeros(0, np.uint8)
        before = track.voxels
        z, y, x = before.shape
        now = self._row("material", track.env)[:z, :y, :x]
        at: Cells
        if self.dropped:
            at = np.nonzero(now != before)
        else:
            at = self._touched(track, causes)
            at = tuple(axis[now[at] != before[at]] for axis in at)
        kinds = now[at]
        before[at] = kinds
        return at, kinds

    def _touched(self, track: _Track, causes: NDArray[np.int32]) -> Cells:
        """Return the cells z, y, x, each once, that impacts, explosions and wrecks may have changed."""
        z, y, x = track.voxels.shape
        low, high = reaches(causes, np.asarray(self._row("pos", track.env), np.float64), track.chassis)
        low, high = np.maximum(low, 0), np.minimum(high, (x, y, z))
        single = ((high - low) == 1).all(axis=1)
        at = low[single]
        cells = [(at[:, 2] * y + at[:, 1]) * x + at[:, 0]]
        for (x0, y0, z0), (x1, y1, z1) in zip(low[~single], high[~single], strict=True):
            layers, rows, columns = np.arange(z0, z1), np.arange(y0, y1), np.arange(x0, x1)
            cells.append(((layers[:, None, None] * y + rows[:, None]) * x + columns).reshape(-1))
        return np.unravel_index(np.unique(np.concatenate(cells)), track.voxels.shape)


def _insight(stage: Stage, policy: Policy) -> insight.Insight | None:
    if policy == "none":
        return None
    contacts = stage.batch["contact"].shape[2]
    return insight.Insight(
        actions=stage.action_names, terms=stage.term_names, contacts=contacts, estimates=policy == "values"
    )


def reaches(causes: NDArray[Any], pos: NDArray[np.float64], chassis: NDArray[np.int32]) -> tuple[Ints, Ints]:
    """Return the boxes of cells, x y z from and to ``[causes, 3]``, that impacts, explosions and deaths may change."""
    weapon = causes[:, WEAPON]
    radius = np.where(weapon >= 0, SPLASH[weapon], 0.0)[:, None]
    place = causes[:, WHERE] * PLACE
    low, high = np.floor(place - radius), np.floor(place + radius) + 1
    dead = np.flatnonzero(causes[:, KIND] == KILL)
    if len(dead):
        mechs = causes[dead, WHOM]
        half = HALF[chassis[mechs]] + ROUNDING
        low[dead], high[dead] = np.floor(pos[mechs] - half), np.ceil(pos[mechs] + half)
    return low.astype(np.int64), high.astype(np.int64)


def between(rows: Ints, column: int, after: int, until: int) -> Ints:
    """Return a copy of the rows whose column lies above ``after`` and up to ``until``; rows ascend in it."""
    start, end = np.searchsorted(rows[:, column], (after, until), side="right")
    return rows[start:end].copy()


def causes_of(events: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which events change voxels."""
    return (events[:, KIND] == IMPACT) | (events[:, KIND] == KILL)


def chunk_frames(dt_sim: float, decision_repeat: int) -> int:
    """Return the decisions of a chunk."""
    return max(1, round(CHUNK_SECONDS / (dt_sim * decision_repeat)))

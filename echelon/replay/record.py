"""Recording of matches: a frame per environment step, and the events in between.

The device writes frames, events and changed voxels of the recorded environments; ``Recorder`` fetches them every two
seconds of play and writes a chunk to each file. Environments that are not recorded cost one comparison per kernel.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from echelon.actions import CHANCES
from echelon.replay import frames, policy_columns, schema
from echelon.replay.columns import Ints, Layout
from echelon.replay.extra_records import pack_orders, pack_seat, pack_state
from echelon.replay.header import TeamInfo, build_header
from echelon.replay.writer import MatchWriter, world_payload
from echelon.sim.backend import Program
from echelon.sim.batch import Batch
from echelon.sim.state import JOURNAL_VALUES
from echelon.sim.tables import duration_ticks
from echelon.version import SIM_VERSION

LOGS = ("journal", "round_log", "cloud_log", "edit_log")
COUNTERS = ("journal_count", "round_count", "cloud_count", "edit_count")
FETCHED = ("frames", "digests", "frame_count", "page_open", *LOGS, *COUNTERS)
PolicyColumnMode = Literal["none", "actions", "acts", "values"]
"""Recorded policy columns: none, actions alone, all except value estimates, or all."""
TICK, CELL, MATERIAL = 0, 1, 2
"""Column indices of edit rows; the tick is also the first column of frames, events and clouds."""
MAX_CHUNKS_PER_FETCH = 4
FETCH_INTERVAL_S = 0.1
"""Minimum time between fetches [s]; fetching several chunks at once is cheaper."""


class RecordedEngine(Protocol):
    """Interface of a recorded engine, implemented by ``echelon.env.engine.Engine``."""

    batch: Batch
    action_names: tuple[str, ...]
    term_names: tuple[str, ...]

    def record(self, envs: Sequence[int], frame: Program = ()) -> None:
        """Record events of these environments and run ``frame`` at the end of each environment step."""

    def run(self, name: str) -> None:
        """Run a program by name; ``frame`` is the program given to ``record``."""

    def match_state(self, env: int) -> Mapping[str, NDArray[Any]]: ...


@dataclass(frozen=True, kw_only=True)
class MatchInfo:
    """Metadata of the match in one recorded environment."""

    name: str
    teams: tuple[TeamInfo, TeamInfo] = (TeamInfo(name="blue"), TeamInfo(name="red"))
    map_seed: int = -1
    """Seed of the map; -1 uses the episode's seed."""
    about: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the header, such as run, update and global_step."""
    flown: tuple[tuple[str, str], ...] = ()
    """Name and checkpoint of each mech's pilot, where a team may have several."""


@dataclass(frozen=True)
class _Fetched:
    """Frames and logs of one environment since the last fetch."""

    first_frame: int
    frames: NDArray[np.int32]
    events: NDArray[np.int32]
    rounds: NDArray[np.int32]
    clouds: NDArray[np.int32]
    edits: NDArray[np.int32]
    digests: NDArray[np.uint32]


class _Track:
    """One recorded environment: turns fetched frames and logs into chunks."""

    def __init__(
        self, env: int, page: int, writer: MatchWriter, cells: NDArray[np.uint8], cloud_ticks: int, first_tick: int,
        ordered: NDArray[np.int32],
    ) -> None:  # fmt: skip
        self.env, self.page, self.writer, self._cloud_ticks = env, page, writer, cloud_ticks
        self.first_tick = first_tick
        """Tick at which the recording began, 0 unless it continues a match."""
        self.cells = cells
        """Material of each cell after the fetched edits."""
        self.fetched_frames = 0
        self._last_frame: Ints | None = None
        self._seats: list[int] = []
        self._inputs: list[NDArray[np.int8]] = []
        """Inputs of human pilots that are not written yet, ``[ticks, S, A]`` each, and their first tick."""
        self._inputs_tick = 0
        self.ordered = ordered
        """Decision at which each mech got the order that is known ``[M]``."""
        self.orders: list[list[int]] = []
        """Orders that are not written yet: tick, mech, order, mech named."""
        self._rounds: Ints = np.zeros((0, len(schema.ROUNDS.columns)), np.int64)
        self._clouds: Ints = np.zeros((0, len(schema.CLOUDS.columns)), np.int64)
        """Clouds that may still exist."""

    def add_inputs(self, tick: int, seats: Sequence[int], inputs: NDArray[np.int8]) -> None:
        """Keep the inputs ``[ticks, S, A]`` of human pilots from ``tick`` on for the next SEAT record."""
        if list(seats) != self._seats or tick != self._inputs_tick + sum(map(len, self._inputs)):
            self.write_inputs()
            self._seats, self._inputs_tick = list(seats), tick
        self._inputs.append(inputs.copy())

    def write_inputs(self) -> None:
        if self._inputs and self._seats:
            actions = np.concatenate(self._inputs)
            last = self._inputs_tick + len(actions)
            self.writer.seat((self._inputs_tick, last), pack_seat(self._seats, actions))
            self._inputs_tick = last
        self._inputs = []
        if self.orders:
            rows = np.array(self.orders, np.int32)
            self.writer.orders((int(rows[0, 0]), int(rows[-1, 0])), pack_orders(rows))
            self.orders = []

    def write(self, fetched: _Fetched, stride: int) -> None:
        """Write the fetched frames as chunks of ``stride`` frames plus the frame before them."""
        self.write_inputs()
        rows, rounds = fetched.frames.astype(np.int64), fetched.rounds.astype(np.int64)
        events, first = fetched.events.astype(np.int64), fetched.first_frame
        edits = fetched.edits.astype(np.int64)
        edits = edits[np.lexsort((edits[:, CELL], edits[:, TICK]))]
        if len(fetched.clouds):
            clouds = np.concatenate([self._clouds, fetched.clouds.astype(np.int64)])
            self._clouds = clouds[np.lexsort(clouds.T[::-1])]
        overlap = 0 if self._last_frame is None else 1
        if self._last_frame is not None:
            rows, first = np.concatenate([self._last_frame, rows]), first - 1
            rounds = np.concatenate([self._rounds, rounds]) if len(self._rounds) else rounds
        last = len(rows) - 1
        for start in range(0, max(last, 1), stride):
            end = min(start + stride, last)
            ticks = rows[start, TICK] if start else -1, rows[end, TICK]
            tables = {"events": rows_between(events, TICK, *ticks), "edits": rows_between(edits, TICK, *ticks)}
            tables["rounds"] = rows_between(rounds, 0, first + start - 1, first + end)
            tables["rounds"][:, 0] -= first + start
            tables["clouds"] = rows_between(self._clouds, TICK, rows[start, TICK] - self._cloud_ticks, rows[end, TICK])
            # the first frame repeats the last frame of the previous chunk
            new = start if start == 0 and not overlap else start + 1
            digest = fetched.digests[new - overlap : end + 1 - overlap].tobytes()
            digest += tables["clouds"].tobytes()
            self.writer.chunk(rows[start : end + 1], tables, digest)
        self._clouds = rows_between(self._clouds, TICK, rows[last, TICK] - self._cloud_ticks, rows[last, TICK])
        self._last_frame = rows[last:]
        self._rounds = rows_between(rounds, 0, first + last - 1, first + last)


class Recorder:
    """Records environments ``envs`` into one file each in ``folder``; worlds are stored in its folder ``worlds``.

    Call ``begin`` after a reset, or after the state of a match was loaded, ``after_step`` after every environment step
    and ``finish`` at the end. ``outcomes`` maps environments whose match has ended to winner and reason. ``policy``
    "actions" adds the actions and every ``STATE_SECONDS`` the exact state, from which any moment can be played on;
    "acts" adds the other policy columns; "values" adds value estimates too, which the caller writes to the array
    ``value`` of the batch before each step. A ``lossy`` recorder goes on where the disk takes no more: ``problem`` is
    then the reason, and the files end there.
    """

    def __init__(
        self,
        engine: RecordedEngine,
        envs: Sequence[int],
        folder: Path,
        matches: Sequence[MatchInfo],
        *,
        embed_world: bool = False,
        policy: PolicyColumnMode = "none",
        lossy: bool = False,
    ) -> None:
        if len(envs) != len(matches) or not envs:
            raise ValueError(f"matches has {len(matches)} entries, expected one for each of {len(envs)} environments")
        self.engine, self.envs, self.folder = engine, list(envs), Path(folder)
        self.matches, self._embed, self._lossy = list(matches), embed_world, lossy
        self.outcomes: dict[int, tuple[int, str]] = {}
        self.dropped = 0
        """Rows of journals and logs that were dropped because the log was full."""
        self._tracks: list[_Track] = []
        self._writers: list[MatchWriter] = []
        """Writers of all matches, also of those that have ended."""
        cfg = engine.batch.cfg
        self._steps = 0
        self._fetched_at, self._fetched_step = 0.0, 0
        self.policy_columns = _policy_columns(engine, policy)
        extra = self.policy_columns.columns(engine.batch.num_mechs) if self.policy_columns else ()
        width = Layout([column.to_header() for column in (*schema.COLUMNS, *extra)], engine.batch.num_mechs).width
        self.chunk_frames = chunk_frames(cfg.dt_sim, cfg.decision_repeat, width)
        """Environment steps per chunk."""
        self.state_ticks = round(schema.STATE_SECONDS / (cfg.dt_sim * cfg.decision_repeat)) * cfg.decision_repeat
        """Ticks between two states; 0 where steps are longer than twice their interval."""
        frames.add_arrays(engine.batch, len(self.envs), (MAX_CHUNKS_PER_FETCH + 1) * self.chunk_frames, extra)
        if self.policy_columns:
            policy_columns.add_constants(engine.batch, self.policy_columns)
        engine.record(self.envs, frames.launches(policy_columns.launches() if self.policy_columns else ()))
        on_host = engine.batch.device == "cpu"
        self._views = {name: engine.batch[name].numpy() for name in FETCHED} if on_host else {}
        """Views of the simulator's arrays on a CPU; empty on a GPU."""
        if on_host:
            self._views |= {name: engine.batch[name].numpy() for name in ("material", "tick", "order_since")}

    @property
    def paths(self) -> list[Path]:
        return [self.folder / f"{match.name}{schema.SUFFIX}" for match in self.matches]

    @property
    def headers(self) -> list[dict[str, Any]]:
        return [track.writer.header for track in self._tracks]

    @property
    def problem(self) -> str:
        """Why a lossy recorder writes no more of a match, in one line; "" while it does."""
        return next((writer.problem for writer in self._writers if writer.problem), "")

    def begin(self) -> None:
        """Open the files and record the first frame; call it directly after a reset."""
        worlds = None if self._embed else self.folder / schema.WORLDS_FOLDER
        self.engine.run("frame")
        for page, (env, match, path) in enumerate(zip(self.envs, self.matches, self.paths, strict=True)):
            x, y, z = (int(v) for v in self._row("size", env))
            tick = int(self._row("tick", env))
            world = self.engine.batch.row("bank_material", int(self._row("map_slot", env)))[:z, :y, :x]
            cells = cells_in_order(self._row("material", env)[:z, :y, :x])
            header = build_header(
                self.engine.batch, env, match.teams, match.map_seed, match.about, self.policy_columns, match.flown
            )
            path.unlink(missing_ok=True)
            writer = MatchWriter(path, header, world_payload(world), worlds=worlds, lossy=self._lossy)
            self._writers.append(writer)
            if tick > 0:
                edited = np.flatnonzero(cells != cells_in_order(world))
                writer.start_edited(np.column_stack([edited, cells[edited]]).astype(np.int64))
            cloud_ticks = duration_ticks(header["cloud"]["life_s"], self.engine.batch.cfg.dt_sim)
            ordered = self._row("order_since", env).copy()
            ordered[:] = ordered if tick else -1
            self._tracks.append(_Track(env, page, writer, cells, cloud_ticks, tick, ordered))
        self._write_states()

    def add_inputs(self, seats: Sequence[int], inputs: NDArray[np.int8]) -> None:
        """Record the inputs ``[ticks, S, A]`` of human pilots in the step just played; call it before ``after_step``.

        They are those of every recorded match.
        """
        for track in self._tracks:
            track.add_inputs(int(self._row("tick", track.env)) - len(inputs), seats, inputs)

    def after_step(self) -> None:
        self._steps += 1
        self._add_orders()
        self._fetch(self._ended())
        self._write_states()
        if self._steps % self.chunk_frames == 0:
            full = self._steps - self._fetched_step >= MAX_CHUNKS_PER_FETCH * self.chunk_frames
            if full or time.monotonic() - self._fetched_at >= FETCH_INTERVAL_S:
                self._fetched_at, self._fetched_step = time.monotonic(), self._steps
                self._fetch(self._tracks)

    def finish(self) -> list[Path]:
        self._fetch(self._tracks)
        for track in self._tracks:
            track.writer.close()
        self._tracks = []
        self.engine.record([])
        return self.paths

    def abandon(self) -> None:
        """Close the files without an index; they can be read up to the last complete chunk."""
        for track in self._tracks:
            track.writer.abandon()
        self._tracks = []
        self.engine.record([])

    def _write_states(self) -> None:
        if self.policy_columns is None or not self.state_ticks:
            return
        for track in self._tracks:
            tick = int(self._row("tick", track.env))
            if tick > 0 and (tick % self.state_ticks == 0 or track.first_tick == tick):
                track.writer.state(tick, pack_state(self.engine.match_state(track.env), SIM_VERSION))

    def _add_orders(self) -> None:
        """Keep the orders that mechs got before the step just played, or in it, for the next ORDERS record."""
        for track in self._tracks:
            since = self._row("order_since", track.env)
            if self.policy_columns is None or np.array_equal(since, track.ordered) or not self._row("tick", track.env):
                continue
            kind, named = (self._row(name, track.env) for name in ("order_kind", "order_mech"))
            repeat = self.engine.batch.cfg.decision_repeat
            mechs = np.flatnonzero((since != track.ordered) & (since >= 0)).tolist()
            track.orders += [[int(since[m]) * repeat, m, int(kind[m]), int(named[m])] for m in mechs]
            track.ordered = since.copy()

    def _row(self, name: str, env: int) -> NDArray[Any]:
        """Return the row of an environment: a view on a CPU, a copy from a GPU."""
        if name in self._views:
            return self._views[name][env]
        return self.engine.batch[name][env : env + 1].numpy()[0]

    def _ended(self) -> list[_Track]:
        """Return the matches that have ended; they are fetched before later steps change their maps."""
        is_open = self._views["page_open"] if self._views else self.engine.batch["page_open"].numpy()
        return [track for track in self._tracks if not is_open[track.page]]

    def _fetch(self, tracks: Sequence[_Track]) -> None:
        if not tracks:
            return
        batch = self.engine.batch
        arrays = self._views or {name: batch[name].numpy() for name in FETCHED}
        for track in tracks:
            self._write_track(track, arrays)
            for name in COUNTERS:
                if self._views:  # slicing the Warp array would take longer than the rest of this loop
                    self._views[name][track.page] = 0
                else:
                    batch[name][track.page : track.page + 1].zero_()
        for track in [track for track in tracks if not arrays["page_open"][track.page]]:
            winner = int(self._row("done_winner", track.env))
            reason = schema.REASONS[int(self._row("done_reason", track.env))]
            self.outcomes[track.env] = winner, reason
            track.writer.close(winner=winner, reason=reason)
            self._tracks.remove(track)

    def _write_track(self, track: _Track, arrays: Mapping[str, NDArray[Any]]) -> None:
        page, count = track.page, int(arrays["frame_count"][track.page])
        if count == track.fetched_frames:
            return
        ring_rows = np.arange(track.fetched_frames, count) % arrays["frames"].shape[1]
        logs = (self._log_rows(arrays[log][page], int(arrays[n][page])) for log, n in zip(LOGS, COUNTERS, strict=True))
        events, rounds, clouds, edits = logs
        rows, digests = arrays["frames"][page][ring_rows], arrays["digests"][page][ring_rows]
        edits = self._complete_edits(track, edits, int(arrays["edit_count"][page]), int(rows[-1, TICK]))
        fetched = _Fetched(track.fetched_frames, rows, events[:, :JOURNAL_VALUES], rounds, clouds, edits, digests)
        track.fetched_frames = count
        track.write(fetched, self.chunk_frames)

    def _log_rows(self, log: NDArray[np.int32], count: int) -> NDArray[np.int32]:
        self.dropped += max(0, count - len(log))
        return log[:count]

    def _complete_edits(self, track: _Track, edits: NDArray[np.int32], count: int, tick: int) -> NDArray[np.int32]:
        """Return the edits; if the log was full, add the map's other changes with tick ``tick``.

        This is not possible once the next episode has replaced the map.
        """
        track.cells[edits[:, CELL]] = edits[:, MATERIAL]
        if count <= len(edits) or int(self._row("tick", track.env)) == 0:
            return edits
        x, y, z = track.writer.header["world"]["size"]
        current = cells_in_order(self._row("material", track.env)[:z, :y, :x])
        changed = np.flatnonzero(current != track.cells)
        track.cells[changed] = current[changed]
        added = np.column_stack([np.full(len(changed), tick), changed, current[changed]]).astype(np.int32)
        return np.concatenate([edits, added])


def cells_in_order(material: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return a copy of materials ``[z, y, x]`` in the order of cell indices: z fastest, y slowest."""
    return material.transpose(1, 2, 0).flatten()


def _policy_columns(engine: RecordedEngine, policy: PolicyColumnMode) -> policy_columns.PolicyColumns | None:
    if policy == "none":
        return None
    return policy_columns.PolicyColumns(
        actions=engine.action_names,
        terms=engine.term_names,
        contacts=engine.batch["contact"].shape[2],
        estimates=policy == "values",
        chances=CHANCES,
        only_actions=policy == "actions",
    )


def rows_between(rows: Ints, column: int, after: int, until: int) -> Ints:
    """Return a copy of the rows with ``after`` < value <= ``until`` in ``column``, by which the rows are sorted."""
    start, end = np.searchsorted(rows[:, column], (after, until), side="right")
    return rows[start:end].copy()


def chunk_frames(dt_sim: float, decision_repeat: int, width: int) -> int:
    """Return the environment steps per chunk whose frames have ``width`` values.

    Frames fill at most half of the largest chunk; the rest is for its tables.
    """
    most = min(schema.MAX_FRAMES, schema.MAX_VALUES // (2 * width)) - 1
    return max(1, min(most, round(schema.CHUNK_SECONDS / (dt_sim * decision_repeat))))

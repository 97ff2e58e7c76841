"""Plays a recorded match again from its actions, up to any moment.

A match is started from its seeds, or from the nearest STATE at or before the moment, and the recorded actions are
played up to the moment. Scripted pilots run along, since they remember what they perceived, and their actions are
replaced by the recorded ones. A state that is damaged or does not fit costs only the time to play from an earlier one.
"""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, is_dataclass, replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from echelon.actions import Order
from echelon.agents import heuristic
from echelon.closing import Closing
from echelon.config import EnvConfig
from echelon.env.engine import Engine
from echelon.env.engine_state import EngineStateMismatch
from echelon.env.match_state import load_match_state, save_match_state
from echelon.env.seats import Seats
from echelon.gen.bank import build_bank
from echelon.replay.codec import RecordHead, ReplayError, world_hash
from echelon.replay.extra_records import read_orders, read_seats, read_state, state_heads
from echelon.replay.reader import Replay, action_entries, require_actions
from echelon.replay.schema import MechFlag
from echelon.replay.writer import world_payload
from echelon.sim.arsenal import mechanics_of
from echelon.sim.state import STATE, WORLD
from echelon.version import SIM_VERSION

ACTION = "action"
MAX_SEEDS = {"seed": 2**31 - 1, "map_seed": 2**63 - 1}
POSITION_STEPS = 16.0
"""Quantisation steps of a recorded position per voxel."""
CONDITION = ("hp", "leg_hp", "heat", "stability")
"""Recorded condition of a mech, in whole units."""
NOT_STATE = frozenset(
    ("env_index", "episode", "forced_seed", "forced_slot", "withhold", "map_slot", "packs", "order")
)  # fmt: skip
"""Indices and settings of later episodes, and the movement order, which each tick draws again."""
ROUND_FIELDS = ("round_pos", "round_vel", "round_age", "round_target")
"""Fields of a round, meaningless where none flies."""
CLOUD_FIELDS = ("cloud_pos",)
"""Fields of a smoke cloud, meaningless where there is none."""
COMPARED = frozenset((*WORLD, *STATE)) - NOT_STATE - frozenset((*ROUND_FIELDS, *CLOUD_FIELDS))
"""Arrays that are compared with those of a STATE."""


class RebuiltMoment(NamedTuple):
    """A moment of a recorded match that was reconstructed."""

    tick: int
    """Its tick, the end of an environment step."""
    from_tick: int
    """Tick from which actions were played: the match's first, or that of a STATE."""
    notes: tuple[str, ...]
    """Why later states were not used, one line each."""


def require_playable(recorded: Replay) -> EnvConfig:
    """Return the configuration of a match; ``ValueError`` where its actions are missing or play another match today."""
    header, name = recorded.header, recorded.path.name
    actions = len(require_actions(recorded))
    if (version := header["sim_version"]) != SIM_VERSION:
        recorded_on = datetime.fromtimestamp(header["created"], UTC)
        raise ValueError(
            f"replay {name!r} was recorded with simulation version {version}, expected {SIM_VERSION}: its actions play "
            f"another match today; verify it with the Echelon of {recorded_on:%Y-%m-%d}, when it was recorded"
        )
    cfg = config_from_header(header)
    column = next((c for c in header["columns"] if c["name"] == ACTION), {})
    if (column.get("per"), column.get("k")) != ("mech", actions):
        raise ValueError(f"replay {name!r} has no column of {actions} actions per mech, which its header lists")
    if header["mechs"] != cfg.num_mechs:
        raise ValueError(f"replay {name!r} has {header['mechs']} mechs, its configuration {cfg.num_mechs}")
    largest = cfg.world.size_x, cfg.world.size_y, cfg.world.size_z
    if any(size > limit for size, limit in zip(header["world"]["size"], largest, strict=True)):
        raise ValueError(f"replay {name!r} has a map of {header['world']['size']} voxels, its configuration {largest}")
    for key, limit in MAX_SEEDS.items():
        if not 0 <= header.get(key, -1) <= limit:
            raise ValueError(f"replay {name!r} has {key} {header.get(key)}, expected 0 to {limit}")
    return cfg


def config_from_header(header: Mapping[str, Any]) -> EnvConfig:
    """Return the environment configuration of a replay header, which stores differences from the default."""
    cfg: Any = EnvConfig()
    for key, value in header["config"].items():
        cfg = _with(cfg, key.split("."), value, key)
    return cfg


def _with(part: Any, names: list[str], value: Any, key: str) -> Any:
    if not is_dataclass(part) or names[0] not in asdict(part):  # type: ignore[arg-type]
        raise ValueError(f"replay config key {key!r} is unknown, expected a field of this version")
    old = getattr(part, names[0])
    if len(names) > 1:
        return replace(part, **{names[0]: _with(old, names[1:], value, key)})  # type: ignore[type-var]
    return replace(part, **{names[0]: tuple(value) if isinstance(old, tuple) else value})  # type: ignore[type-var]


def open_match(
    recorded: Replay,
    *,
    envs: int = 1,
    device: str = "cpu",
    threads: int = 1,
    changes: Mapping[str, float] | None = None,
    prepare: Callable[[Engine], object] = lambda engine: None,
) -> Engine:
    """Return an engine with the match in every environment at tick 0, with its scripted pilots.

    ``changes`` are parameter overrides besides those of the match. ``prepare`` is called before the reset. The caller
    closes the engine. Raises ``ValueError`` for a match that cannot be played.
    """
    cfg, header = require_playable(recorded), recorded.header
    bank = build_bank(
        cfg.world, [int(header["map_seed"])], num_packs=cfg.num_packs, zone_radius_vox=cfg.zone_radius_vox
    )
    engine = Engine(
        cfg,
        envs,
        bank,
        device=device,
        threads=threads,
        autoreset=False,
        changes=[{**header["changes"], **(changes or {})}] * envs,
        pilots=heuristic.install,
    )
    try:
        batch = engine.batch
        batch.set("forced_seed", np.full(envs, header["seed"], np.int32))
        batch.set("forced_slot", np.zeros(envs, np.int32))
        batch.disable_mechanics([mechanics_of(header["without"])] * envs)
        packs = {mech["pack"] for mech in header["roster"] if mech["team"] == 0 and mech["present"]}
        batch.set("packs", np.full(envs, max(1, len(packs)), np.int32))
        script, probability = recorded_pilots(recorded)
        batch.set("script", np.repeat(script[None], envs, axis=0))
        batch["weapon_prob"].fill_(probability)
        prepare(engine)
        engine.reset()
        _check_start(recorded, engine)
    except BaseException:
        engine.close()
        raise
    return engine


def recorded_pilots(recorded: Replay) -> tuple[NDArray[np.int32], float]:
    """Return the scripted pilot of each mech ``[M]``, 0 none, and the probability that their triggers take effect."""
    header = recorded.header
    pilots = header.get("pilots")
    if pilots is None:
        return np.zeros(header["mechs"], np.int32), 1.0
    script = pilots["script"]
    if len(script) != header["mechs"] or max(script) > len(heuristic.SKILLS):
        raise ValueError(f"replay {recorded.path.name!r} has pilots that this version does not have")
    return np.array(script, np.int32), float(pilots["weapon_prob"])


class Step(NamedTuple):
    """What led to an environment step of a recording."""

    actions: NDArray[np.float32]
    """Actions ``[M, A]``, or ``[E, M, A]``; of a human pilot those of its last tick."""
    seats: tuple[int, ...] = ()
    inputs: NDArray[np.int8] | None = None
    """Their inputs ``[ticks, S, A]``."""
    mechs: tuple[int, ...] | None = None
    """Mechs that repeat it while their pilots fly the others; None all."""
    orders: tuple[tuple[int, ...], ...] = ()
    """Orders given before it: mech, order, mech named."""

    def of(self, mechs: Sequence[int]) -> "Step":
        """Return the step that only these mechs repeat."""
        seats = [seat for seat in self.seats if seat in mechs]
        inputs = None if self.inputs is None or not seats else self.inputs[:, [self.seats.index(s) for s in seats]]
        return Step(self.actions, tuple(seats), inputs, tuple(mechs), self.orders)


def recorded_steps(recorded: Replay, after: int, until: int) -> Iterator[Step]:
    """Yield the environment steps between the ticks ``after`` and ``until``; ``ValueError`` for unusable inputs."""
    header = recorded.header
    spec = next(column for column in header["columns"] if column["name"] == ACTION)
    repeat, inputs, orders = int(header["frame_ticks"]), recorded_inputs(recorded), read_orders(recorded)
    for number, ref in enumerate(recorded.chunks):
        if ref.tick1 <= after:
            continue
        if ref.tick0 >= until:
            return
        chunk = recorded.chunk(number)
        ends = chunk.ticks[1:]
        within = (ends > after) & (ends <= until)
        rows = chunk.frames[ACTION][1:][within]
        for end, row in zip(ends[within].tolist(), rows.astype(np.float32) * np.float32(spec["scale"]), strict=True):
            seats, levels = inputs.get(end - repeat, ((), None))
            given = tuple(map(tuple, orders[orders[:, 0] == end - repeat, 1:].tolist()))
            yield Step(row.reshape(header["mechs"], int(spec["k"])), seats, levels, orders=given)


def recorded_inputs(recorded: Replay) -> dict[int, tuple[tuple[int, ...], NDArray[np.int8]]]:
    """Return seats and inputs of human pilots by the first tick of each environment step that has any.

    Raises ``ValueError`` for a damaged SEAT record and for one that does not fit the match.
    """
    header, name, found = recorded.header, recorded.path.name, {}
    first, repeat = (recorded.chunks[0].tick0 if recorded.chunks else 0), int(header["frame_ticks"])
    for record in read_seats(recorded):
        ticks, _, width = record.actions.shape
        if width != len(action_entries(header)) or max(record.seats) >= header["mechs"]:
            raise ValueError(f"replay {name!r} has inputs of other mechs or actions at tick {record.tick}")
        if ticks % repeat or record.tick < first or (record.tick - first) % repeat:
            raise ValueError(f"replay {name!r} has inputs at tick {record.tick} that are no whole environment steps")
        for step in range(0, ticks, repeat):
            found[record.tick + step] = (tuple(record.seats), record.actions[step : step + repeat])
    return found


def play_step(engine: Engine, step: Step) -> None:
    """Play one recorded environment step in every environment; scripted pilots of mechs that repeat it only watch."""
    if step.orders:
        rows = [(m, (Order(order), named)) for m, order, named in step.orders]
        engine.give_orders({(e, m): order for e in range(engine.num_envs) for m, order in rows})
    engine.run("pilots")
    mechs = slice(None) if step.mechs is None else list(step.mechs)
    actions = engine.batch.numpy("actions")
    actions[:, mechs] = step.actions[..., mechs, :]
    engine.batch.set("actions", actions)
    if step.inputs is None:
        engine.step(program="after_pilots")
    else:
        Seats(engine, step.seats).step(step.inputs)


def moment_tick(recorded: Replay, tick: int) -> int:
    """Return the tick at which the last environment step up to ``tick`` ends; ``ValueError`` outside the match."""
    first = recorded.chunks[0].tick0 if recorded.chunks else 0
    if not first <= tick <= recorded.ticks:
        hz = float(recorded.header["tick_hz"])
        raise ValueError(
            f"moment is at {tick / hz:g} s, expected {first / hz:g} to {recorded.ticks / hz:g} s, the recorded match"
        )
    return first + (tick - first) // recorded.header["frame_ticks"] * recorded.header["frame_ticks"]


def load_nearest_state(recorded: Replay, engine: Engine, tick: int, *, earliest: bool = False) -> tuple[int, list[str]]:
    """Load the last usable STATE at or before ``tick``; return its tick, 0 without any, and why others were not used.

    ``earliest`` takes none but the state at which the recording begins. Raises ``ValueError`` for a recording that
    begins with a state which cannot be used.
    """
    first, notes = (recorded.chunks[0].tick0 if recorded.chunks else 0), []
    last = first if earliest else tick
    for head in reversed([head for head in state_heads(recorded) if first <= head.tick0 <= last]):
        try:
            state = read_state(recorded, head)
            if state.sim_version != SIM_VERSION:
                raise ReplayError(f"it has simulation version {state.sim_version}, expected {SIM_VERSION}")
            if state.arrays.get("tick", np.zeros(1)).tolist() != head.tick0:
                raise ReplayError("it has another tick inside")
            load_match_state(engine, state.arrays)
        except (ReplayError, EngineStateMismatch) as error:
            notes.append(f"the state at tick {head.tick0} is not used: {error}")
        else:
            return head.tick0, notes
    if first > 0:
        reason = notes[-1] if notes else "it has no state there"
        raise ValueError(f"replay {recorded.path.name!r} begins at tick {first} and cannot be played: {reason}")
    return 0, notes


class ReplayedMatch(Closing):
    """A recorded match in every environment of an engine, at any moment; a context manager.

    ``options`` are those of ``open_match``. Raises ``ValueError`` for a match that cannot be played.
    """

    def __init__(self, recorded: Replay, **options: Any) -> None:
        self.recorded = recorded
        self.engine = open_match(recorded, **options)

    def go_to(
        self,
        tick: int,
        *,
        from_start: bool = False,
        seen_ticks: int = 0,
        before_step: Callable[[Engine], object] = lambda engine: None,
    ) -> RebuiltMoment:
        """Put every environment into the exact state after the last environment step that ends at or before ``tick``.

        ``from_start`` plays from the recording's first tick, else at least ``seen_ticks`` are played where the match
        is that old. ``before_step`` is called before each step, so that policies see these observations. Raises
        ``ValueError`` for a moment outside the match, and for actions that play another match.
        """
        moment = moment_tick(self.recorded, tick)
        self.engine.clear()
        self.engine.reset()
        state_tick = max(moment - seen_ticks, self.recorded.chunks[0].tick0) if self.recorded.chunks else 0
        from_tick, notes = load_nearest_state(self.recorded, self.engine, state_tick, earliest=from_start)
        states = {head.tick0: head for head in state_heads(self.recorded) if from_tick < head.tick0 <= moment}
        repeat = int(self.recorded.header["frame_ticks"])
        for number, step in enumerate(recorded_steps(self.recorded, from_tick, moment), start=1):
            before_step(self.engine)
            play_step(self.engine, step)
            if head := states.get(from_tick + number * repeat):
                check_state(self.recorded, self.engine, head)
        check_frame(self.recorded, self.engine, moment)
        return RebuiltMoment(moment, from_tick, tuple(notes))

    def close(self) -> None:
        self.engine.close()


def check_state(recorded: Replay, engine: Engine, head: RecordHead) -> None:
    """Raise ``ValueError`` unless the match that is played has the state of a STATE record, bit for bit.

    A record that is damaged or of another version is no measure.
    """
    try:
        state = read_state(recorded, head)
    except ReplayError:
        return
    if state.sim_version != SIM_VERSION:
        return
    played = save_match_state(engine, 0)
    for name in sorted(COMPARED & state.arrays.keys() & played.keys()):
        if not np.array_equal(state.arrays[name], played[name]):
            raise _another_match(recorded, head.tick0, f": {name} is not that of its state")


def check_frame(recorded: Replay, engine: Engine, tick: int) -> None:
    """Raise ``ValueError`` unless every mech lives where and as the recording has it at ``tick``."""
    number = next((n for n, ref in enumerate(recorded.chunks) if ref.tick0 <= tick <= ref.tick1), None)
    if number is None:
        return
    chunk = recorded.chunk(number)
    frame = int(np.searchsorted(chunk.ticks, tick))
    batch = engine.batch
    alive = batch.numpy("alive")[0] == 1
    position = np.rint(batch.numpy("pos")[0] * batch.numpy("present")[0][:, None] * POSITION_STEPS)
    found = np.stack([chunk.frames[axis][frame] for axis in "xyz"], axis=1)
    living = (chunk.frames["flags"][frame] & MechFlag.ALIVE) != 0
    if int(chunk.ticks[frame]) != tick or (living != alive).any() or (np.abs(position - found) > 0).any():
        raise _another_match(recorded, tick)
    for name in CONDITION:
        if (np.abs(batch.numpy(name)[0] * alive - chunk.frames[name][frame]) > 1.0).any():
            raise _another_match(recorded, tick, f": {name} is not that of its frame")


def parent_of(recorded: Replay, tick: int, **changed: Any) -> dict[str, Any]:
    """Return the entry ``parent`` for the header of a match that continues a recording from a tick."""
    sha256 = hashlib.sha256(recorded.raw_bytes(0, recorded.recorded_bytes)).hexdigest()
    return {"file": recorded.path.name, "sha256": sha256, "tick": tick, **changed}


def _another_match(recorded: Replay, tick: int, how: str = "") -> ValueError:
    return ValueError(
        f"replay {recorded.path.name!r} plays another match from its actions at tick {tick}{how}; "
        "verify it with: replay verify"
    )


def _check_start(recorded: Replay, engine: Engine) -> None:
    header, actions = recorded.header, len(action_entries(recorded.header))
    if engine.num_mechs != header["mechs"] or engine.action_dim != actions:
        raise ValueError(
            f"replay {recorded.path.name!r} has {header['mechs']} mechs with {actions} actions, its configuration "
            f"{engine.num_mechs} with {engine.action_dim}"
        )
    x, y, z = header["world"]["size"]
    sha256 = world_hash(world_payload(engine.batch.numpy("material")[0][:z, :y, :x]))
    if sha256 != header["world"]["sha256"]:
        raise ValueError(
            f"map of seed {header['map_seed']} has hash {sha256[:12]}, expected {header['world']['sha256'][:12]} as in "
            f"replay {recorded.path.name!r}: this version generates it differently"
        )

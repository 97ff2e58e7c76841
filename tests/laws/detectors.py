"""Detectors of faulty states in a match: mechs that are stuck, astray, floating or overlapping, and accidental deaths.

``play_and_detect`` plays matches of scripted pilots and returns every fault with the seed, tick and mech.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from echelon.agents import heuristic
from echelon.arena import match_statistics as statistics
from echelon.config import EnvConfig
from echelon.env.engine import Engine
from echelon.gen.bank import stack_maps
from echelon.gen.generate import generate
from echelon.sim.arsenal import CHASSIS, Chassis, Weapon
from echelon.sim.world import BLOCKS_MOVE
from tests.laws.invariants import HALF

STUCK_S = 5.0
STUCK_VOX = 1.0
"""A mech whose throttle asks to move and that stays within this distance for ``STUCK_S`` is stuck [vox]."""
WANTS = 0.2
"""Least planar throttle that asks to move."""
STRAY_S = 5.0
STRAYS = -0.3
"""A mech that moves for ``STRAY_S`` with less than this cosine to its intended direction is astray."""
WALKS = 0.5
"""Least speed of a moving mech [vox/s]."""
FLOAT_S = 1.0
FLOAT_GAP = 0.06
"""A mech at rest for ``FLOAT_S`` without jets and with nothing this close below its box floats [vox]."""
STILL = 0.01
TOUCH = 1e-3
WAVE = 20
DEVICES = ("ecm", "eccm", "vent", "jets", "focus", "intercepts", "assists")


@dataclass(frozen=True)
class MatchCase:
    """One match: the map of a seed, of one biome or, without a name, of four."""

    biome: str
    seed: int


@dataclass
class Fault:
    """A mech in a faulty state, and where it was found."""

    kind: str
    case: MatchCase
    tick: int
    mech: int
    note: str

    def __str__(self) -> str:
        where = f"{self.case.biome or 'mixed'} seed {self.case.seed} tick {self.tick} mech {self.mech}"
        return f"{self.kind}: {where} {self.note}"


@dataclass
class Faults:
    """Faults and statistics of some matches."""

    matches: int = 0
    faults: list[Fault] = field(default_factory=list)
    causes: Counter[str] = field(default_factory=Counter)
    used: Counter[str] = field(default_factory=Counter)

    def of(self, kind: str) -> list[Fault]:
        return [o for o in self.faults if o.kind == kind]

    @property
    def share_by_enemy(self) -> float:
        fire = sum(n for cause, n in self.causes.items() if cause in Weapon.__members__)
        return fire / max(1, sum(self.causes.values()))

    def unused(self) -> list[str]:
        return [name for name in (*(w.name for w in Weapon), *DEVICES) if not self.used[name]]


def short(values: np.ndarray) -> list[float]:
    return [round(float(v), 2) for v in values]


class FaultDetector:
    """Finds faults in the matches of a batch, step by step."""

    def __init__(self, engine: Engine, cases: Sequence[MatchCase], found: Faults) -> None:
        self.engine, self.cases, self.found = engine, cases, found
        self.arrays = {name: engine.batch.numpy(name) for name in engine.batch.fields}
        self.dt = engine.cfg.dt_act
        self.anchor = self.arrays["pos"].copy()
        self.since = np.zeros(self.arrays["alive"].shape)
        self.open_faults: dict[tuple[int, int], Fault] = {}
        self.astray = np.zeros(self.arrays["alive"].shape)
        self.still = np.zeros(self.arrays["alive"].shape)
        self.hung = np.zeros(self.still.shape, bool)
        self.before = self.arrays["pos"].copy()
        self.half = HALF[self.arrays["chassis"]]

    def check(self, playing: np.ndarray) -> None:
        """Check the state after an environment step in the environments ``[E]`` still playing."""
        alive = (self.arrays["alive"] == 1) & playing[:, None]
        self.find_stuck(alive)
        self.find_astray(alive)
        self.find_floating(alive)
        self.find_overlaps(alive)
        self.count_devices(alive)
        self.before = self.arrays["pos"].copy()

    def report(self, kind: str, at: np.ndarray, note: str) -> Fault:
        e, m = int(at[0]), int(at[1])
        where = short(self.arrays["pos"][e, m])
        text = f"{Chassis(int(self.arrays['chassis'][e, m])).name.lower()} at {where} {note}"
        fault = Fault(kind, self.cases[e], int(self.arrays["tick"][e]), m, text)
        self.found.faults.append(fault)
        return fault

    def find_stuck(self, alive: np.ndarray) -> None:
        drive = self.arrays["drive"]
        wants = np.hypot(drive[..., 0], drive[..., 1]) >= WANTS
        upright = (self.arrays["fallen"] == 0) & (self.arrays["shutdown"] == 0)
        away = np.linalg.norm(self.arrays["pos"] - self.anchor, axis=-1) > STUCK_VOX
        fresh = away | ~wants | ~upright | ~alive
        for at in np.argwhere(fresh & (self.since > STUCK_S)):
            self.open_faults.pop((int(at[0]), int(at[1]))).note += f", for {self.since[tuple(at)]:.1f} s"
        self.since = np.where(fresh, 0.0, self.since + self.dt)
        self.anchor = np.where(fresh[..., None], self.arrays["pos"], self.anchor)
        for at in np.argwhere((self.since > STUCK_S) & (self.since <= STUCK_S + self.dt)):
            self.open_faults[int(at[0]), int(at[1])] = self.report("stuck", at, f"asked {short(drive[tuple(at)])}")

    def find_astray(self, alive: np.ndarray) -> None:
        step, desired = (self.arrays["pos"] - self.before)[..., :2], self.arrays["pilot_desired"]
        walked, expected = np.linalg.norm(step, axis=-1), np.linalg.norm(desired, axis=-1)
        walks = (walked > WALKS * self.dt) & (expected >= WANTS) & (self.arrays["fallen"] == 0) & alive
        against = walks & ((step * desired).sum(axis=-1) < STRAYS * walked * expected)
        self.astray = np.where(against, self.astray + self.dt, 0.0)
        for at in np.argwhere((self.astray > STRAY_S) & (self.astray <= STRAY_S + self.dt)):
            wants, goes = short(desired[tuple(at)]), short(step[tuple(at)] / self.dt)
            self.report("astray", at, f"wants {wants}, goes {goes} vox/s")

    def find_floating(self, alive: np.ndarray) -> None:
        rest = (np.abs(self.arrays["pos"] - self.before)[..., 2] < STILL) & (self.arrays["drive"][..., 2] <= 0) & alive
        self.still = np.where(rest, self.still + self.dt, 0.0)
        for at in np.argwhere(np.isclose(self.still, FLOAT_S)):
            self.hung[tuple(at)] = not self.supported(*at)
        for at in np.argwhere(np.isclose(self.still, FLOAT_S + self.dt) & self.hung):
            if not self.supported(*at):
                self.report("floating", at, "")

    def supported(self, e: int, m: int) -> bool:
        """Whether bedrock, a voxel or another mech is right below a mech's box."""
        pos, half = self.arrays["pos"][e], self.half[e]
        foot = pos[m, 2] - half[m, 2]
        if foot <= FLOAT_GAP:
            return True
        low, top = np.floor(pos[m] - half[m]).astype(int), np.ceil(pos[m] + half[m]).astype(int)
        below = self.arrays["material"][
            e, int(np.floor(foot - FLOAT_GAP)), max(0, low[1]) : top[1], max(0, low[0]) : top[0]
        ]
        gap = np.abs(pos - pos[m]) - (half + half[m])
        carried = (gap[:, :2] < 0).all(axis=-1) & (np.abs(gap[:, 2]) < FLOAT_GAP) & (self.arrays["alive"][e] == 1)
        carried[m] = False
        return bool(BLOCKS_MOVE[below].any() or carried.any())

    def find_overlaps(self, alive: np.ndarray) -> None:
        pos = self.arrays["pos"]
        gap = np.abs(pos[:, :, None] - pos[:, None]) - (self.half[:, :, None] + self.half[:, None])
        both = alive[:, :, None] & alive[:, None] & np.triu(np.ones(gap.shape[1:3], bool), 1)
        for e, m, j in np.argwhere((gap.max(axis=-1) < -TOUCH) & both):
            self.report("overlapping", np.array([e, m]), f"mech {j}")
        low = np.maximum(np.floor(pos - self.half + TOUCH).astype(int), 0)
        top = np.ceil(pos + self.half - TOUCH).astype(int)
        for e, m in np.argwhere(alive):
            (x0, y0, z0), (x1, y1, z1) = low[e, m], top[e, m]
            if BLOCKS_MOVE[self.arrays["material"][e, z0:z1, y0:y1, x0:x1]].any():
                self.report("overlapping", np.array([e, m]), "voxels")

    def count_devices(self, alive: np.ndarray) -> None:
        used, jets = self.found.used, np.array([c.max_jet > 0 for c in CHASSIS])[self.arrays["chassis"]]
        flags = {name: self.arrays[name] > 0 for name in ("ecm", "eccm", "vent", "intercepts", "assists")}
        flags |= {"jets": jets & (self.arrays["drive"][..., 2] > 0), "focus": self.arrays["focus"] >= 0}
        for name, on in flags.items():
            used[name] += int((on & alive).sum())


def cases_of(biomes: Sequence[str], count: int, first_seed: int) -> list[MatchCase]:
    """Return ``count`` matches that cycle through the biomes, each with its own seed."""
    return [MatchCase(biomes[n % len(biomes)], first_seed + n) for n in range(count)]


def play_and_detect(cfg: EnvConfig, cases: Sequence[MatchCase], pilot: str) -> Faults:
    found = Faults()
    engine: Engine | None = None
    count = min(WAVE, len(cases))
    for start in range(0, len(cases), count):
        wave = cases[start : start + count]
        maps = stack_maps(
            [
                generate(cfg.world, c.seed, num_packs=cfg.num_packs, zone_radius_vox=cfg.zone_radius_vox, biome=c.biome)
                for c in (*wave, *([wave[0]] * (count - len(wave))))
            ]
        )
        if engine is None:
            engine = Engine(cfg, count, maps, autoreset=False, pilots=heuristic.install)
            engine.batch.add_fields(statistics.FIELDS)
            engine.programs["decision"] = lambda made=engine: statistics.with_statistics(made.decision())
        else:
            engine.batch.replace_all_maps(maps)
        _play(engine, wave, pilot, found)
    if engine is not None:
        engine.close()
    return found


def _play(engine: Engine, wave: Sequence[MatchCase], pilot: str, found: Faults) -> None:
    batch, envs = engine.batch, engine.num_envs
    seeds = np.zeros(envs, np.int32)
    seeds[: len(wave)] = [c.seed for c in wave]
    batch.set("forced_seed", seeds)
    batch.set("forced_slot", np.arange(envs, dtype=np.int32))
    batch["script"].fill_(heuristic.script_of(pilot))
    for name in statistics.FIELDS:
        batch[name].fill_(-1 if name in ("stat_cause", "stat_killer") else 0)
    engine.reset()
    detector = FaultDetector(engine, wave, found)
    playing = np.arange(envs) < len(wave)
    while playing.any():
        engine.step()
        detector.check(playing)
        playing &= batch.numpy("ended") == 0
    found.matches += len(wave)
    causes, shots = batch.numpy("stat_cause")[: len(wave)], batch.numpy("stat_shots")[: len(wave)]
    for cause in causes[causes != statistics.Cause.LIVES].tolist():
        found.causes[Weapon(cause).name if cause < len(Weapon) else statistics.Cause(cause).name] += 1
    for weapon in Weapon:
        found.used[weapon.name] += int(shots[..., weapon].sum())

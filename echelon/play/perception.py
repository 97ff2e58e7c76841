"""What the mech of a seat perceives, as frames for its pilot, or what the mechs of a team do, for its commander.

Everything about other mechs comes from the mech's sensors as they were at the last sensing, the end of an environment
step: who is detected, the contact memory, the readings of the display in its observation. Between two sensings contacts
in sight move on at their last velocity. Rounds, clouds, events and changed voxels are seen along a clear line of sight.
Nothing else of the state reaches a frame; ``tests/play/test_fog_of_war.py`` changes the rest and compares frames.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from echelon import play_protocol as protocol
from echelon.config import PACK_SIZE, EnvConfig
from echelon.env import display, layout
from echelon.env.engine import Engine
from echelon.play.triggers import Triggers
from echelon.replay.schema import EVENTS, EventKind, MechFlag
from echelon.sim.state import JOURNAL_VALUES
from echelon.sim.tables import duration_ticks

Rows = NDArray[np.float32]
NO_MECH = -1
MAX_NEW_EDITS = 512
"""Changed voxels that are tested for sight per environment step, the nearest first."""
MAX_EVENTS = 2048
"""Events that wait for a client; the oldest are dropped."""
NEAR_VOX = 4.0
"""Distance at which the pilot notices changed voxels without seeing them [vox]."""
MUZZLE_VOX = 3.0
"""Length of flight up to which rounds of a mech that the pilot does not know of are not shown [vox]."""
SIGHT_STEPS = (3.0, 0.3)
"""Distances between the points of a line of sight that are tested, in passes [vox]."""
MAX_EYES = 3
"""Mechs of a commander from which a place is looked at, the nearest ones."""
MAX_DISTANCES = 2**19
"""Distances from mechs to changed voxels that are measured per environment step; the others follow in later steps."""
SIGHT_END = 1.0
"""Length at the end of a line of sight that is not tested: the voxel that is looked at [vox]."""
CLASS_SURE = 0.5
"""Probability from which the class of a contact counts as recognised."""
CLEAR = 1
"""Value of ``sight`` for a clear line."""
EVENT_SCALES = np.array([column.scale for column in EVENTS.columns], np.float32)
EVENT = {column.name: i for i, column in enumerate(EVENTS.columns)}
COLUMN = {name: i for i, name in enumerate(protocol.CONTACT_COLUMNS)}
PLACE = slice(EVENT["x"], EVENT["z"] + 1)
CONTACT = {feature.name: i for i, feature in enumerate(layout.CONTACT)}
TRACE_FLAGS = ((int(display.FALLEN), MechFlag.FALLEN), (int(display.LEGGED), MechFlag.LEGGED))


class Contacts(NamedTuple):
    """Contacts at the last sensing."""

    tick: int
    rows: Rows
    """Rows of ``CONTACT_COLUMNS``."""
    in_sight: NDArray[np.bool_]
    """Contacts that are detected."""


class Perception:
    """Frames of one seat; the engine has one environment on the CPU and writes the observation of its mechs."""

    def __init__(
        self, engine: Engine, mech: int, observations: Rows, before: "Perception | None" = None,
        team: Sequence[int] = (),
    ) -> None:  # fmt: skip
        """``observations`` [M, D] are the rows that the engine writes, that of a mech at its index.

        The pilot of a destroyed mech goes on with the perception of a team mate; ``before`` is the one until then. A
        commander has that of all mechs of its ``team``, of which ``mech`` is the first.
        """
        self.mech = mech
        self.own = np.isin(np.arange(engine.num_mechs + 1), team or [mech])
        """Mechs whose sensors these are ``[M + 1]``, the last entry False for no mech."""
        self.ordered = range(mech - mech % PACK_SIZE, max(team) + 1 if team else mech - mech % PACK_SIZE + PACK_SIZE)
        """Mechs whose orders are shown."""
        self._engine, self._observations, self._seat = engine, observations, np.array([mech])
        batch = engine.batch
        self._view = {name: batch.row(name, 0) for name in batch.fields}
        self._team, self._dt = self._view["team"], engine.cfg.dt_sim
        self._columns = [sense_column(engine.cfg, name) for name in protocol.SENSE_COLUMNS]
        self._contacts_at = layout.offset("contacts", layout.blocks(engine.cfg))
        self._memory = display.memory_decisions(engine.cfg)
        self._journal = batch["journal"].numpy()[0] if "journal" in batch.backend.arrays else None
        self._read, self._sent_tick = (before._read if before else 0), -1
        self._killer = before._killer if before else []
        self._triggers = None if team else Triggers(engine, mech)
        self._tables = batch.tables(0)
        x, y, z = (int(edge) for edge in self._view["size"])
        self._material = self._view["material"][:z, :y, :x]
        self.known_material = before.known_material if before else self._material.copy()
        """The map as the pilot knows it ``uint8 [z, y, x]``."""
        self._events: list[Rows] = before._events if before else []
        self._edits: list[NDArray[np.uint32]] = before._edits if before else []
        self.contacts = Contacts(0, np.zeros((0, len(protocol.CONTACT_COLUMNS)), np.float32), np.zeros(0, bool))
        self.sense()

    def _now(self, name: str) -> int:
        return int(self._engine.batch.numpy(name)[0])

    def sense(self) -> None:
        """Take the sensors' readings at the end of an environment step, and look for changed voxels."""
        view, m, own = self._view, self.mech, self.own[:-1]
        tick, alive, present = self._now("tick"), view["alive"] == 1, view["present"] == 1
        eyes = np.flatnonzero(own & alive)
        seen = (view["visible"][eyes] != 0).any(axis=0)
        mates = (self._team == self._team[m]) & (view["pack"] == view["pack"][m]) & present
        seen = (seen | mates | own) & alive
        last = view["seen"][eyes].max(axis=0, initial=-1)
        age = self._now("decision") - last
        remembered = ~seen & alive & (last >= 0) & (age > 0) & (age <= self._memory)
        if not len(eyes):
            seen[:] = remembered[:] = False
        seen |= own & present  # a commander knows of its losses
        seen[m] = remembered[m] = False
        rows = [self._contact(j, 0) for j in np.flatnonzero(seen).tolist()]
        rows += [self._contact(j, int(age[j])) for j in np.flatnonzero(remembered).tolist()]
        table = np.array(rows, np.float32).reshape(len(rows), len(protocol.CONTACT_COLUMNS))
        self.contacts = Contacts(tick, table, np.arange(len(rows)) < int(seen.sum()))
        if len(eyes):
            self._look_for_edits()

    def _contact(self, j: int, age: int) -> list[float]:
        """Return the row of a contact that was last detected ``age`` environment steps ago."""
        view, m = self._view, self.mech
        if self.own[j]:
            spec, most = self._tables.chassis[view["chassis"][j]], self._tables.physics.max_stability
            shares = (view["hp"][j] / spec.hp, view["heat"][j] / spec.heat_cap, view["stability"][j] / most)
            body = [*view["pos"][j], *view["vel"][j], view["yaw"][j]]
            return [j, self._team[j], view["chassis"][j], *body, 0.0, 1.0, *shares, self._flags(j), NO_MECH]
        if age:
            k = (self._now("decision") - age) % view["trace_pos"].shape[0]
            pos, vel, yaw = view["trace_pos"][k, j], view["trace_vel"][k, j], view["trace_body"][k, j][0]
            marks = int(view["trace_marks"][k, j])
        else:
            pos, vel, yaw = view["pos"][j], view["vel"][j], view["yaw"][j]
            marks = (int(view["fallen"][j] > 0) * int(display.FALLEN)) | (
                int(view["leg_hp"][j] <= 0) * int(display.LEGGED)
            )
        flags = sum((int(flag) for bit, flag in TRACE_FLAGS if marks & bit), start=int(MechFlag.ALIVE))
        eyes = self._eyes()
        slots = np.argwhere(view["contact"][eyes, : display_slots(self._engine.cfg)] == j)
        eye, slot = (int(eyes[slots[0, 0]]), int(slots[0, 1])) if len(slots) else (m, NO_MECH)
        sure, hull, heat, stability, chassis = self._readings(eye, slot)
        if self._team[j] == self._team[m] or (not age and (view["sight"][eyes, j] == CLEAR).any()):
            chassis = int(view["chassis"][j])
        seconds = age * self._engine.cfg.dt_act
        return [
            j, self._team[j], chassis, *pos, *vel, yaw, seconds, sure, hull, heat, stability, flags, slot,
        ]  # fmt: skip

    def _eyes(self) -> NDArray[np.intp]:
        """Return the mechs whose sensors these are now: that of the seat, those of a commander that are alive."""
        return np.flatnonzero(self.own[:-1] & (self._view["alive"] == 1)) if self._triggers is None else self._seat

    def _readings(self, eye: int, slot: int) -> tuple[float, float, float, float, int]:
        """Return certainty, hull, heat, stability and class that a mech's display has in a slot, -1 without one."""
        if slot < 0:
            return -1.0, -1.0, -1.0, -1.0, NO_MECH
        start = self._contacts_at + slot * len(layout.CONTACT)
        row = self._observations[eye, start : start + len(layout.CONTACT)]
        shares = row[CONTACT[layout.CLASSES[0]] : CONTACT[layout.CLASSES[-1]] + 1]
        chassis = int(shares.argmax()) if shares.max() > CLASS_SURE else NO_MECH
        valid, hull, heat, stability = (float(row[CONTACT[n]]) for n in ("valid", "hull", "heat", "stability"))
        return valid, hull, heat, stability, chassis

    def _look_for_edits(self) -> None:
        eyes, changed = self._view["pos"][self._eyes()], np.argwhere(self._material != self.known_material)
        every = 1 + len(changed) * len(eyes) // MAX_DISTANCES
        changed = changed[self._now("decision") % every :: every]
        if not len(changed):
            return
        centres = changed[:, ::-1].astype(np.float32) + 0.5
        distance = np.linalg.norm(centres[:, None] - eyes, axis=2).min(axis=1)
        nearest = np.argsort(distance, kind="stable")[:MAX_NEW_EDITS]
        seen = nearest[(distance[nearest] <= NEAR_VOX) | self.in_sight(centres[nearest])]
        z, y, x = changed[seen].T
        material = self._material[z, y, x]
        self.known_material[z, y, x] = material
        flat = np.ravel_multi_index((z, y, x), self._material.shape)
        if len(seen):
            self._edits.append(np.column_stack([flat, material]).astype(np.uint32))

    def in_sight(self, points: Rows) -> NDArray[np.bool_]:
        """Return which points ``[N, 3]`` the pilot sees along a line that no voxel blocks, a commander from a mech."""
        eyes = self._view["pos"][self._eyes()]
        toward = np.asarray(points, np.float32).reshape(-1, 1, 3) - eyes
        nearest = np.argsort(np.linalg.norm(toward, axis=2), axis=1, kind="stable")[:, :MAX_EYES]
        lines = np.take_along_axis(toward, nearest[..., None], axis=1).reshape(-1, 3)
        seen = np.ones(len(lines), bool)
        for step in SIGHT_STEPS:  # few points of most lines decide
            seen[seen] = ~self._blocked(eyes[nearest.reshape(-1)[seen]], lines[seen], step)
        return np.logical_or.reduce(seen.reshape(nearest.shape), axis=1)

    def _blocked(self, eyes: Rows, toward: Rows, step: float) -> NDArray[np.bool_]:
        """Return which lines ``[N, 3]`` from ``eyes`` have a point in a voxel that blocks, of points ``step`` apart."""
        plane, size = self._view["sight_plane"], self._view["size"]
        length = np.linalg.norm(toward, axis=1)
        along = np.arange(step, max(float(length.max(initial=0.0)) - SIGHT_END, 0.0), step, dtype=np.float32)
        line, at = np.nonzero(along[None] < length[:, None] - SIGHT_END)
        share = along[at] / np.maximum(length[line], 1e-6)
        x, y, z = np.floor(eyes[line] + share[:, None] * toward[line]).astype(np.int64).T
        inside = (x >= 0) & (y >= 0) & (z >= 0) & (x < size[0]) & (y < size[1]) & (z < size[2])
        line, x, y, z = line[inside], x[inside], y[inside], z[inside]
        hits = ((plane[y, x] >> z.astype(np.uint64)) & np.uint64(1)).astype(bool)
        blocked = np.zeros(len(toward), bool)
        blocked[line[hits]] = True
        return blocked

    def collect_events(self) -> None:
        """Read the events since the last call; call it after every tick, before the recorder fetches them."""
        if self._journal is None:
            return
        count = min(int(self._engine.batch["journal_count"].numpy()[0]), len(self._journal))
        self._read = self._read if self._read <= count else 0
        rows = self._journal[self._read : count, :JOURNAL_VALUES].astype(np.float32) * EVENT_SCALES
        self._read = count
        self._events += self._seen_events(rows)
        for row in rows:
            if not self._killer and row[EVENT["kind"]] == EventKind.KILL and row[EVENT["target"]] == self.mech:
                actor = int(row[EVENT["actor"]])
                self._killer = [float(actor), *map(float, self._view["pos"][actor] if actor >= 0 else (0, 0, 0))]
        del self._events[:-MAX_EVENTS]

    def forget_journal(self) -> None:
        """Begin at the journal's first row again, after the recorder has emptied it."""
        self._read = min(self._read, int(self._engine.batch["journal_count"].numpy()[0]))

    def _seen_events(self, rows: Rows) -> list[Rows]:
        known = self.own.copy()
        known[self.contacts.rows[self.contacts.in_sight, 0].astype(int)] = True
        actor, target = (rows[:, EVENT[name]].astype(int) for name in ("actor", "target"))
        place_seen = np.abs(rows[:, PLACE]).sum(axis=1) > 0
        place_seen[place_seen] = self.in_sight(rows[place_seen, PLACE])
        is_own = self.own[actor] | self.own[target]
        seen = rows.copy()
        seen[~known[actor], EVENT["actor"]] = NO_MECH
        seen[~known[target], EVENT["target"]] = NO_MECH
        seen[~is_own, EVENT["value"]] = 0.0
        seen[~(place_seen | self.own[target]), PLACE] = 0.0
        return [*seen[is_own | known[actor] | known[target] | place_seen]]

    def has_next(self) -> bool:
        """Whether a tick was played since the last frame, or none was sent."""
        return self._now("tick") != self._sent_tick

    def frame(self, seq: int) -> protocol.Frame:
        view = self._view
        self._sent_tick = self._now("tick")
        events, edits, self._events, self._edits = self._events, self._edits, [], []
        contacts = self._moved_contacts()
        return protocol.Frame(
            tick=self._now("tick"),
            mech=self.mech,
            seq=seq,
            own=_packed(self._own()),
            senses=_packed(self._senses()),
            contacts=_packed(contacts),
            rounds=_packed(self._rounds()),
            events=_packed(np.array(events, np.float32)),
            clouds=_packed(self._clouds()),
            edits=np.concatenate(edits).astype("<u4").tobytes() if edits else b"",
            score=[float(value) for value in view["score"]],
            holds=self._holds(contacts),
            orders=view["order_kind"][self.ordered].tolist(),
            named=view["order_mech"][self.ordered].tolist(),
            killer=self._killer,
        )

    def _holds(self, contacts: Rows) -> list[int]:
        if self._triggers is None:
            return []
        hostile = contacts[contacts[:, COLUMN["team"]] != self._team[self.mech]]
        places = hostile[:, COLUMN["x"] : COLUMN["z"] + 1]
        return self._triggers.holds(hostile[:, COLUMN["mech"]].astype(np.int64), places)

    def knows(self, mech: int) -> bool:
        """Whether a mech is an own one or a contact, remembered ones too; -1 is none."""
        return bool(self.own[mech]) or mech in self.contacts.rows[:, 0]

    def _known_mech(self, mech: int) -> int:
        known = self.contacts.rows[self.contacts.in_sight, 0]
        return mech if self.own[mech] or mech in known else NO_MECH

    def _own(self) -> Rows:
        view, m = self._view, self.mech
        alive = int(view["alive"][m])
        painter = self._known_mech(int(view["painter"][m])) if view["painted"][m] > 0 else NO_MECH
        body = [view[name][m] * alive for name in ("hp", "leg_hp", "heat", "stability")]
        own = [*view["pos"][m], *view["vel"][m], view["yaw"][m], *body, self._flags(m), view["focus"][m], painter]
        return np.array([*own, *view["cooldown"][m]], np.float32)

    def _flags(self, m: int) -> int:
        view, alive = self._view, int(self._view["alive"][m])
        flags = alive * MechFlag.ALIVE
        for name, flag in (("fallen", MechFlag.FALLEN), ("shutdown", MechFlag.SHUTDOWN), ("painted", MechFlag.PAINTED),
                           ("suppressed", MechFlag.SUPPRESSED), ("ecm", MechFlag.ECM), ("eccm", MechFlag.ECCM),
                           ("vent", MechFlag.VENT)):  # fmt: skip
            flags |= flag if alive and view[name][m] > 0 else 0
        return int(flags | (MechFlag.LEGGED if alive and view["leg_hp"][m] <= 0 else 0))

    def _senses(self) -> Rows:
        row = self._observations[next(iter(self._eyes()), self.mech)]
        return np.array([row[column] if column >= 0 else 0.0 for column in self._columns], np.float32)

    def _moved_contacts(self) -> Rows:
        tick, rows, in_sight = self.contacts
        moved, at = rows.copy(), protocol.CONTACT_COLUMNS.index("x")
        seconds = (self._now("tick") - tick) * self._dt
        moved[in_sight, at : at + 3] += moved[in_sight, at + 3 : at + 6] * np.float32(seconds)
        moved[~in_sight, protocol.CONTACT_COLUMNS.index("age")] += np.float32(seconds)
        return moved

    def _rounds(self) -> Rows:
        view = self._view
        owner, slot = np.nonzero(view["round_weapon"] >= 0)
        seen = self.own[owner]
        others = np.flatnonzero(~seen)
        seen[others] = self.in_sight(view["round_pos"][owner[others], slot[others]])
        known = self.own[owner] | np.isin(owner, self.contacts.rows[self.contacts.in_sight, 0])
        speed = np.linalg.norm(view["round_vel"][owner, slot], axis=1)
        seen &= known | (view["round_age"][owner, slot] * self._dt * speed > MUZZLE_VOX)
        owner, slot = owner[seen], slot[seen]
        pos, vel = view["round_pos"][owner, slot], view["round_vel"][owner, slot].astype(np.float64)
        yaw, pitch = np.arctan2(vel[:, 1], vel[:, 0]), np.arctan2(vel[:, 2], np.hypot(vel[:, 0], vel[:, 1]))
        shooter = np.where(known[seen], owner, NO_MECH)
        weapon, age = view["round_weapon"][owner, slot], view["round_age"][owner, slot]
        return np.column_stack([shooter, slot, weapon, age, pos, yaw, pitch]).astype(np.float32)

    def _clouds(self) -> Rows:
        view = self._view
        owner, slot = np.nonzero(view["cloud_ticks"] > 0)
        seen = self.in_sight(view["cloud_pos"][owner, slot])
        owner, slot = owner[seen], slot[seen]
        life = duration_ticks(self._tables.physics.smoke_life_s, self._dt)
        burst = self._now("tick") - life + view["cloud_ticks"][owner, slot]
        known = [self._known_mech(int(mech)) for mech in owner]
        return np.column_stack([burst, known, view["cloud_pos"][owner, slot]]).astype(np.float32)


def sense_column(cfg: EnvConfig, name: str) -> int:
    """Return the column of an observation that has one of ``SENSE_COLUMNS``, -1 without one."""
    names = (f"ego.{name}", f"self.{name}", f"acoustic.{name.removeprefix('noise_')}")
    return next((column.index for column in layout.columns(cfg) if column.name in names), -1)


def display_slots(cfg: EnvConfig) -> int:
    return layout.CLASSIC_SLOTS if cfg.obs_layout == "classic" else layout.MAX_CONTACTS


def _packed(rows: Any) -> bytes:
    return np.ascontiguousarray(rows, "<f4").tobytes()

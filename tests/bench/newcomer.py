"""A crude model of a person who flies for the first time, and in how many of three matches it wins.

It sees what the frames of its seat say, ``DELAY_S`` late. It turns to the nearest hostile that it sees, with an error
that wanders, holds the triggers while that is near the reticle, and walks straight to the zone.
``python -m tests.bench.newcomer OPPONENT MATES PEOPLE`` prints a line for each person: three matches, three maps.
"""

import sys
import tempfile
from collections import deque
from pathlib import Path

import numpy as np

from echelon import play_protocol as play
from echelon.actions import HOSTILE_ONLY, ActionIndex
from echelon.arena.named_pilots import level_pilot
from echelon.config import EnvConfig
from echelon.play.match import NewMatch, begin_match

DELAY_S, ERROR_RAD, DRIFT_S = 0.6, 0.14, 0.8
"""Age of what it sees, and size and duration of its error of aim."""
NEAR_RAD = 0.3
"""Angle to a hostile at which it holds the triggers."""
HOT = 0.85
MATCHES = 3
OWN, SENSES, CONTACTS = (
    {name: i for i, name in enumerate(columns)}
    for columns in (play.OWN_COLUMNS, play.SENSE_COLUMNS, play.CONTACT_COLUMNS)
)


class Newcomer:
    def __init__(self, zone: tuple[float, float, float], team: int, heat_cap: float, hz: float, seed: int) -> None:
        self._zone, self._team, self._cap, self._hz = zone, team, heat_cap, hz
        self._draws = np.random.default_rng(seed)
        self._seen: deque[play.Frame] = deque(maxlen=max(1, round(DELAY_S * hz)))
        self._error, self._ticks = 0.0, 0
        self._way, self._aside = (0.0, 0.0), 0.0

    def fly(self, frame: play.Frame, action: np.ndarray) -> None:
        """Write the controls for the next tick into an action in steps of 1/127."""
        self._seen.append(frame)
        if self._ticks % round(DRIFT_S * self._hz) == 0:
            self._error = float(self._draws.normal(0.0, ERROR_RAD))
        if self._ticks % round(2 * self._hz) == 0:
            self._step_aside(frame)
        self._ticks += 1
        own = np.frombuffer(frame.own, "<f4")
        rows = np.frombuffer(self._seen[0].contacts, "<f4").reshape(-1, len(CONTACTS))
        x, y, yaw = (float(own[OWN[name]]) for name in ("x", "y", "yaw"))
        hostile = rows[(rows[:, CONTACTS["team"]] != self._team) & (rows[:, CONTACTS["age"]] < 1.0)]
        away = np.hypot(hostile[:, CONTACTS["x"]] - x, hostile[:, CONTACTS["y"]] - y)
        zone_x, zone_y, radius = self._zone
        far = float(np.hypot(zone_x - x, zone_y - y))
        goal, fires = float(np.arctan2(zone_y - y, zone_x - x)), False
        action[:] = 0
        if len(hostile):
            target = hostile[int(away.argmin())]
            bearing = float(np.arctan2(target[CONTACTS["y"]] - y, target[CONTACTS["x"]] - x))
            fires = abs(_wrapped(bearing - yaw)) < NEAR_RAD and float(own[OWN["heat"]]) < HOT * self._cap
            goal = bearing + self._error
        action[ActionIndex.YAW_RATE] = round(127 * float(np.clip(2.0 * _wrapped(goal - yaw), -1, 1)))
        to_zone = _wrapped(float(np.arctan2(zone_y - y, zone_x - x)) - yaw)
        walks = 1.0 if far > 0.6 * radius else 0.0
        action[ActionIndex.FORWARD] = round(127 * walks * float(np.cos(to_zone)))
        action[ActionIndex.STRAFE] = round(127 * float(np.clip(walks * np.sin(to_zone) + self._aside, -1, 1)))
        for trigger in (ActionIndex.PRIMARY, ActionIndex.SECONDARY, ActionIndex.TERTIARY):
            action[trigger] = 127 if fires else -127
        action[ActionIndex.SPECIAL] = -127
        action[ActionIndex.VENT] = 127 if float(own[OWN["heat"]]) > 0.5 * self._cap and not fires else -127
        action[HOSTILE_ONLY] = 127

    def _step_aside(self, frame: play.Frame) -> None:
        """Step aside and jump nowhere: what a person does who has not moved for two seconds."""
        own = np.frombuffer(frame.own, "<f4")
        place = (float(own[OWN["x"]]), float(own[OWN["y"]]))
        stuck = float(np.hypot(place[0] - self._way[0], place[1] - self._way[1])) < 1.0
        self._way, self._aside = place, float(self._draws.choice([-1.0, 1.0])) if stuck else 0.0


def _wrapped(angle: float) -> float:
    return float((angle + np.pi) % (2 * np.pi) - np.pi)


def play_match(opponent: str, mates: str, seed: int, env: EnvConfig | None = None) -> tuple[str, str]:
    """Return winner and reason of a match that a newcomer flies for blue."""
    with tempfile.TemporaryDirectory() as folder:
        plan = NewMatch(env=env or EnvConfig(), seed=seed, mates=level_pilot(mates), hostiles=level_pilot(opponent))
        match = begin_match(plan, Path(folder) / "newcomer.ecr", {})
        mech, hz = match.seats[0], float(match.header["tick_hz"])
        cap = float(match.header["chassis"][match.header["roster"][mech]["chassis"]]["heat_cap"])
        pilot = Newcomer(tuple(match.header["zone"]), match.header["roster"][mech]["team"], cap, hz, seed)
        action = np.zeros((1, len(match.engine.action_names)), np.int8)
        while not match.over:
            pilot.fly(match.perceptions[mech].frame(0), action[0])
            match.tick(action)
        outcome = match.outcome
        match.finish()
    return outcome.winner, outcome.reason


def main(opponent: str, mates: str, people: int) -> None:
    lucky = 0
    for person in range(people):
        results = [play_match(opponent, mates, 1000 * person + match) for match in range(MATCHES)]
        lucky += any(winner == "blue" for winner, _ in results)
        print(opponent, mates, person, results, flush=True)
    print(f"{opponent} with {mates}: {lucky} of {people} people win one of {MATCHES} matches", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))

"""Commanders. Together: mechs wait near their spawn until the pack is complete, and then attack the zone together.

Try it: echelon sim --blue commander:examples/commander.py+hard --red hard --matches 20
Others: commander:examples/commander.py:pincer+hard, commander:examples/commander.py:hunters+hard
"""

from math import dist

from echelon.arena.commander import View

WAIT_S = 12.0
NEAR_VOX = 14.0


class Together:
    """Orders of one side of a match; ``command`` below is called once a second."""

    attacks = False

    def __call__(self, view: View) -> dict[int, object]:
        near = any(dist(own.pos, hostile.pos) < NEAR_VOX for own in view.mechs for hostile in view.hostiles)
        self.attacks = self.attacks or near or view.seconds >= WAIT_S
        front = min(dist(own.pos[:2], view.zone[:2]) for own in view.mechs) if view.mechs else 0.0
        ahead = {own.mech for own in view.mechs if dist(own.pos[:2], view.zone[:2]) < front + 1.0}
        return {own.mech: "hold" if own.mech in ahead and not self.attacks else None for own in view.mechs}


command = Together


def pincer(view: View) -> dict[int, object]:
    """Every second mech goes around the zone on the left, the others on the right, for 20 s; then each as it likes."""
    sides = ("flank_left", "flank_right")
    return {own.mech: sides[own.mech % 2] if view.seconds < 20.0 else None for own in view.mechs}


def hunters(view: View) -> dict[int, object]:
    """All attack the hostile in sight with the smallest share of its hit points."""
    weakest = min(view.hostiles, key=lambda hostile: hostile.hp, default=None)
    return {own.mech: weakest and ("focus", weakest.mech) for own in view.mechs}

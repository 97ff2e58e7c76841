"""An agent that needs msgpack alone: turn to the nearest hostile and fire, else drive to the zone.

echelon agent check "python agent.py"
"""

import math
import struct
import sys

import msgpack


def messages():
    while head := sys.stdin.buffer.read(4):
        yield msgpack.unpackb(sys.stdin.buffer.read(int.from_bytes(head, "big")))


def answer(message):
    packed: bytes = msgpack.packb(message)  # pyright: ignore[reportAssignmentType]
    sys.stdout.buffer.write(len(packed).to_bytes(4, "big") + packed)
    sys.stdout.buffer.flush()


def fly(see, actions):
    """Return a mech's action from the function that gives a column's value."""
    hostiles = [
        (math.hypot(see(f"contacts[{n}].ahead"), see(f"contacts[{n}].left")), n)
        for n in range(5)
        if see(f"contacts[{n}].hostile")
    ]
    ahead, left = see("ego.zone_ahead"), see("ego.zone_left")
    action = dict.fromkeys(actions, 0.0)
    if hostiles:
        _, near = min(hostiles)
        ahead, left = see(f"contacts[{near}].ahead"), see(f"contacts[{near}].left")
        action[f"target_{near}"] = 1.0
        if see("ego.heat") < 0.7:
            action |= {"primary": 1.0, "secondary": 1.0, "tertiary": 1.0}
    turn = math.atan2(left, ahead)
    action["yaw_rate"] = max(-1.0, min(1.0, 2.0 * turn))
    if not see("ego.in_zone"):
        action["forward"] = max(0.0, math.cos(turn))
    return [action[name] for name in actions]


for message in messages():
    if message["type"] == "hello":
        columns, actions = message["columns"], message["actions"]
        answer({"type": "hello"})
    elif message["type"] == "act":
        values = [v for (v,) in struct.iter_unpack("<f", message["observations"])]
        width = len(columns)
        mechs = [values[n * width : (n + 1) * width] for n in range(len(message["mechs"]))]
        flown = [fly(dict(zip(columns, row, strict=True)).__getitem__, actions) for row in mechs]
        answer({"decision": message["decision"], "actions": flown})

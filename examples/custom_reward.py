"""Add a reward term for one run: a kernel that measures an amount per mech, and a weight.

python examples/custom_reward.py
"""

import argparse

import warp as wp

import echelon
from echelon.env import reward
from echelon.sim.state import Mechs


@wp.kernel
def term_cool(column: wp.int32, mechs: Mechs, amounts_out: wp.array3d(dtype=wp.float32)):
    """One for each living mech that is cold."""
    e, m = wp.tid()
    amounts_out[e, m, column] = 0.0
    if mechs.alive[e, m] == 1 and mechs.heat[e, m] == 0.0:
        amounts_out[e, m, column] = 1.0


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=20, help="environment steps to play")
parser.add_argument("--size", type=int, default=30, help="edge of the map [vox]")
options = parser.parse_args()

cool = reward.Term("cool", term_cool, weight=0.25)
config = echelon.EnvConfig(world=echelon.WorldConfig(size_x=options.size, size_y=options.size, size_z=16))
maps, pilots, terms = echelon.Maps(1), echelon.Pilots("hard"), (*reward.TERMS, cool)
with echelon.VectorEnv(2, config, maps=maps, pilots=pilots, terms=terms) as env:
    env.reset()
    for _ in range(options.steps):
        env.actions.zero_()
        env.step()
    rewards = env.results.terms[..., env.results.names.index("cool")]
    print(f"reward of {rewards.numel()} mechs for staying cool in the last step: {float(rewards.sum()):.3f}")

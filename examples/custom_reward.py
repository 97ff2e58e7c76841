"""Train with a reward term of your own: a kernel that measures an amount per mech, and a weight.

python examples/custom_reward.py --steps 200000
"""

import argparse
from dataclasses import replace
from functools import partial

import warp as wp

import echelon
from echelon.config import TeacherConfig
from echelon.env import reward
from echelon.sim.state import Mechs
from echelon.telemetry.events import Event, EventUpdate
from echelon.training import loop


@wp.kernel
def term_cool(column: wp.int32, mechs: Mechs, amounts_out: wp.array3d(dtype=wp.float32)):
    """One for each living mech without heat."""
    e, m = wp.tid()
    amounts_out[e, m, column] = 0.0
    if mechs.alive[e, m] == 1 and mechs.heat[e, m] == 0.0:
        amounts_out[e, m, column] = 1.0


def report(event: Event) -> None:
    """Print one line for each update after the first ended episode."""
    if isinstance(event, EventUpdate) and event.reward_terms:
        cool = event.reward_terms["cool"]
        print(f"update {event.update}: reward of a mech for staying cool, per episode: {cool:.3f}", flush=True)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--steps", type=int, default=200_000, help="learner agent-steps")
parser.add_argument("--num-envs", type=int, default=32)
parser.add_argument("--seconds", type=float, default=60.0, help="time limit of an episode [s]")
options = parser.parse_args()

preset = echelon.get_preset("quickstart")
config = replace(
    preset,
    num_envs=options.num_envs,
    bank_maps=min(preset.bank_maps, options.num_envs),
    total_steps=options.steps,
    env=replace(preset.env, max_episode_seconds=options.seconds),
    teacher=TeacherConfig(),  # none: imitation learns from no reward
    eval=replace(preset.eval, every_updates=0, at_start=False, seeds=1),
)
terms = (*reward.TERMS, reward.Term("cool", term_cool, weight=0.01))
result = loop.run(config, report, lambda: 0, make_env=partial(echelon.VectorEnv, terms=terms))
print(f"{result.update} updates, {result.global_step:,} steps")

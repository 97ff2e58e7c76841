"""Play one battle: a trained policy (or a scripted level) as blue against a scripted level as red.

python examples/play.py --policy runs/example --opponent medium --seed 7
"""

import argparse

import echelon
from echelon.agents.heuristic import HeuristicPolicy
from echelon.training import PolicyPilot, env_config_of

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--policy", default="", help="run folder, checkpoint or exported file; empty: a scripted level")
parser.add_argument("--opponent", default="medium", help="scripted level of red (and of blue without --policy)")
parser.add_argument("--seed", type=int, default=7)
parser.add_argument("--size", type=int, default=60, help="edge of the map without --policy [vox]")
options = parser.parse_args()

if options.policy:
    loaded = echelon.load_policy(options.policy)
    env = echelon.EchelonEnv(env_config_of(loaded.meta))
    pilot = PolicyPilot(loaded.policy)
else:
    env = echelon.EchelonEnv(echelon.EnvConfig(world=echelon.WorldConfig(size_x=options.size, size_y=options.size)))
    pilot = None
scripted = HeuristicPolicy(skill=options.opponent, weapon_fire_prob=1.0)

observations, _ = env.reset(seed=options.seed)
if pilot is not None:
    pilot.reset()
finished = False
while not finished:
    actions = {agent: scripted.act(env, agent) for agent in env.possible_agents}
    if pilot is not None:
        actions |= pilot.act({agent: row for agent, row in observations.items() if agent.startswith("blue")})
    observations, rewards, terminated, truncated, infos = env.step(actions)
    finished = all(terminated[agent] or truncated[agent] for agent in env.possible_agents)

outcome = env.last_outcome
print(f"winner: {outcome['winner']} by {outcome['reason']}; hit points left: {env.team_hp()}")
env.close()

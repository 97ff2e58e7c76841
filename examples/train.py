"""Train a policy in this process, print its progress, and evaluate it.

python examples/train.py --minutes 8 --run-dir runs/example
"""

import argparse
from dataclasses import replace

import echelon
from echelon.telemetry.events import Event, EventEval, EventUpdate


def report(event: Event) -> None:
    """Print one line per update and evaluation."""
    if isinstance(event, EventUpdate):
        print(
            f"update {event.update:4d}  {event.global_step:9,d} steps  {event.steps_per_s:7,.0f}/s"
            f"  loss {event.loss:.3f}"
        )
    elif isinstance(event, EventEval):
        print(f"win rate {event.win_rate:.0%} (95 % interval {event.win_low:.0%} to {event.win_high:.0%})")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--preset", default="quickstart", choices=sorted(echelon.PRESETS))
parser.add_argument("--minutes", type=float, default=8.0, help="wall time of the training [min]")
parser.add_argument("--num-envs", type=int, default=None, help="environments in the batch (default: the preset's)")
parser.add_argument("--seeds", type=int, default=20, help="held-out seeds of the final evaluation")
parser.add_argument("--run-dir", default="runs/example", help="folder for checkpoints")
options = parser.parse_args()

config = echelon.get_preset(options.preset)
if options.num_envs:
    config = replace(config, num_envs=options.num_envs)
result = echelon.train(config, run_dir=options.run_dir, emit=report, max_minutes=options.minutes)
print(f"{result.reason} after {result.global_step:,} steps; checkpoint {result.checkpoint}")
for level in ("easy", "medium"):
    stats = echelon.evaluate(options.run_dir, level, seeds=options.seeds)
    print(f"against {level}: {stats.win_rate:.0%} (95 % interval {stats.win_low:.0%} to {stats.win_high:.0%})")

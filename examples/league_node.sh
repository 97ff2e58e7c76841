#!/usr/bin/env bash
# One node of a league on Ray: the first is the head, which keeps the league; every node trains one run in it.
#   RANK=0 HEAD=HOST bash examples/league_node.sh [--preset league] [--set KEY=VALUE ...]
# league.sbatch and league.sky.yaml start it on all nodes. A run that exists goes on from its newest checkpoint.
set -euo pipefail
rank=${RANK:-${SLURM_PROCID:-${SKYPILOT_NODE_RANK:?"it is not set, nor RANK; start the script by SLURM or SkyPilot"}}}
python=${PYTHON:-python} run=${ECHELON_HOME:=$HOME/echelon}/league-$rank
export ECHELON_HOME RAY_ADDRESS=${HEAD:?"the host of the first node is not set"}:${PORT:-6379}

as_node() { "$python" -m ray.scripts.scripts start --block --disable-usage-stats "$@"; }
nodes() { "$python" -c 'import ray; ray.init("auto", log_to_driver=False); print(sum(n["Alive"] for n in ray.nodes()))'; }

if [ "$rank" = 0 ]; then
    as_node --head --port="${RAY_ADDRESS##*:}" &
else
    until as_node --address="$RAY_ADDRESS"; do sleep 5; done &
fi
ray=$!
trap 'pkill -P "$ray"; kill "$ray"' EXIT
until nodes >/dev/null 2>&1; do sleep 2; done
"$python" -m echelon.jobs.spec "$run" --preset league --set seed="$rank" --set opponents.league.path=ray "$@"
"$python" -m echelon.jobs.worker "$run" --resume latest &
worker=$!
trap 'kill -TERM "$worker"' TERM INT
wait "$worker" || wait "$worker"
if [ "$rank" = 0 ]; then # the others ask for the league until they have ended
    until [ "$(nodes)" -le 1 ]; do sleep 5; done
fi

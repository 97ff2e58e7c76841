#!/usr/bin/env bash
# A league run: a start policy, a main run, an exploiter of it, and a rating round. Minutes are arguments.
#   bash examples/league.sh [START_MINUTES] [MAIN_MINUTES] [EXPLOITER_MINUTES] [extra options of `echelon train` ...]
set -euo pipefail
echelon() { "${PYTHON:-python}" -m echelon_cli.main "$@"; }
start_minutes=${1:-8} main_minutes=${2:-25} exploiter_minutes=${3:-10}
shift $(($# < 3 ? $# : 3))

train() { # start a run, wait for it, print its id
  echelon train --json "$@" | tail -n 1 | "${PYTHON:-python}" -c 'import json, sys; print(json.load(sys.stdin)["id"])'
}

start=$(train --preset quickstart --minutes "$start_minutes" "$@")
main=$(train --preset league --start-from "$start" --minutes "$main_minutes" "$@")
train --preset league --opponents exploiter --set opponents.league.target="$main" --start-from "$main" --minutes "$exploiter_minutes" "$@"
echelon arena run --rounds 1 --seeds "${SEEDS:-20}"
echelon arena standings
echelon arena head-to-head

# Everything a developer runs; `just` lists it. Recipes use the active environment's python.

python := env("PYTHON", "python")

_list:
    @just --list

# run the default tier, files side by side
test *ARGS:
    {{python}} -m pytest -n logical --dist loadfile {{ARGS}}

# run the longer tier too, as CI does
long *ARGS:
    {{python}} -m pytest -n logical --dist loadfile -m "long or not (long or slow or fuzz or soak or bench)" {{ARGS}}

# the 20 slowest tests of the default tier
slowest *ARGS:
    {{python}} -m pytest -n logical --dist loadfile --durations=20 --durations-min=0.5 {{ARGS}}

# how much of the learner and the arena their tests run, at least 90 %
coverage *ARGS:
    {{python}} -m pytest tests/training tests/rl tests/arena tests/learning tests/env tests/cli/test_arena.py tests/cli/test_arena_processes.py --cov --cov-fail-under=90 --cov-report=term:skip-covered {{ARGS}}

# style and layers
lint:
    {{python}} -m ruff check .
    {{python}} -m ruff format --check .
    lint-imports

# static types
types:
    {{python}} -m pyright

# kill, pause and stop jobs and fill their disk; compare with undisturbed ones (docs/reliability.md)
storm *ARGS:
    {{python}} -m tests.reliability.storm {{ARGS}}

# hours of training, 64 live viewers and a dashboard; memory must not grow (docs/reliability.md)
soak *ARGS:
    {{python}} -m tests.reliability.soak {{ARGS}}

# change the code of some modules in many small ways and list the changes that no test notices (docs/reliability.md)
mutants *NAMES="'echelon.[ajr]*' 'echelon.te*' 'echelon.training.[cp]*' '*compute_gae*'":
    nice mutmut run --max-children 1 {{NAMES}}
    mutmut results | grep -v 'not checked'

# branch coverage of the same modules
branches:
    #!/usr/bin/env bash
    set -euo pipefail
    list() {
        {{python}} -c 'import sys, tomllib
    print(*tomllib.load(open("pyproject.toml", "rb"))["tool"]["mutmut"][sys.argv[1]], sep=sys.argv[2])' "$@"
    }
    coverage run --rcfile=/dev/null --branch --include="$(list only_mutate ,)" -m pytest \
        $(list pytest_add_cli_args_test_selection ' ') tests/training/test_ppo.py
    coverage report --rcfile=/dev/null --show-missing --fail-under=98

# change the kernels of all modules, or of KERNEL..., in small ways and list what the oracles' tests notice
kernel-mutants *ARGS:
    {{python}} -m tests.kernel_mutants {{ARGS}}

# measure this machine
bench *ARGS:
    {{python}} -m echelon_cli.main bench {{ARGS}}

# compile every kernel, or those of modules NAME..., for H100 and H200 without a GPU, and print what each needs
cuda-kernels *NAMES:
    {{python}} -m tests.parity.cuda_kernels {{NAMES}}

# product and test lines, fields, commands and words, beside their limits (.ci/weight.toml)
weight:
    {{python}} .ci/weight.py

# take the pictures of the documents again, all or NAME...
pictures *NAMES:
    {{python}} -m tests.bench.pictures {{NAMES}}

# write the measured figures of docs/results into the documents
figures *ARGS:
    {{python}} docs/results/figures.py {{ARGS}}

# update all golden files (tests/golden, tests/tui/snapshots, viewer/src/protocol.gen.ts) with the current results
golden:
    ECHELON_UPDATE_GOLDEN=1 {{python}} -m pytest tests -m golden

# make the best checkpoint of a run the champion in the box: weights, configuration and a recorded match
champion RUN:
    {{python}} -m echelon.training.champion {{RUN}}

# both README commands, as written, on a clean clone of HEAD
fresh:
    #!/usr/bin/env bash
    set -euo pipefail
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
    git clone --quiet --no-local . "$folder/echelon"
    cd "$folder/echelon"
    mapfile -t commands < <(sed -n '/^```sh$/,/^```$/p' README.md | grep '^python3 -m venv')
    echo "+ ${commands[0]} --minutes 1"
    eval "${commands[0]} --minutes 1"
    rm -rf .venv
    echo "+ ${commands[1]}"
    eval "${commands[1]}"

# up to 78 minutes of training in the league from a fresh quickstart policy, as docs/league.md tells it
league *ARGS:
    #!/usr/bin/env bash
    set -euo pipefail
    echelon() { {{python}} -m echelon_cli.main "$@"; }
    begin() { echelon train --json "$@" | tail -1 | {{python}} -c 'import json, sys; print(json.load(sys.stdin)["id"])'; }
    start=$(begin --preset quickstart --minutes 8)
    main=$(begin --preset league --minutes 25 --start-from "$start" {{ARGS}})
    begin --preset league --opponents exploiter --set opponents.league.target="$main" --start-from "$main" --minutes 10 {{ARGS}}
    begin --resume "$main" --minutes 60
    echelon arena run --rounds 1 --seeds 20 --record-share 0.02
    echelon arena standings
    echelon arena head-to-head
    echelon arena matches --recorded

# compile every kernel for H100 and H200 into the cache FOLDER, to be carried to a machine that has one
cuda-cache FOLDER:
    WARP_CACHE_PATH={{FOLDER}} {{python}} -m tests.parity.cuda_kernels

# on a GPU: PART (parity, scenes or arms) in at most 8 minutes, continued from FOLDER/gpu-PART.json (CONTRIBUTING.md)
gpu PART FOLDER="gpu-results" *ARGS:
    {{python}} -m tests.bench.gpu {{PART}} {{FOLDER}} {{ARGS}}

# train an example with another library, in an environment of its own in FOLDER: just door pufferlib door --steps 500000
door NAME FOLDER *ARGS:
    #!/usr/bin/env bash
    set -euo pipefail
    {{python}} -m venv "{{FOLDER}}"
    pip() { "{{FOLDER}}/bin/python" -m pip install "$@"; }
    pip .
    case "{{NAME}}" in
        cleanrl) ;;
        sb3) pip "stable-baselines3==2.9.2" ;;
        torchrl) pip "torchrl==0.14.1" ;;
        rllib) pip "ray[rllib]==2.60.0" ;;
        # its pins exclude Echelon's: torch 2.9 (fork), numpy below 2 and gymnasium below 1 (PufferLib 3.0)
        pufferlib) pip --no-deps "pufferlib-core==3.0.23" rich-argparse pyro-ppl pyro-api opt-einsum tqdm ninja
            # its compiled part is for CUDA; its source has the one for a CPU
            PATH="$(cd "{{FOLDER}}/bin" && pwd):$PATH" python tests/packaging/pufferlib_cpu.py ;;
        *) echo "door '{{NAME}}' does not exist, expected cleanrl, sb3, torchrl, rllib or pufferlib" >&2; exit 2 ;;
    esac
    "{{FOLDER}}/bin/python" examples/{{NAME}}_ppo.py {{ARGS}}

# train what FOLDER lacks of eight learners x three tasks x five seeds, about 25 CPU minutes a seed (docs/learning.md)
baselines FOLDER *ARGS:
    nice {{python}} -m tests.bench.baselines {{FOLDER}} {{ARGS}}

# build the container image NAME with podman, buildah or docker, whichever is there (docs/install.md)
image NAME="echelon" *ARGS:
    #!/usr/bin/env bash
    set -euo pipefail
    for builder in podman buildah docker; do
        command -v "$builder" >/dev/null || continue
        [ "$builder" != docker ] || docker info >/dev/null 2>&1 || continue
        exec "$builder" build --file Containerfile --tag "{{NAME}}" {{ARGS}} .
    done
    echo "no image was built: neither podman, buildah nor a running docker was found; install one of them" >&2
    exit 1

# build a wheel, with viewer, champion and docs, into dist
wheel:
    {{python}} -m pip wheel --no-deps --wheel-dir dist .

# build the docs site into FOLDER, with warnings as errors
site FOLDER="build/site":
    {{python}} -m mkdocs build --strict --site-dir {{FOLDER}}

# fits the model of the win probability to recorded matches
fit-winprob *ARGS:
    {{python}} -m tests.bench.winprob_fit {{ARGS}}

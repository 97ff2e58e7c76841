"""Observation blocks, reward terms and appearances are complete; each message names what to add, and where."""

import inspect
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

import echelon
from echelon.config import EnvConfig, RewardConfig
from echelon.env import layout, reward
from echelon.env.observe import program
from echelon.sim.arsenal import Chassis, Weapon
from tests.env.battle import Battle
from tests.laws.configs import reward_weights
from tests.oracles import game
from tests.parity.scenes import scatter, snapshots

ROOT = Path(echelon.__file__).parents[1]
OPTIONAL = {block.config_field: True for block in (layout.LOCAL_MAP, *layout.OPTIONAL_BLOCKS)}
SUITE, CLASSIC = EnvConfig(), EnvConfig(obs_layout="classic")
UNWRITTEN = -7.0
"""Outside the bounds of every column."""
TERMINAL_WEIGHTS = {"win", "loss", "draw"}
CORE = "tests/parity/test_sensing.py"
REFERENCES = {
    **dict.fromkeys((block.name for block in layout.SUITE_CORE), CORE),
    **dict.fromkeys(("local_map", "aiming", "course"), CORE),
    **dict.fromkeys(("telemetry", "target", "acoustic", "hull", "self"), "tests/env/test_classic_layout.py"),
    "scope": "tests/env/test_optional_blocks.py",
    "orders": "tests/env/test_orders.py",
}
"""Test file that compares each block with a plain-Python reference."""


def line_of(path: str, text: str) -> str:
    """Return ``path:line`` of the first line that contains ``text``."""
    lines = (ROOT / path).read_text(encoding="utf-8").splitlines()
    return f"{path}:{next((n for n, line in enumerate(lines, 1) if text in line), 1)}"


def every_block() -> list[layout.Block]:
    with_options = [EnvConfig(obs_layout=name, **present(OPTIONAL)) for name in ("suite", "classic")]
    blocks = {block.name: block for cfg in with_options for block in layout.blocks(cfg)}
    return list(blocks.values())


def present(options: dict[str, bool]) -> dict[str, bool]:
    names = {f.name for f in fields(EnvConfig)}
    return {name: value for name, value in options.items() if name in names}


def test_every_optional_block_has_a_config_field():
    names = {f.name for f in fields(EnvConfig)}
    missing = [block for block in layout.OPTIONAL_BLOCKS if block.config_field not in names]
    where = line_of("echelon/config/game.py", "observe_scope: bool")
    assert not missing, "; ".join(
        f"block {block.name!r} has no switch: add `{block.config_field}: bool = False` to EnvConfig, {where}"
        for block in missing
    )


@pytest.mark.parametrize("name", sorted({name for block in every_block() for name in block.writers}))
def test_every_writer_is_a_kernel(name):
    module, _, kernel = name.partition(".")
    where = line_of("echelon/env/layout.py", f'"{name}"')
    assert module in program.MODULES, (
        f"writer {name!r} of {where} is in no module of MODULES, "
        f"{line_of('echelon/env/observe/program.py', 'MODULES = ')}"
    )
    assert hasattr(program.MODULES[module], kernel), (
        f"writer {name!r} of {where} does not exist: add kernel {kernel!r} to echelon/env/observe/{module}.py"
    )


def test_every_block_has_a_reference_test():
    missing = [block.name for block in every_block() if block.name not in REFERENCES]
    where = line_of("tests/env/test_completeness.py", "REFERENCES = {")
    assert not missing, f"blocks {missing} have no reference test: write one and add its file at {where}"
    assert all((ROOT / path).exists() for path in REFERENCES.values())


@pytest.mark.parametrize("obs_layout", ["suite", "classic"])
def test_every_column_is_written(obs_layout):
    battle = Battle(obs_layout=obs_layout, num_packs=2, observation_mode="full", **OPTIONAL)
    scatter(battle, np.random.default_rng(3))
    battle.put("alive", 0, slice(0, 20, 6))
    battle.rows[:] = UNWRITTEN
    battle.observe()
    columns = layout.columns(battle.cfg)
    missing = [columns[c].name for c in np.flatnonzero((battle.obs[0] == UNWRITTEN).any(axis=0))]
    writers = {block.name: block.writers for block in layout.blocks(battle.cfg)}
    assert not missing, "; ".join(
        f"column {name!r} is not written: write it in {' or '.join(writers[name.partition('.')[0].partition('[')[0]])}"
        f" of echelon/env/observe"
        for name in missing[:5]
    )


@pytest.mark.parametrize(
    ("path", "record", "table"),
    [
        ("viewer/src/palette.ts", "WEAPONS", Weapon),
        ("viewer/src/palette.ts", "CHASSIS", Chassis),
        ("viewer/src/render/mech_models.ts", "MODELS", Chassis),
    ],
)
def test_viewer_has_a_row_for_every_weapon_and_class(path, record, table):
    declaration = f"export const {record}: Record<"
    rows = (ROOT / path).read_text(encoding="utf-8").partition(declaration)[2].partition("\n};")[0]
    missing = [item.name.lower() for item in table if f"\n  {item.name.lower()}: {{" not in rows]
    assert not missing, f"the viewer does not draw {missing}: add rows to {record}, {line_of(path, declaration)}"


def test_every_reward_term_has_a_weight():
    names = {f.name for f in fields(RewardConfig)}
    missing = [term.name for term in reward.TERMS if term.name not in names]
    where = line_of("echelon/config/reward.py", "death: Finite")
    assert not missing, f"terms {missing} have no weight: add a Finite field of the same name to RewardConfig, {where}"


def test_every_reward_weight_has_a_term():
    terms = {term.name for term in reward.TERMS}
    missing = [name for name in reward_weights() if name not in terms | TERMINAL_WEIGHTS]
    where = line_of("echelon/env/reward.py", "TERMS: tuple")
    assert not missing, f"weights {missing} have no term: add a kernel and a row of TERMS, {where}"


def test_every_reward_term_has_a_reference():
    where = line_of("tests/oracles/game.py", "amounts = {")
    source = inspect.getsource(game.reward_amounts)
    missing = [term.name for term in reward.TERMS if f'"{term.name}":' not in source]
    assert not missing, f"terms {missing} have no reference: add their amounts to reward_amounts(), {where}"


def test_reward_term_of_weight_zero_is_measured_and_reported():
    battle = Battle(reward=RewardConfig(zone=0.0))
    battle.empty()
    for m, x in ((0, 30), (5, 55)):
        battle.place(m, 2, x, 30)
    battle.step()
    zone = reward.TERM_NAMES.index("zone")
    assert battle["amounts"][0, 0, zone] > 0 and battle["terms"][0, 0, zone] == 0
    assert snapshots(battle)[0].terms.shape[-1] == len(battle.engine.term_names)

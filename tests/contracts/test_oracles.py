"""Every kernel has an oracle or a behavioural test, and every array of the simulator is compared with an oracle.

A new kernel without a row of ``ORACLES`` fails here, and so does a row whose test is gone. A new array fails until a
test of ``ORACLES`` compares it by name.
"""

from __future__ import annotations

import ast
from itertools import groupby
from pathlib import Path

from echelon.sim import state
from echelon.sim.structs import fields_of, is_array_struct
from tests.contracts.test_kernels import FUNCTIONS

ROOT = Path(__file__).resolve().parents[2]
LEVELS = "agents/test_levels_oracle.py::test_targets_match_oracle"
MOVED = "agents/test_levels_oracle.py::test_movement_plan_and_throttles_match_oracle"
TRIGGERS = "agents/test_levels_oracle.py::test_weapons_and_systems_match_oracle"
COUNTS = "arena/test_match.py::test_statistics_match_replay_events"
COLUMNS = "parity/test_sensing.py::test_observation_columns_match_oracle"
CLASSIC = "env/test_classic_layout.py::test_classic_columns_match_the_reference_implementation"
MAP = "env/test_classic_layout.py::test_telemetry_map_is_built_once_per_episode_and_updated_where_voxels_change"
REFEREE = "env/test_referee.py::test_outcomes_and_flags_match_the_reference_on_random_states"
REWARD = "env/test_reward.py::test_reward_terms_match_the_reference_through_whole_fights"
FRAMES = "replay/test_record.py::test_frames_match_simulator_state_within_one_quantum"
SHOTS = "parity/test_combat.py::test_weapons_phase_matches_oracle"
ROUNDS = "parity/test_combat.py::test_projectile_phase_matches_oracle"
MOVES = "parity/test_combat.py::test_movement_matches_oracle"
UPKEEP = "parity/test_upkeep.py::test_upkeep_matches_oracle"
CONTROLS = "parity/test_upkeep.py::test_controls_match_oracle"
SEES = "parity/test_sensing.py::test_visibility_matches_oracle"
ORDERED = "env/test_orders.py::test_goals_obedience_and_columns_match_the_reference"
FRESH = "sim/test_spawn.py::test_reset_clears_every_array_that_the_next_episode_reads"
SPAWN = "sim/test_spawn.py::test_spawn_matches_oracle"

ORACLES: dict[str, str] = {
    "run_on_host": "training/test_loss_program.py::test_terms_and_gradients_of_a_program_are_those_of_the_modules",
    "explain_triggers": "play/test_triggers.py::test_weapon_without_a_reason_is_one_that_the_kernel_fires",
    **dict.fromkeys(["record_history", "record_perception", "update_tracks"], LEVELS),
    **dict.fromkeys(["choose_pack_targets", "choose_target"], LEVELS),
    **dict.fromkeys(["plan_movement", "steer"], MOVED),
    "avoid_collisions": "agents/test_levels_oracle.py::test_collision_avoidance_matches_oracle",
    **dict.fromkeys(["control_weapons", "control_systems", "deploy_smoke"], TRIGGERS),
    "detect_stuck": "agents/test_unstick.py::test_stuck_detection_accounts_for_leg_loss_and_water",
    **dict.fromkeys(["count_decision", "count_hits", "count_shots", "name_killers", "name_hazards"], COUNTS),
    **dict.fromkeys(["record_deaths", "record_hits", "record_launches", "record_impacts", "record_defence"], COUNTS),
    "blend_navigation": "env/test_navigation_assist.py::test_navigation_assist_blends_throttles_like_the_reference",
    "run_launches": "sim/test_cpu_kernels.py::test_native_program_runs_launches_in_order_each_time",
    "store_tracks": "parity/test_sensing.py::test_tracks_gain_one_row_per_decision",
    "clear_tracks": "env/test_display.py::test_masked_reset_clears_contact_memory_of_that_environment_only",
    "allocate_by_quota": "parity/test_sensing.py::test_contact_slots_match_oracle",
    **dict.fromkeys(
        ["write_ego_state", "write_descriptor_and_panel", "write_ego_senses", "write_contacts", "write_squad"], COLUMNS
    ),
    **dict.fromkeys(["write_local_map", "write_aiming", "write_course"], COLUMNS),
    **dict.fromkeys(
        ["write_self_state", "write_self_match", "write_self_senses", "write_target", "write_telemetry"], CLASSIC
    ),
    **dict.fromkeys(["build_telemetry_map", "mark_damaged_bins", "update_telemetry_map"], MAP),
    **dict.fromkeys(
        ["update_scope", "write_scope"], "env/test_optional_blocks.py::test_scope_shows_sector_levels_and_their_changes"
    ),
    **dict.fromkeys(["update_orders", "write_orders", "term_obey"], ORDERED),
    "reset_orders": "env/test_orders.py::test_same_order_again_keeps_its_place_and_a_reset_ends_it",
    "allocate_by_suite": "env/test_suite_allocation.py::test_suite_slots_match_the_reference",
    "update_known_since": "env/test_suite_allocation.py::test_known_since_is_the_first_step_of_a_contact",
    "replace_nonfinite": "env/test_classic_layout.py::test_nonfinite_observation_entries_become_zero_and_are_counted",
    **dict.fromkeys(["update_outcome", "reset_returns", "set_done_flags", "accumulate_returns"], REFEREE),
    **dict.fromkeys(["store_potential", "combine_terms", "term_approach", "term_zone", "term_zone_lead"], REWARD),
    **dict.fromkeys(["term_damage", "term_count", "term_death"], REWARD),
    "record_policy": "replay/test_policy_columns.py::test_contact_and_sees_columns_match_start_of_step",
    **dict.fromkeys(["finish_frame", "record_clouds", "record_condition", "record_motion"], FRAMES),
    **dict.fromkeys(["clear_decision", "read_choices", "read_motion"], CONTROLS),
    **dict.fromkeys(
        [
            "choose_targets",
            "fire_weapons",
            "apply_hits",
            "resolve_deaths",
            "credit_hits",
            "stamp_wrecks",
            "clear_dying",
        ],
        SHOTS,
    ),
    **dict.fromkeys(["fly", "guide", "defend", "burst_smoke", "damage_terrain", "compute_splash"], ROUNDS),
    **dict.fromkeys(["move", "accelerate", "find_near", "move_apart", "move_near"], MOVES),
    "land": "parity/test_combat.py::test_landings_match_oracle",
    **dict.fromkeys(["timers", "thermals", "balance"], UPKEEP),
    "clock": "parity/test_upkeep.py::test_clock_advances_and_ages_smoke",
    **dict.fromkeys(["sense_sight", "sense_visible"], SEES),
    **dict.fromkeys(["sense_quality"], "parity/test_sensing.py::test_sensor_quality_matches_oracle"),
    "sense_for_launch": SHOTS,
    **dict.fromkeys(["begin_episode", "load_map", "place_mechs"], SPAWN),
    **dict.fromkeys(["fresh_mechs", "reset_pilots"], FRESH),
}
"""Kernel -> test that compares it with an oracle, or with the behaviour that is expected of it."""

SETTING = "a setting that no kernel writes"
JOURNALED = "statistics and replays that read it are compared with the battle (arena/test_match.py)"
SCRATCH = "of one phase; the hits, damage and terrain that follow from it are compared"
NOT_COMPARED: dict[str, str] = {
    **dict.fromkeys(("env_index", "forced_seed", "forced_slot", "packs", "withhold"), SETTING),
    **dict.fromkeys(fields_of(state.Journal), JOURNALED),
    **dict.fromkeys(("ams_shot",), JOURNALED),
    **dict.fromkeys(
        (*fields_of(state.Hits), *fields_of(state.Blasts), *fields_of(state.Paths), "aim", "assist_to"), SCRATCH
    ),
    "withheld": "a copy of withhold; tests/sim/test_variants.py plays without each mechanic",
}
"""Array that no oracle compares -> why."""


def kernels() -> dict[str, Path]:
    """Return the file of every kernel of the package by name."""
    found = [function for function in FUNCTIONS if function.is_kernel]
    files = {function.name: function.path for function in found}
    assert len(files) == len(found), "two kernels have one name"
    return files


def test_every_kernel_names_its_oracle_test():
    found = kernels()
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    table = next(number for number, line in enumerate(lines, 1) if line.startswith("ORACLES"))
    missing = [f"{name} ({path.relative_to(ROOT)})" for name, path in found.items() if name not in ORACLES]
    assert not missing, f"kernels without an oracle test {missing}: add rows to ORACLES, {__file__}:{table}"
    assert sorted(ORACLES.keys() - found.keys()) == [], "rows of ORACLES name kernels that do not exist"


def test_oracle_test_of_each_kernel_exists_and_runs():
    wrong = []
    for file, names in groupby(sorted(set(ORACLES.values())), key=lambda test: test.partition("::")[0]):
        tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
        tests = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        for test in names:
            node = tests.get(test.partition("::")[2])
            marks = "missing" if node is None else " ".join(ast.unparse(mark) for mark in node.decorator_list)
            wrong += [test for word in ("missing", "xfail", "skip", "slow", "bench") if word in marks]
    assert wrong == [], "these tests are missing or do not run by default"


def arrays() -> dict[str, str]:
    """Every array that a kernel of the simulator writes, with the name of its struct; the map bank is input."""
    structs = [value for value in vars(state).values() if is_array_struct(value) and value is not state.MapArrays]
    return {name: struct.key for struct in structs for name in fields_of(struct)}


def compares(node: ast.AST) -> bool:
    """Whether a node is an assert statement or a call to a function whose name starts with ``assert_``."""
    if isinstance(node, ast.Call):
        return ast.unparse(node.func).rpartition(".")[2].startswith("assert_")
    return isinstance(node, ast.Assert)


def compared_names(tree: ast.Module) -> set[str]:
    """Strings and attributes in the comparisons of a module, in loops over them, and in the tuples they name."""
    tuples = {ast.unparse(node.targets[0]): node.value for node in tree.body if isinstance(node, ast.Assign)}
    sources: list[ast.AST] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.For) and any(compares(inner) for inner in ast.walk(node)):
            sources.append(node.iter)
        elif compares(node):
            sources.append(node)
    parts = [part for source in sources for part in ast.walk(source)]
    used = [tuples[part.id] for part in parts if isinstance(part, ast.Name) and part.id in tuples]
    parts += [part for value in used if isinstance(value, ast.Tuple) for part in ast.walk(value)]
    strings = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
    return strings | {part.attr for part in parts if isinstance(part, ast.Attribute)}


def test_every_array_is_compared_with_an_oracle():
    files = sorted({test.partition("::")[0] for test in ORACLES.values()})
    compared = set.union(*(compared_names(ast.parse((ROOT / "tests" / file).read_text("utf-8"))) for file in files))
    known = arrays()
    missing = [f"{name} of {struct}" for name, struct in known.items() if name not in compared | NOT_COMPARED.keys()]
    assert not missing, (
        f"no oracle test compares {missing}: write them in the oracle of the kernel that writes them (tests/oracles) "
        "and add their names to the assert_same of its test (tests/parity), or to NOT_COMPARED with a reason, "
        "tests/contracts/test_oracles.py"
    )
    assert sorted(NOT_COMPARED.keys() - known.keys()) == [], "rows of NOT_COMPARED name arrays that do not exist"
    assert sorted(NOT_COMPARED.keys() & compared) == [], "rows of NOT_COMPARED name arrays that a test compares"

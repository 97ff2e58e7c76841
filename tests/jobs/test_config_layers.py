"""Layers of a configuration and its error messages."""

import contextlib
import json
import os
import tracemalloc
from collections.abc import Iterator

import pytest

from echelon.jobs.config_layers import (
    LINKED,
    ConfigError,
    default_values,
    flatten,
    parse_assignment,
    resolve,
    unflatten,
)


def test_later_layers_override_and_set_provenance(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('seed = 5\ndevice = "cpu"\n[ppo]\nlr = 0.01\n[env]\ngamma = 0.8\n')
    resolved = resolve("quickstart", file, {"ppo.lr": 0.02, "ppo.gamma": 0.9})
    assert resolved.values["env.gamma"] == 0.9, "linked values too"
    assert (resolved.config.seed, resolved.config.device, resolved.config.ppo.lr) == (5, "cpu", 0.02)
    assert (resolved.provenance["seed"], resolved.provenance["ppo.lr"]) == ("file", "--set")
    assert resolved.provenance["total_steps"] == "preset"
    assert "model.kind" not in resolved.provenance


def test_config_file_may_name_preset(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text('preset = "nonsense"\n')
    with pytest.raises(ConfigError, match="nonsense"):
        resolve(None, file)
    assert resolve("quickstart", file).config.preset == "quickstart"


@pytest.mark.parametrize(("key", "other"), [pair for one in LINKED for pair in (one, one[::-1])])
def test_linked_values_are_copied_unless_both_are_set(key, other):
    resolved = resolve(overrides={key: 0.9})
    assert resolved.values[key] == resolved.values[other] == 0.9
    assert resolved.provenance[other] == "--set"
    with pytest.raises(ConfigError, match="expected ppo.gamma"):
        resolve(overrides={key: 0.9, other: 0.8})


def test_resolve_layers_over_base_config():
    first = resolve(overrides={"seed": 9})
    again = resolve(overrides={"max_minutes": 30.0}, base=first.nested(), base_provenance=first.provenance)
    assert (again.config.seed, again.config.max_minutes) == (9, 30.0)
    assert again.provenance["seed"] == "--set"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("ppo.lr=1e-4", 1e-4),
        ("ppo.obs_norm=true", True),
        ("device=cuda:1", "cuda:1"),
        ('device="cpu"', "cpu"),
        ("seed = 3 ", 3),
        ("device=a=b", "a=b"),
    ],
)
def test_parse_assignment_reads_toml_or_plain_text(text, value):
    assert parse_assignment(text)[1] == value


def test_resolve_accepts_ranges_as_lists():
    given = dict([parse_assignment("env.map_size_range=[40, 60]"), parse_assignment("env.num_packs=2")])
    resolved = resolve(overrides={**given, "env.packs_per_team_range": [1, 2]})
    assert resolved.config.env.map_size_range == (40, 60) and resolved.config.env.packs_per_team_range == (1, 2)
    again = resolve(base=json.loads(json.dumps(resolved.nested())))
    assert again.config == resolved.config


@pytest.mark.parametrize(
    ("key", "value", "names"),
    [
        ("ppo.lrr", 1, "did you mean 'ppo.lr'"),
        ("lr", 1, "did you mean 'ppo.lr'"),
        ("preset", "quickstart", "--preset"),
        ("env.world", 1, "section"),
        ("ppo.lr", "fast", "ppo.lr is 'fast' (from --set), expected"),
        ("threads", "abc", "threads is 'abc' (from --set), expected"),
        ("num_envs", True, "num_envs is True"),
        ("seed", 1.5, "seed is 1.5"),
        ("model.kind", "huge", "model.kind is 'huge' (from --set), expected 'suite' or 'classic'"),
        ("ppo.ent_coef_end", "low", "ppo.ent_coef_end is 'low'"),
        ("ppo.clip_coef", -1, "ppo.clip_coef is -1"),
        ("ppo.lr", float("nan"), "ppo.lr is nan"),
        ("env.map_size_range", [50, 40], "env.map_size_range is (50, 40), expected the minimum first"),
        ("env.map_size_range", [40, 500], "env.map_size_range is (40, 500), expected 20 to 60, the capacity"),
        ("env.map_size_range", 40, "env.map_size_range is 40"),
        ("env.packs_per_team_range", [1, 2], "env.packs_per_team_range is (1, 2), expected 1 to 1, the capacity"),
        ("bank_refresh_every", -1, "bank_refresh_every is -1 (from --set), expected 0 to 1,000,000,000"),
        ("", 1, "'' (from --set) does not exist"),
        ("opponents.mix", {"past": 0.3}, "opponents.mix is {'past': 0.3} (from --set), expected one of"),
        ("opponents.mix", [1], "opponents.mix is [1] (from --set), expected one of"),
        ("ppo.lr", {}, "ppo.lr is {} (from --set), expected one value"),
    ],
)
def test_invalid_override_names_key_value_and_expectation(key, value, names):
    with pytest.raises(ConfigError) as caught:
        resolve(overrides={key: value})
    assert names in str(caught.value) and "\n" not in str(caught.value)


def test_flatten_unflatten_round_trip():
    flat = dict(default_values())
    assert flatten(unflatten(flat)) == flat


def test_profile_name_expands_section_and_single_values_override():
    resolved = resolve(overrides={"opponents.mix.past": 0.7, "opponents.mix": "self"})
    mix = resolved.config.opponents.mix
    assert (mix.scripted, mix.self_play, mix.past) == (0.0, 1.0, 0.7)
    assert resolved.provenance["opponents.mix.self_play"] == "--set"
    with pytest.raises(ConfigError, match="opponents.mix is 'loud' .* expected one of scripted, self"):
        resolve(overrides={"opponents.mix": "loud"})


def test_none_is_null_for_optional_fields_only():
    resolved = resolve("quickstart", None, {"ppo.lr_schedule": "none", "ppo.ent_coef_end": "none"}).config.ppo
    assert (resolved.lr_schedule, resolved.ent_coef_end) == ("none", None)


@pytest.mark.parametrize("key", ["turbo", "ppo.turbo"])
def test_unknown_key_of_other_version_is_named(key):
    with pytest.raises(ConfigError, match=f"config key '{key}' does not exist in this version"):
        resolve(base=unflatten({**resolve().values, key: 1}))


@contextlib.contextmanager
def bounded_memory(limit: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < limit
    finally:
        tracemalloc.stop()


HOSTILE_FILES = {
    "a value is missing": "seed = ",
    "no UTF-8": "\udcff\udcfe",
    "a key is there twice": "[ppo]\nlr = 1\nlr = 2\n",
    "one key of many parts": "a" + ".a" * 15_000 + " = 1",
    "a section of many parts": "[a" + ".a" * 15_000 + "]",
    "many keys of many parts": "\n".join(f"a{n}" + ".a" * 99 + " = 1" for n in range(300)),
    "many keys in a section of many parts": "[a" + ".a" * 99 + "]\n" + "\n".join(f"a{n}.b=1" for n in range(6000)),
    "within a string that spans lines": 'x = {s = """\n# """, a' + ".a" * 15_000 + " = 1}",
    "many keys in a section of a long name": "[" + "a" * 30_000 + "]\n" + "\n".join(f"b{n}=1" for n in range(4000)),
}


@pytest.mark.parametrize("text", HOSTILE_FILES.values(), ids=HOSTILE_FILES)
def test_damaged_or_hostile_file_is_one_line_error_in_bounded_memory(tmp_path, text):
    file = tmp_path / "run.toml"
    file.write_bytes(os.fsencode(text))
    resolve("quickstart")
    with bounded_memory(64 << 20), pytest.raises(ConfigError, match=r"run\.toml|from file") as caught:
        resolve("quickstart", file)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 1000


def test_line_may_have_as_many_dots_as_a_list_of_numbers_needs(tmp_path):
    with pytest.raises(ConfigError, match="has 15000 dots, expected at most 100"):
        parse_assignment("env={a" + ".a" * 15_000 + "=1}")
    file = tmp_path / "run.toml"
    file.write_text("# " + "." * 98 + "\nppo.lr = 0.002\n")
    assert resolve("quickstart", file).config.ppo.lr == 0.002


def test_stored_configuration_with_a_long_section_is_flattened_in_bounded_memory():
    nested = {"a" * 300_000: {f"b{n}": 1 for n in range(2000)}, "ppo": {"lr": 0.1}}
    with bounded_memory(4 << 20):
        flat = flatten(nested)
    assert flat["ppo.lr"] == 0.1 and max(map(len, flat)) <= 257


def test_keys_named_now_are_those_of_file_and_set(tmp_path):
    file = tmp_path / "own.toml"
    file.write_text("[opponents.league]\nsigma = 100.0\n")
    base = {"opponents": {"league": {"path": "/elsewhere/league.db"}}}
    earlier = {"opponents.league.path": "--set"}
    resolved = resolve(None, file, {"seed": 3}, base=base, base_provenance=earlier)
    assert resolved.named == {"opponents.league.sigma", "seed"}
    assert resolved.values["opponents.league.path"] == "/elsewhere/league.db"

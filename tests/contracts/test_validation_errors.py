"""Values that do not fit are worded by ``echelon.validation``: place, value and expectation, no library's words."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import msgpack
import pytest

from echelon.arena.batches import Batch
from echelon.arena.submit import league_env_of
from echelon.atlas import world_file
from echelon.config import EnvConfig, ModelConfig
from echelon.demos import format as demos
from echelon.jobs.config_layers import resolve
from echelon.jobs.sweeps.plan import SweepPlan
from echelon.play.config import PlayConfig
from echelon.play_protocol import CLIENT_TYPES, parse_client
from echelon.replay import validate as replay
from echelon.rl.weights import policy_from
from echelon.training.eval_job import EvalPlan
from echelon.training.policy_agent import env_config_of
from echelon.validation import expectation, validated

ROOT = Path(__file__).resolve().parents[2]
OTHER_USES = {
    "echelon/validation.py": "the words themselves",
    "echelon/jobs/config_layers.py": "names the layer that a value is from, and of two linked keys the user's",
    "echelon/jobs/evaluations.py": "passes over records that do not fit",
}
LIBRARY_WORDS = re.compile(r"should be|\bvalid\b|Value error|validation|required|permitted|pydantic|instance|type=|\n")
LIBRARY_NAMES = re.compile(r"\b(\w*(?<!HF)ValidationError|model_validate|validate_python)\b")
WRONG: tuple[Any, ...] = (None, True, -1, 0.5, 10**12, float("nan"), "x\n", [], [None], {}, {"x": 1}, b"x")


def header(values: dict[str, Any]) -> None:
    replay.parse_header({"schema": [replay.SCHEMA_MAJOR, 0], **values}, "m.ecr")


def message(kind: str) -> Callable[[dict[str, Any]], Any]:
    return lambda values: parse_client(msgpack.packb({**values, "t": kind}))


def names(kind: Any) -> list[str]:
    return list(getattr(kind, "model_fields", None) or [field.name for field in fields(kind)])


READERS: dict[str, tuple[Callable[[dict[str, Any]], Any], Iterable[str]]] = {
    "evaluation plan": (EvalPlan.from_dict, names(EvalPlan)),
    "sweep plan": (lambda values: SweepPlan.from_dict({"base": {}, **values}), names(SweepPlan)),
    "batch of matches": (Batch.from_dict, names(Batch)),
    "league's game": (league_env_of, names(EnvConfig)),
    "play options": (PlayConfig.from_dict, names(PlayConfig)),
    "demonstrations": (lambda values: validated(demos.Manifest, values), names(demos.Manifest)),
    "checkpoint's game": (lambda values: env_config_of({"env_cfg": values}), names(EnvConfig)),
    "checkpoint's model": (lambda values: policy_from({"model_cfg": values}, {}), names(ModelConfig)),
    "replay header": (header, names(replay._Header)),
    "world recipe": (lambda values: world_file._rebuild_map(values, b""), names(world_file._Recipe)),
    "configuration": (lambda values: resolve(overrides=values), ("num_envs", "ppo.lr", "env.gamma", "model.kind")),
    **{f"message {kind}": (message(kind), names(model)) for kind, model in CLIENT_TYPES.items()},
}


@pytest.mark.parametrize(("read", "keys"), READERS.values(), ids=READERS)
def test_values_that_do_not_fit_are_one_line_without_the_librarys_words(read, keys):
    found = set()
    for values in ({}, {"nosuch": 1}, *({key: value} for key in keys for value in WRONG)):
        try:
            read(values)
        except (ValueError, TypeError) as error:
            found.add(str(error))
    assert found
    assert list(filter(LIBRARY_WORDS.search, found)) == []


def test_no_reader_words_errors_of_validation_itself():
    files = [path for package in ("echelon", "echelon_cli") for path in (ROOT / package).rglob("*.py")]
    used = {str(path.relative_to(ROOT)) for path in files if LIBRARY_NAMES.search(path.read_text(encoding="utf-8"))}
    assert used == OTHER_USES.keys()


EXPECTATIONS = {
    "Input should be a valid integer, unable to parse string as an integer": "an integer",
    "Input should be a valid integer, got a number with a fractional part": "an integer",
    "Unable to parse input string as an integer, exceeded maximum size": "a smaller integer",
    "Input should be a valid number": "a number",
    "Input should be a valid list": "a list",
    "Input should be a dictionary or an instance of EvalPlan": "an object",
    "Input should be greater than or equal to 1": "at least 1",
    "Input should be less than 1": "less than 1",
    "Input should be 'suite' or 'classic'": "'suite' or 'classic'",
    "String should have at most 3 characters": "at most 3 characters",
    "List should have at least 2 items after validation, not 0": "at least 2 items",
    "String should match pattern '^a'": "text that matches '^a'",
    "Value error, size should be 5, expected more": "size should be 5, expected more",
}


@pytest.mark.parametrize(("theirs", "ours"), EXPECTATIONS.items())
def test_expectation_has_our_words(theirs, ours):
    assert expectation(theirs) == ours


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (None, "it is None, expected an object"),
        ({"seeds": "x"}, "seeds is 'x', expected an integer"),
        ({"opponents": [1, 2]}, "opponents.0 is 1, expected text"),
        ({"size": {}}, "size is {}, expected an integer"),
        ({}, "target is missing"),
    ],
    ids=str,
)
def test_fault_names_the_place_in_the_values(values, message):
    whole = {"target": "a", "target_policy": None, "opponents": [], "seeds": 1, "batch_seeds": 1, "weapon_prob": 1.0}
    with pytest.raises(ValueError) as caught:
        validated(EvalPlan, {**whole, **values} if values else values)
    assert str(caught.value) == message

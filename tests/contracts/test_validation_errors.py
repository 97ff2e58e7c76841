"""Values that do not fit are one line of ``echelon.validation``: place, value and expectation."""

from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import Any

import msgpack
import pytest

from echelon import demos
from echelon.arena.batches import MatchBatch
from echelon.arena.submit import league_env_of
from echelon.config import EnvConfig, ModelConfig
from echelon.jobs.config_layers import resolve
from echelon.jobs.sweeps.plan import SweepPlan, plan_from
from echelon.play.config import PlayConfig
from echelon.play_protocol import CLIENT_TYPES, parse_client
from echelon.replay import validate as replay
from echelon.replay.schema import SCHEMA_MAJOR
from echelon.rl.weights import policy_from
from echelon.training.eval_plan import EvalPlan
from echelon.training.policy_agent import env_config_of
from echelon.validation import validated

WRONG: tuple[Any, ...] = (None, True, -1, 0.5, 10**12, float("nan"), "x\n", [], [None], {}, {"x": 1}, b"x")


def header(values: dict[str, Any]) -> None:
    replay.parse_header({"schema": [SCHEMA_MAJOR, 0], **values}, "m.ecr")


def message(kind: str) -> Callable[[dict[str, Any]], Any]:
    return lambda values: parse_client(msgpack.packb({**values, "t": kind}))


def names(kind: Any) -> list[str]:
    return list(getattr(kind, "model_fields", None) or [field.name for field in fields(kind)])


READERS: dict[str, tuple[Callable[[dict[str, Any]], Any], Iterable[str]]] = {
    "evaluation plan": (EvalPlan.from_dict, names(EvalPlan)),
    "sweep plan": (lambda values: plan_from({"base": {}, **values}), names(SweepPlan)),
    "batch of matches": (lambda values: validated(MatchBatch, values), names(MatchBatch)),
    "league's game": (league_env_of, names(EnvConfig)),
    "play options": (lambda values: validated(PlayConfig, values), names(PlayConfig)),
    "demonstrations": (lambda values: validated(demos.Manifest, values), names(demos.Manifest)),
    "checkpoint's game": (lambda values: env_config_of({"env_cfg": values}), names(EnvConfig)),
    "checkpoint's model": (lambda values: policy_from({"model_cfg": values}, {}), names(ModelConfig)),
    "replay header": (header, names(replay.Header)),
    "configuration": (lambda values: resolve(overrides=values), ("num_envs", "ppo.lr", "env.gamma", "model.kind")),
    **{f"message {kind}": (message(kind), names(model)) for kind, model in CLIENT_TYPES.items()},
}


@pytest.mark.parametrize(("read", "keys"), READERS.values(), ids=READERS)
def test_values_that_do_not_fit_are_one_line(read, keys):
    found = set()
    for values in ({}, {"nosuch": 1}, *({key: value} for key in keys for value in WRONG)):
        try:
            read(values)
        except (ValueError, TypeError) as error:
            found.add(str(error))
    assert found
    assert [text for text in found if "\n" in text or "pydantic" in text] == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (None, "it is None, expected a dictionary or an instance of EvalPlan"),
        ({"seeds": "x"}, "seeds is 'x', expected a valid integer, unable to parse string as an integer"),
        ({"opponents": [1, 2]}, "opponents.0 is 1, expected a valid string"),
        ({"size": {}}, "size is {}, expected a valid integer"),
        ({}, "seeds is missing"),
    ],
    ids=str,
)
def test_fault_names_the_place_in_the_values(values, message):
    whole = {"target": "a", "target_policy": None, "opponents": [], "seeds": 1, "batch_seeds": 1, "weapon_prob": 1.0}
    with pytest.raises(ValueError) as caught:
        validated(EvalPlan, {**whole, **values} if values else values)
    assert str(caught.value) == message

"""The ladder score of a run, against a plain mean and against incomplete ladders."""

import math

import pytest

from echelon.telemetry.evaluations import YARDSTICK, ladder_score
from echelon.telemetry.events import EventEval
from echelon.training.evaluation import YARDSTICK as PLAYED


def result(opponent: str, wins: float, update: int = 9, **values) -> EventEval:
    values = {"episodes": 100, "global_step": 1, "purpose": "report", **values}
    return EventEval(update=update, opponent=opponent, win_rate=wins, **values)


WINS = (1.0, 0.9, 0.8, 0.6, 0.5, 0.4)
LADDER = [result(name, wins) for name, wins in zip(YARDSTICK, WINS, strict=True)]


def test_ladder_score_is_the_mean_over_the_opponents_of_the_ladder_command():
    assert [name.removeprefix("heuristic:") for name in YARDSTICK] == list(PLAYED)
    score = ladder_score(LADDER)
    assert score.value == pytest.approx(sum(WINS) / 6) and score.low < score.value < score.high
    assert score.high - score.low == pytest.approx(
        2 * 1.96 * math.sqrt(sum(w * (1 - w) for w in WINS) / 100) / 6, rel=0.1
    )


@pytest.mark.parametrize(
    "missing",
    [
        LADDER[1:],
        [*LADDER, result(YARDSTICK[0], 1.0, update=10)],
        [*LADDER[1:], result(YARDSTICK[0], 1.0, weapon_prob=0.3)],
        [*LADDER[1:], result(YARDSTICK[0], 1.0, deterministic=False)],
        [],
    ],
    ids=["an opponent", "of the newest checkpoint", "at full trigger probability", "with mean actions", "all"],
)
def test_incomplete_ladder_has_no_score(missing):
    assert math.isnan(ladder_score(missing).value)


def test_results_of_several_jobs_on_one_checkpoint_are_combined():
    older = [result(name, 0.0, update=3) for name in YARDSTICK]
    again = [*older, *LADDER[3:], *LADDER[:3], result(YARDSTICK[5], 0.7)]
    assert ladder_score(again).value == pytest.approx((sum(WINS) + 0.3) / 6)

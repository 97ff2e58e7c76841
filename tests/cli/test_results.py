"""Reference results are repeated by their commands, and a figure that does not repeat is named."""

import json
import shlex

import pytest

from echelon_cli import output
from echelon_cli.commands import results
from echelon_cli.main import COMMANDS
from tests.cli.conftest import parsed

EVAL = "eval heuristic:easy --seeds 2 --opponent heuristic:trivial --threads 1"


@pytest.fixture
def stated(tmp_path, monkeypatch):
    """Write a result file with one row, whose win rate is given [%]."""

    def write(value: float) -> None:
        row = {"row": "easy", "column": "mean", "value": value, "interval": None}
        content = {"results": [row], "checks": {"easy": {"eval": EVAL, "matches": 200}}}
        (tmp_path / "pilots.json").write_text(json.dumps(content))
        monkeypatch.setattr(results, "folder", lambda: tmp_path)

    return write


def test_a_result_is_repeated_and_one_that_differs_fails(echelon, stated):
    code, out, err = echelon(*shlex.split(EVAL), "--json")
    assert code == output.DONE, err
    again = 100.0 * parsed(out)["win_rate"]
    stated(again)
    code, out, err = echelon("results", "check", "pilots", "--json")
    assert code == output.DONE, err
    (found,) = parsed(out)
    assert (found["stated"], found["again"], found["ok"]) == (again, again, True)
    share = min(max(again / 100.0, 0.0025), 0.9975)
    assert found["tolerance"] == pytest.approx(257.6 * (2 * share * (1 - share) / 200) ** 0.5)
    stated(again - 30.0)
    code, out, _ = echelon("results", "check", "pilots")
    assert code == 1 and out.rstrip().endswith("differs")


def test_every_check_is_a_command_of_a_row(echelon):
    code, out, _ = echelon("results", "check", "--json")
    assert code == output.DONE and "champion" in {row["name"] for row in parsed(out)}
    for name, content in results.read_checks().items():
        rows = {check for check, kind in map(results.check_of, content["results"]) if kind in results.FIELDS}
        for row, how in content["checks"].items():
            assert row in rows, name
            assert {how["eval"].split()[0], how.get("train", "train").split()[0]} <= COMMANDS.keys()
            assert how["matches"] == 2 * int(shlex.split(how["eval"])[shlex.split(how["eval"]).index("--seeds") + 1])


def test_unknown_results_are_named(echelon):
    code, _, err = echelon("results", "check", "champoin")
    assert code == output.USAGE and "result 'champoin' has no commands, did you mean 'champion'? (have: " in err

"""``echelon runs export``: a run's curves outside the dashboard."""

import csv

from tests.cli.conftest import parsed


def test_export_writes_csv(echelon, ended_run, tmp_path):
    ended_run("20260101-000000-quickstart-calm-fox", wins=0.6)
    printed = parsed(echelon("runs", "export", "fox", "--csv", str(tmp_path / "run.csv"), "--json")[1])
    assert printed["csv"] == {"path": str(tmp_path / "run.csv"), "lines": 2}
    with open(tmp_path / "run.csv", newline="") as file:
        *_, last = csv.DictReader(file)
    assert (last["global_step"], last["train/avg_return"], last["eval/win_rate"]) == ("400", "1.5", "0.6")

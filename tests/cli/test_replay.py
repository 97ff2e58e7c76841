"""``echelon replay`` lists matches and says what is in one, whole or cut."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest

from echelon.replay.schema import MAGIC
from echelon.replay.winprob import FEATURES, load_model
from echelon.runs import find_run
from echelon_cli import output
from echelon_cli.commands import serve
from tests.bench import winprob_fit
from tests.replay.golden import EXPECTED, SMALL
from tests.replay.test_winprob import sampled

RUN = "20260101-000000-quickstart-calm-otter"


@pytest.fixture
def recorded(ended_run):
    """A run with one match."""
    paths = ended_run(RUN)
    paths.replays.mkdir()
    return Path(shutil.copy(SMALL, paths.replays / "u000004-s1-blue.ecr"))


def test_replay_list_filters_by_run(echelon, recorded, ended_run):
    ended_run("20260102-000000-quickstart-bold-fox")
    code, out, _ = echelon("replay", "list")
    assert code == output.DONE and RUN in out and "u000004-s1-blue.ecr" in out and "red (zone held)" in out
    code, out, _ = echelon("replay", "list", "bold-fox")
    assert code == output.DONE and "no recorded matches in 20260102-000000-quickstart-bold-fox" in out
    code, out, _ = echelon("replay", "list", "calm-otter", "--json")
    (row,) = json.loads(out)
    assert row["run"] == RUN and row["winner"] == "red" and row["complete"] and not row["live"]


def test_find_replay_accepts_file_id_name_and_run(echelon, recorded):
    _, out, _ = echelon("replay", "list", "--json")
    ident = json.loads(out)[0]["id"]
    answers = [
        json.loads(echelon("replay", "info", name, "--json")[1]) for name in (str(recorded), ident, RUN, "latest")
    ]
    assert answers[0] == answers[1] == answers[2] == answers[3]
    expected = json.loads(EXPECTED.read_text())
    assert answers[0]["score"] == expected["index"]["outcome"]["score"]
    assert answers[0]["seconds"] == expected["index"]["outcome"]["ticks"] / 20
    assert answers[0]["winner"] == "red" and answers[0]["mechs"] == 10
    assert len(answers[0]["kills"]) == 10 - sum(answers[0]["alive"])


def test_copied_run_folder_names_the_copy(echelon, recorded, tmp_path, monkeypatch):
    copy = tmp_path / "copied" / RUN
    shutil.copytree(find_run(RUN).root, copy)
    assert echelon("replay", "info", str(copy), "--json")[1] == echelon("replay", "info", RUN, "--json")[1].replace(
        str(recorded), str(copy / "replays" / recorded.name)
    )
    recorded.unlink()
    (row,) = json.loads(echelon("replay", "list", str(copy), "--json")[1])
    served = []
    monkeypatch.setattr("echelon.server.app.serve", lambda home, **_: served.append(home))
    assert echelon("watch", str(copy), "--no-open")[0] == 0 and served == [copy.parent]
    assert serve.fragment_of(str(copy), follow=False) == f"#match={row['id']}"


def test_replay_info_prints_summary(echelon, recorded):
    code, out, _ = echelon("replay", "info", str(recorded))
    assert code == output.DONE
    for words in ("Blue, Red", "red (zone held)", "complete", "36x36x12", "killer"):
        assert words in out


def test_truncated_replay_is_shown_to_last_chunk(echelon, recorded, tmp_path):
    data = SMALL.read_bytes()
    cut = tmp_path / "cut.ecr"
    cut.write_bytes(data[: len(data) * 3 // 4])
    code, out, _ = echelon("replay", "info", str(cut), "--json")
    found = json.loads(out)
    assert code == output.DONE and not found["complete"] and found["chunks"] >= 1 and found["winner"] == ""
    _, out, _ = echelon("replay", "info", str(cut))
    assert "plays to its last chunk" in out


@pytest.mark.parametrize(
    ("data", "printed"),
    [(b"PK\x03\x04", "'other.ecr' is not an Echelon replay"), (MAGIC, "truncated"), (b"", "is not an Echelon replay")],
)
def test_unreadable_replay_is_one_line_error(echelon, tmp_path, data, printed):
    path = tmp_path / "other.ecr"
    path.write_bytes(data)
    code, out, err = echelon("replay", "info", str(path))
    assert code == output.FAILED and out == "" and len(err.splitlines()) == 1 and printed in err


def test_unknown_match_returns_not_found(echelon, recorded):
    for command in (("info", "nobody"), ("list", "nobody")):
        code, _, err = echelon("replay", *command)
        assert code == output.NOT_FOUND and "'nobody' does not exist" in err and len(err.splitlines()) == 1


def test_replay_info_lists_turning_points(echelon, recorded):
    code, out, _ = echelon("replay", "info", str(recorded))
    assert code == output.DONE and "first blood: R2's laser kills B5" in out and "rank" in out
    code, out, _ = echelon("replay", "info", RUN, "--json")
    found = json.loads(out)
    assert code == output.DONE and found["file"] == str(recorded)
    assert [row["tick"] for row in found["moments"]] == sorted(row["tick"] for row in found["moments"])
    assert found["win"]


def test_fit_winprob_reports_errors_and_writes_a_model(capsys, tmp_path, monkeypatch):
    weights = np.linspace(0.2, 1.5, len(FEATURES))
    matches = sampled(1200, weights, 0) + sampled(60, weights, 1, ("c", "b"))
    monkeypatch.setattr("tests.bench.winprob_fit.replay_files", lambda places: [Path(str(i)) for i in range(1261)])
    monkeypatch.setattr("tests.bench.winprob_fit.sample_all", lambda paths: [None, *matches])
    model = tmp_path / "model.json"
    winprob_fit.main([str(tmp_path), "--hold-out", "c", "--out", str(model)])
    report = json.loads(capsys.readouterr().out)
    assert (report["files"], report["unused"], report["held_out_pilots"]) == (1261, 1, ["c"])
    assert len(load_model(model).weights) == len(FEATURES)
    both = report["tests"]["both"]
    assert both["brier"] < 0.25, "better than a constant"


def test_fit_winprob_without_matches_fails(tmp_path):
    with pytest.raises(ValueError, match="has no matches"):
        winprob_fit.main([str(tmp_path)])


def test_video_never_replaces_a_file_by_accident(echelon, tmp_path):
    file = tmp_path / "a.mp4"
    file.write_text("kept")
    code, _, err = echelon("replay", "video", str(SMALL), "--out", str(file))
    assert code == 1 and "already exists; try another --out or --force" in err and file.read_text() == "kept"

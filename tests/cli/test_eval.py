"""``echelon eval``: policies, opponents and maps, and the job that plays them."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from echelon.arena.store import Store, league_path
from echelon.arena.submit import submit
from echelon.config import LADDER, with_fairness
from echelon.jobs.spec import JobSpec, read_spec, write_spec
from echelon.jobs.tickets import Queue
from echelon.replay.reader import Replay
from echelon.rl.checkpoint import find_checkpoint
from echelon.runs import RunPaths, create_run, list_runs, runs_home
from echelon.telemetry.evaluations import read_evaluations
from echelon.telemetry.events import EventAlert
from echelon.telemetry.log import read_events
from echelon.training.api import evaluate
from echelon.training.eval_plan import environment_of
from echelon.training.evaluation import YARDSTICK
from echelon.training.weights import export_checkpoint
from echelon_cli import eval_job
from echelon_cli.commands.evaluate import opponent_of
from echelon_cli.follow import Follower
from echelon_cli.players import Player
from tests.arena.policy_files import SMALL, save
from tests.cli.conftest import parsed
from tests.tui.support.canned import alive, batch_events, make_evaluation

SHORT = replace(SMALL, max_episode_seconds=1.0)
FEW = ("--seeds", "1", "--threads", "1", "--json")
pytestmark = pytest.mark.usefixtures("jobs_in_process")


def test_opponent_level_spellings_and_default():
    assert opponent_of("heuristic:hard") == opponent_of("hard") == Player("hard")
    assert opponent_of(None).title == "heuristic:medium"


def test_plan_of_a_checkpoint_loads_neither_torch_nor_warp(repository):
    code = (
        "import sys; import echelon.training.eval_plan; from echelon import champion; "
        "from echelon_cli import eval_job; from echelon.jobs.evaluations import open_policy; "
        "assert open_policy(champion.FOLDER).meta['id'] and not {'torch', 'warp'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=repository)


def test_several_sizes_are_a_matrix(echelon, tmp_path):
    one = str(save(tmp_path / "one", 1, env=SHORT))
    few = ("--seeds", "1", "--threads", "1")
    code, text, _ = echelon("eval", one, *few, "--size", "40,50", "--packs", "1,2", "--opponent", "easy")
    assert code == 0 and "2 episodes per cell" in text and "against heuristic:easy" in text
    for title in ("wins", "wins, sampled actions"):
        (head,) = (line for line in text.splitlines() if line.strip().startswith(f"{title}: edge"))
        assert head.split()[-4:] == ["1", "pack", "2", "packs"]
    cells = parsed(echelon("eval", one, *few, "--packs", "2", "--json")[1])["cells"]
    assert [(cell["edge"], cell["packs"], cell["episodes"]) for cell in cells] == [(40, 2, 2)]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--size", "10,60"), "--size is '10,60', expected 20 to 200, or several such as 20,200"),
        (("--packs", "two"), "--packs is 'two', expected 1 to 20, or several such as 1,20"),
        (("--packs", "1,2", "--ladder"), "a matrix plays one opponent; drop --ladder, --teamwork and --record"),
        (("--size", "40", "--packs", "20"), "world of 40x40 is too small to spawn 20 packs per team"),
    ],
)
def test_a_matrix_that_cannot_be_played_is_refused(echelon, tmp_path, words, message):
    code, _, text = echelon("eval", str(save(tmp_path / "one", 1, env=SHORT)), *words)
    assert code == 2 and message in " ".join(text.split())


def test_eval_opponent_is_deterministic_and_swaps_sides(echelon, tmp_path):
    one, two = save(tmp_path / "one", 1, env=SHORT), save(tmp_path / "two", 2, env=SHORT)
    with Store(league_path()) as store:
        submit(store, two, label="keen-lynx")
    words = [(str(two),), ("keen-lynx", "--record")]
    found = [parsed(echelon("eval", str(one), *FEW, "--opponent", *more)[1]) for more in words]
    assert [row.pop("opponent") for row in found] == [str(two), "keen-lynx"]
    assert sorted(row.pop("job") for row in found) == sorted(paths.id for paths in list_runs())
    assert all(row.pop("duration_s") > 0 for row in found)
    replays = [row.pop("replays") for row in found]
    assert found[0] == found[1] and found[0]["episodes"] == 2 and [len(remaining) for remaining in replays] == [0, 2]
    with Replay(Path(replays[1][0])) as replay:
        assert "keen-lynx" in [team["name"] for team in replay.header["teams"]]


@pytest.mark.parametrize(
    ("words", "code", "expected_text"),
    [
        (("--opponent", "heuristic:hards"), 2, "level 'hards' does not exist, did you mean 'hard'?"),
        (("--opponent", "league"), 2, "try echelon arena run for all"),
        (("--opponent", "nosuch"), 3, "opponent is 'nosuch', expected a checkpoint, a run or a league entry"),
        (("--opponent", "hard", "--ladder"), 2, "drop --opponent"),
        (("--with", "hard"), 2, "--with is given without --teamwork"),
        (("--teamwork", "--record"), 2, "drop --ladder and --record"),
        (("--teamwork", "--with", "nosuch"), 3, "with is 'nosuch', expected a checkpoint, a run or a league entry"),
    ],
)
def test_invalid_opponent_is_one_line_error(echelon, tmp_path, words, code, expected_text):
    done, _, err = echelon("eval", str(save(tmp_path, 1, env=SHORT)), *words)
    assert done == code and expected_text in err and err.count("\n") == 1 and list_runs() == []


@pytest.mark.parametrize(
    ("trained", "words", "maps"), [("any", (), "any"), ("path", (), "path"), ("path", ("--maps", "any"), "any")]
)
def test_eval_plays_the_maps_of_the_training_unless_others_are_requested(echelon, tmp_path, trained, words, maps):
    policy = save(tmp_path / "one", 1, env=with_fairness(SHORT, trained))
    assert parsed(echelon("eval", str(policy), *FEW, "--stochastic", *words)[1])["maps"] == maps


@pytest.fixture
def _waiting(monkeypatch) -> None:
    """Queued jobs wait."""
    monkeypatch.setattr(Queue, "revive", lambda queue, runs=None: [])


@pytest.mark.usefixtures("_waiting")
def test_ladder_omits_champion_where_it_cannot_play(echelon, tmp_path):
    other = save(tmp_path / "two", 2, env=replace(SHORT, observe_target=True))
    code, out, _ = echelon("eval", str(other), "--ladder", "--queue")
    assert code == 0 and "champion is omitted: opponent 'champion' has another observation layout" in out
    (job,) = list_runs()
    plan = read_spec(job).config["eval"]
    assert plan["opponents"] == [f"heuristic:{level}" for level in LADDER] and not plan["opponent_policy"]


@pytest.mark.usefixtures("_waiting")
@pytest.mark.parametrize("opponent", ["champion", "other"])
def test_champion_is_an_opponent_of_mean_actions_and_others_sample(echelon, tmp_path, opponent):
    one = str(save(tmp_path / "one", 1, env=SHORT))
    echelon("eval", one, "--queue", "--opponent", one if opponent == "other" else opponent)
    (job,) = list_runs()
    assert read_spec(job).config["eval"]["opponent_mean"] is (opponent == "champion")


def test_environment_of_older_policy_has_its_maps():
    older = asdict(SHORT)
    del older["world"]["fairness"]
    assert environment_of({"env_cfg": older}) == SHORT
    world = environment_of({"env_cfg": older}, 60, "path").world
    assert world == replace(SHORT.world, size_x=60, size_y=60, fairness="path")


def test_eval_rejects_other_observation_layout(echelon, tmp_path):
    other = save(tmp_path / "two", 2, env=replace(SHORT, observe_target=True))
    code, _, err = echelon("eval", str(save(tmp_path / "one", 1, env=SHORT)), "--opponent", str(other), *FEW)
    assert code == 1 and "has another observation layout" in err and list_runs() == []


@pytest.mark.parametrize("name", ["torn.safetensors", "step-9", "empty"])
def test_eval_of_unreadable_policy_leaves_no_job(echelon, tmp_path, name):
    path = tmp_path / name
    if path.suffix:
        path.write_bytes(b"PK torn")
    else:
        path.mkdir()
    code, out, err = echelon("eval", str(path), *FEW)
    assert code == 1 and err.count("\n") == 1 and parsed(out)["code"] == 1
    assert list_runs() == [] and not [*Path(os.environ["ECHELON_HOME"]).glob("*")]


@pytest.fixture
def trained() -> RunPaths:
    """A training run with one checkpoint."""
    paths = create_run("quickstart")
    write_spec(paths, JobSpec(kind="train", config={"preset": "quickstart"}))
    save(paths.checkpoints, 7, env=SHORT)
    return paths


def test_eval_of_run_appends_its_results_and_shows_them(echelon, trained):
    result = parsed(echelon("eval", trained.id, *FEW, "--opponent", "easy")[1])
    echelon("eval", trained.id, *FEW, "--ladder", "--stochastic")
    events = read_evaluations(trained.evals)
    assert [e.opponent.removeprefix("heuristic:") for e in events] == ["easy", *YARDSTICK]
    easy = events[0]
    assert (easy.job, easy.checkpoint, easy.update, easy.global_step) == (result["job"], result["id"], 7, 1007)
    assert (easy.maps, easy.map_size, easy.seeds) == ("any", [40, 40, 12], [result["first_seed"]])
    assert (easy.win_rate, easy.win_low, easy.win_high) == tuple(result[k] for k in ("win_rate", "win_low", "win_high"))
    assert easy.sampled_win_rate == result["sampled_win_rate"] and easy.deterministic
    assert not events[-1].deterministic
    shown = parsed(echelon("runs", "show", trained.id, "--json")[1])["evaluations"]
    assert [row["opponent"] for row in shown] == [e.opponent for e in (*events[1:], easy)], "the newest job first"
    assert shown[0]["mean"] is None and shown[-1]["sampled"]["value"] == easy.sampled_win_rate
    table = echelon("runs", "show", trained.id)[1]
    assert "its interval" in table and "any 40x40x12" in table and "expert" in table and "champion" in table


def test_eval_job_is_listed_shown_and_resumable(echelon, trained):
    job = parsed(echelon("eval", trained.id, *FEW)[1])["job"]
    assert {row["id"]: row["kind"] for row in parsed(echelon("runs", "list", "--json")[1])}[job] == "eval"
    row = next(row for row in parsed(echelon("runs", "list", "--json")[1]) if row["id"] == job)
    assert row["progress"] == 1.0 and row["opponent"] == "heuristic:medium" and row["last_win_rate"] is not None
    assert "heuristic:medium" in echelon("runs", "logs", "-f", job)[1] and "medium" in echelon("runs", "show", job)[1]
    matches = RunPaths(trained.root.parent / job).matches.read_bytes()
    code, out, _ = echelon("eval", "--resume", job)
    assert code == 0 and "95 % interval" in out
    assert RunPaths(trained.root.parent / job).matches.read_bytes() == matches, "no match is played again"
    assert len(read_evaluations(trained.evals)) == 1, "no result is appended again"
    assert len(trained.evals.read_text().splitlines()) == 1
    assert "is of kind 'train', expected an evaluation job" in echelon("eval", "--resume", trained.id)[2]


def test_received_eval_job_adds_to_a_run_only_where_the_user_names_it(echelon, trained, tmp_path):
    """A job folder from elsewhere may name any run of the user, with any result."""
    made = RunPaths(trained.root.parent / parsed(echelon("eval", trained.id, *FEW)[1])["job"])
    trained.evals.unlink()
    job = RunPaths(made.root.with_name("20260101-000000-eval-false-friend"))
    shutil.copytree(made.root, job.root)
    assert echelon("eval", "--resume", job.id)[0] == 0
    alerts = [event.message for event in read_events(job.metrics)[0] if isinstance(event, EventAlert)]
    assert not trained.evals.exists()
    advice = f"the run does not know this job; try: echelon eval {trained.root} --resume {job.id}"
    assert any(advice in alert for alert in alerts)
    other = tmp_path / "other.safetensors"
    other.touch()
    assert "expected" in echelon("eval", str(other), "--resume", job.id)[2] and not trained.evals.exists()
    assert echelon("eval", trained.id, "--resume", job.id)[0] == 0
    assert [event.job for event in read_evaluations(trained.evals)] == [job.id]


@pytest.fixture
def running() -> Iterator[RunPaths]:
    """An evaluation job that runs as far as its files say."""
    with alive(make_evaluation(runs_home(), "20260101-130000-eval-brave-heron", batches=3)) as paths:
        yield paths


def test_interrupted_follow_leaves_the_job_running_with_one_line(running, monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Follower, "follow", interrupted)
    assert eval_job.follow(Follower(running), detach=False, as_json=False) == 0
    out = capsys.readouterr().out
    assert "continues in the background" in out and f"echelon runs logs -f {running.id}" in out
    assert not running.stop.exists()
    assert eval_job.follow(Follower(running), detach=False, as_json=True) == 0
    assert parsed(capsys.readouterr().out)["state"] == "running"


def test_follow_prints_the_running_win_rate_of_every_batch(running, capsys):
    follower = Follower(running)
    for event in batch_events(4):
        follower.show(event)
    assert capsys.readouterr().out.splitlines() == [
        " 20 of 800  trivial  mean      95% wins [76% to 100%] in 20 matches",
        " 40 of 800  trivial  sampled   90% wins [70% to 100%] in 20 matches",
        " 60 of 800  easy     mean      85% wins [67% to 100%] in 20 matches",
        " 80 of 800  easy     sampled   80% wins [61% to 100%] in 20 matches",
    ]


def test_python_evaluation_plays_the_maps_it_is_given(tmp_path, monkeypatch):
    played = []
    monkeypatch.setattr(
        "echelon.training.api.evaluation.play_and_summarize", lambda policy, batch, env, **_: played.append(env)
    )
    for maps in (None, "path", "any"):
        evaluate(save(tmp_path, 1, env=SHORT), seeds=1, maps=maps)
    assert [env.world.fairness for env in played] == ["any", "path", "any"]
    assert played[1] == with_fairness(SHORT, "path")


def test_policy_in_no_run_has_results_in_the_job_only(echelon, tmp_path):
    policy = tmp_path / "policy.safetensors"
    export_checkpoint(find_checkpoint(save(tmp_path / "one", 1, env=SHORT)), policy)
    result = parsed(echelon("eval", str(policy), *FEW)[1])
    (job,) = list_runs()
    assert job.id == result["job"] and job.result.exists() and not [*tmp_path.rglob("evals.jsonl")]
    assert eval_job.run_of(job.root / "policy") is None, "a job is no training run"
    policy.unlink()
    again = parsed(echelon("eval", "--resume", job.id, "--json")[1])
    assert again == result, "the job has a copy of the policy"


def test_eval_plays_league_entries_and_scripted_levels(echelon, tmp_path):
    with Store(league_path()) as store:
        submit(store, save(tmp_path / "one", 1, env=SHORT), label="keen-lynx")
    assert parsed(echelon("eval", "keen-lynx", *FEW)[1])["episodes"] == 2
    words = ("heuristic:expert", *FEW, "--opponent", "heuristic:trivial", "--size", "40")
    level = parsed(echelon("eval", *words)[1])
    assert level["checkpoint"] == "heuristic:expert" and level["sampled_win_rate"] is None and level["win_rate"] == 1.0
    swapped = parsed(echelon("eval", "heuristic:hard", *FEW, "--opponent", "keen-lynx")[1])
    assert swapped["map"] == [40, 40, 12] and swapped["seconds"] == 1.0, "the game of the only policy"
    assert "did you mean 'hard'" in echelon("eval", "heuristic:hards")[2]
    assert echelon("eval")[0] == 2 and "run 'zz' does not exist" in echelon("eval", "keen-lynx", "--resume", "zz")[2]


def test_teamwork_is_a_table_and_one_ordinary_evaluation(echelon, tmp_path, trained):
    other, words = save(tmp_path / "two", 2, env=SHORT), ("--teamwork", "--seeds", "2", "--threads", "1")
    code, out, _ = echelon("eval", str(trained.root), *words, "--json", "--with", str(other), "--with", "expert")
    found = parsed(out)
    rows = {row["condition"]: row for row in found["teamwork"]["conditions"]}
    assert code == 0 and found["opponent"] == "heuristic:expert" and found["sampled_win_rate"] is None
    assert len(rows) == 1 + 2 * 5 and rows["usual"]["value"] == found["win_rate"]
    assert [row["mate"] for row in found["teamwork"]["mates"]] == ["heuristic:expert", str(other)]
    (event,) = read_evaluations(trained.evals)
    assert (event.opponent, event.episodes, event.win_rate) == ("heuristic:expert", 4, found["win_rate"])
    code, out, _ = echelon("eval", str(other), *words)
    assert code == 0 and "4 of 5, others heuristic:expert" in out and "whole teams exceed single gains by" in out


@pytest.fixture
def led(tmp_path) -> str:
    """A commander that orders every mech back, and fails once in a match."""
    file = tmp_path / "back.py"
    file.write_text(
        "def command(view):\n    assert view.seconds != 2\n    return {m.mech: 'retreat' for m in view.mechs}"
    )
    return f"commander:{file}+"


def test_player_under_a_commander_obeys_it_and_its_calls_are_counted(echelon, led):
    pairs = (f"{led}hard", "--opponent", "easy"), ("easy", "--opponent", f"{led}hard")
    one, other = (parsed(echelon("eval", *pair, *FEW, "--size", "40")[1]) for pair in pairs)
    assert one["reward_terms"]["zone"] == 0 < other["reward_terms"]["zone"]
    assert one["checkpoint"] == other["opponent"] == f"{led}heuristic:hard"
    for found in (one, other):
        (calls,) = found["commanders"].values()
        assert calls["calls"] > 10 and calls["failed"] == 2 and calls["first"] == "2 s: AssertionError: "
    assert "2 failed (the first at 2 s" in echelon("eval", "--resume", one["job"])[1]


def test_resumed_evaluation_plays_its_copy_of_the_commander_and_no_other_code(echelon, led, tmp_path):
    found = parsed(echelon("eval", f"{led}hard", *FEW, "--size", "40", "--opponent", "easy")[1])
    job, mark = RunPaths(runs_home() / found["job"]), tmp_path / "ran"
    copy, spec = job.root / "commander-0.py", job.spec.read_text()
    code, bad = copy.read_text(), f"open({str(mark)!r}, 'w')\ndef command(view): ..."
    known, other = (hashlib.sha256(text.encode()).hexdigest() for text in (code, bad))
    (tmp_path / "back.py").write_text("changed")
    for text, sha256, message in ((code, known, ""), (bad, known, "is not the file"), (bad, other, "was not named")):
        copy.write_text(text)
        job.spec.write_text(spec.replace(known, sha256))
        for file in (job.extension, job.matches, job.result):
            file.unlink(missing_ok=True)
        status, out, err = echelon("eval", "--resume", job.id, "--json")
        if message:
            assert status == 1 and f"commander of '{led}heuristic:hard' {message}" in err and not mark.exists()
        else:
            assert parsed(out) | {"duration_s": 0} == found | {"duration_s": 0}


def test_commander_leads_policies_that_observe_orders_and_mates_alone(echelon, led, tmp_path, trained):
    code, _, text = echelon("eval", f"{led}{trained.root}", *FEW)
    assert code == 2 and f"policy '{trained.root}' observes no orders, expected a level" in text
    env = replace(SHORT, observe_orders=True)
    one, two = save(trained.checkpoints, 8, env=env), save(tmp_path / "two", 2, env=env)
    words = (*FEW, "--teamwork", "--with", f"{led}{two}", "--with", f"{led}easy")
    found = parsed(echelon("eval", f"{led}{one}", *words)[1])
    calls = {player: row["calls"] for player, row in found["commanders"].items()}
    assert calls == {f"{led}{one}": 26, f"{led}{two}": 10, f"{led}heuristic:easy": 10}, "13, 5 and 5 conditions"
    assert not trained.evals.exists(), "the run has no result of its commander"
    found = parsed(echelon("eval", "champion", *FEW, "--size", "40", "--opponent", f"{led}{two}")[1])
    assert found["commanders"][f"{led}{two}"]["calls"] > 10, "the champion is fitted to rows with orders"

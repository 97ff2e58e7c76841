"""The champion in the box: its files are packed, whole and small, and it plays wherever a policy is named."""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import torch
from hatchling.builders.wheel import WheelBuilder

from echelon import champion
from echelon.actions import ACTION_DIM
from echelon.env import layout
from echelon.replay.reader import Replay
from echelon.rl.checkpoint import POLICY_FILES, export_policy_folder, find_checkpoint, open_checkpoint
from echelon.rl.weights import load_policy
from echelon.runs import runs_home
from echelon.training.champion import install, portable
from echelon.training.policy_agent import env_config_of
from echelon_cli.commands.evaluate import opponent_of
from echelon_cli.commands.sim import complete_pilots
from echelon_cli.commands.train import teacher_reference
from echelon_cli.options import complete_policies
from tests.arena.policy_files import SMALL, save
from tests.cli.conftest import parsed

SHORT = ("--size", "40", "--height", "12", "--seconds", "3", "--matches", "2")
DATA = {"manifest.json", "match.ecr", "model.safetensors"}


def test_champion_files_are_packed(repository):
    packed = {Path(file.distribution_path) for file in WheelBuilder(str(repository)).recurse_included_files()}
    assert {path.name for path in packed if path.parent == Path("echelon/champion")} == {*DATA, "__init__.py"}


def test_champion_files_are_whole_small_and_name_no_machine():
    checkpoint = open_checkpoint(champion.FOLDER, POLICY_FILES)
    files = [path for path in champion.FOLDER.iterdir() if path.suffix not in (".py", "")]
    assert {path.name for path in files} == DATA
    assert sum(path.stat().st_size for path in files) <= champion.MAX_BYTES
    assert not re.search(r'"(\w+:)?/', json.dumps(checkpoint.manifest)), "no absolute path"
    loaded = load_policy(champion.FOLDER)
    assert all(torch.isfinite(value).all() for value in loaded.policy.state_dict().values())


def test_champion_describes_its_own_environment():
    loaded = load_policy(champion.FOLDER)
    env = env_config_of(loaded.meta)
    assert loaded.policy.obs_dim == layout.obs_dim(env) and loaded.policy.action_dim == ACTION_DIM
    assert loaded.meta["args"]["env"]["gamma"] == env.gamma, "the whole configuration of its run"


def test_champion_match_is_whole_and_is_shown_by_watch_demo(echelon, monkeypatch):
    with Replay(champion.MATCH) as replay:
        assert replay.index is not None and replay.load_world()
        teams = {team["name"]: team for team in replay.header["teams"]}
        assert replay.timeline()["outcome"]["winner"] in (0, 1, 2)
    assert teams[champion.NAME]["checkpoint"] == load_policy(champion.FOLDER).meta["id"]
    served = []

    def serve(home, ready=None, **_):
        served.append(sorted(path.name for path in home.rglob("*.ecr")))

    monkeypatch.setattr("echelon.server.app.serve", serve)
    assert echelon("watch", "--demo", "--no-open")[0] == 0 and served == [["match.ecr"]]
    code, _, err = echelon("watch", "latest", "--demo")
    assert code == 2 and "--demo opens one match" in err and err.count("\n") == 1


def test_sim_plays_champion_independent_of_batching(echelon):
    words = ("sim", "--blue", "champion", "--red", "easy", *SHORT, "--threads", "1", "--json")
    found, again = (parsed(echelon(*words, *more)[1]) for more in ((), ("--envs", "1")))
    assert found["rows"] == again["rows"] and found["swap"]
    assert [(row["blue"], row["red"]) for row in found["rows"]] == [("champion", "easy"), ("easy", "champion")]
    assert [row["name"] for row in found["pilots"]] == ["champion", "easy"]
    shots = sum(row["shots"] for row in found["weapons"] if row["pilot"] == "champion")
    assert shots > 0 and found["task"]["map"] == [40, 40, 12] and not runs_home().exists()


def test_sim_plays_a_checkpoint_and_records_it(echelon, tmp_path):
    path = str(save(tmp_path / "one", 1, env=SMALL))
    found = parsed(echelon("sim", "--blue", path, "--red", path, "--seconds", "2", "--matches", "2", "--record", "1",
                           "--threads", "1", "--json")[1])  # fmt: skip
    assert found["blue"] == path and found["task"]["map"] == [40, 40, 12] and not found["swap"]
    with Replay(Path(found["rows"][0]["replay"])) as replay:
        assert {team["checkpoint"] for team in replay.header["teams"]} == {load_policy(path).meta["id"]}


@pytest.mark.long
def test_eval_plays_champion_on_either_side(echelon, jobs_in_process):
    words = ("eval", "champion", "--opponent", "champion", "--seeds", "1", "--size", "40", "--stochastic")
    found = parsed(echelon(*words, "--threads", "1", "--json")[1])
    assert found["opponent"] == "champion" and found["episodes"] == 2 and found["map"] == [40, 40, 20]


def test_champion_is_named_wherever_policies_are():
    assert opponent_of("champion").path == champion.FOLDER
    assert teacher_reference("champion") == f"policy:{champion.FOLDER}"
    assert "champion" in complete_pilots("ch") and "champion" in complete_policies("")
    assert complete_policies("heuristic:e") == ["heuristic:easy", "heuristic:expert"]


def test_policy_folder_plays_like_its_checkpoint(tmp_path):
    source = find_checkpoint(save(tmp_path / "one", 1))
    export_policy_folder(source, tmp_path / "folder")
    one, two = load_policy(source.path), load_policy(tmp_path / "folder")
    assert one.meta["id"] == two.meta["id"] and set(two.meta["files"]) == POLICY_FILES
    assert all(torch.equal(value, two.policy.state_dict()[name]) for name, value in one.policy.state_dict().items())
    weights = tmp_path / "folder" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1] + b"x")
    with pytest.raises(ValueError, match="'folder' is damaged: model.safetensors does not match its manifest"):
        load_policy(tmp_path / "folder")


def test_install_replaces_all_files_and_drops_machine_paths(tmp_path):
    folder = tmp_path / "champion"
    shutil.copytree(champion.FOLDER, folder)
    before = {name: (folder / name).read_bytes() for name in DATA}
    source = tmp_path / "source"
    export_policy_folder(find_checkpoint(champion.FOLDER), source, {"args": {"start_from": f"{tmp_path}/start"}})
    manifest = json.loads((source / "manifest.json").read_text())
    manifest["env_cfg"] |= {"max_episode_seconds": 90.0, "num_packs": 2, "packs_per_team_range": [1, 2]}
    manifest["env_cfg"]["world"] |= {"size_x": 140, "size_y": 140}
    (source / "manifest.json").write_text(json.dumps(manifest))
    facts = install(source, folder, matches=2)
    after = {name: (folder / name).read_bytes() for name in DATA}
    assert after["match.ecr"] != before["match.ecr"] and os.fsencode(tmp_path) not in after["manifest.json"]
    assert after["model.safetensors"] == before["model.safetensors"] and facts["matches"] == 2
    assert load_policy(folder).meta["args"] == {"start_from": "start"}
    assert env_config_of(load_policy(folder).meta) == env_config_of(load_policy(champion.FOLDER).meta)


def test_portable_shortens_absolute_paths_only():
    home = os.sep + os.path.join("somewhere", "run")
    values = {"path": home, "teacher": f"policy:{home}", "level": "heuristic:expert", "list": [home, 1], "none": None}
    assert portable(values) == {
        "path": "run", "teacher": "policy:run", "level": "heuristic:expert", "list": ["run", 1], "none": None,
    }  # fmt: skip

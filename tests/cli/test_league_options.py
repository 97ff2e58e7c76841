"""Options of ``echelon train`` that have to do with the league."""

from dataclasses import asdict

import pytest

from echelon.arena.standings import policy_path
from echelon.arena.store import Store, league_path
from echelon.config import MIX_PROFILES, LeagueConfig, MixConfig, OpponentConfig
from echelon.jobs.config_layers import resolve
from echelon.rl.weights import load_policy
from echelon_cli.listing import opponent_of
from tests.arena.policy_files import save


@pytest.mark.parametrize("name", MIX_PROFILES)
def test_opponent_mix_name_and_weight_overrides(name):
    assert resolve("quickstart", None, {"opponents.mix": name}).config.opponents.mix == MIX_PROFILES[name]
    changed = resolve("quickstart", None, {"opponents.mix": name, "opponents.mix.hard": 3.0}).config.opponents.mix
    assert asdict(changed) == {**asdict(MIX_PROFILES[name]), "hard": 3.0}


def test_start_from_accepts_path_run_or_league_entry(tmp_path, ended_run):
    from echelon.arena.submit import submit

    saved = save(tmp_path / "one", 1)
    with Store(league_path()) as store:
        submit(store, saved, label="keen-lynx u5")
    assert policy_path(str(saved)) == saved.absolute()
    entry = policy_path("keen-lynx u5")
    assert entry.parent == league_path().parent / "league", "a league entry owns its policy"
    assert load_policy(entry).meta["id"] == load_policy(saved).meta["id"]
    paths = ended_run("20260101-000000-quickstart-iron-fox")
    assert policy_path("iron-fox") == paths.root
    for unknown in ("nobody", "medium"):
        with pytest.raises(ValueError, match=f"policy is '{unknown}', expected a checkpoint, a run or a league entry"):
            policy_path(unknown)


def test_run_lists_name_opponents():
    def label(**opponents) -> str:
        return opponent_of({"opponents": asdict(OpponentConfig(**opponents))})

    assert label(skill="hard") == "heuristic:hard"
    assert label(mix=MIX_PROFILES["league"]) == "league"
    assert label(mix=MixConfig(league=1.0), league=LeagueConfig(target="tidal-owl")) == "exploits tidal-owl"

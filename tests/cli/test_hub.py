"""``echelon policy push`` and ``pull``: the published files, their card, and the way through a stand-in for the Hub."""

import json
import shutil
import sys

import pytest

from echelon import champion, hub
from echelon.rl.checkpoint import find_checkpoint
from echelon.runs import create_run
from echelon.telemetry.events import EventEval
from echelon.telemetry.log import EventLog
from tests.arena.policy_files import save
from tests.cli.conftest import command
from tests.cli.hub_server import HubServer
from tests.jobs.test_redteam import make_redteam


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run with a checkpoint, its evaluation and one of another checkpoint, and a match."""
    monkeypatch.setenv("ECHELON_HOME", str(tmp_path / "runs"))
    paths = create_run("quickstart")
    paths.spec.write_text(json.dumps({"kind": "train", "config": {"preset": "quickstart"}}))
    save(paths.checkpoints, 1)
    identity = find_checkpoint(paths.root).id
    rate = {"win_rate": 0.9, "win_low": 0.83, "win_high": 0.95, "episodes": 100, "global_step": 1001, "update": 1}
    with EventLog(paths.evals) as log:
        log.append(
            EventEval(time=1.0, opponent="heuristic:easy", job="a", checkpoint="other", **{**rate, "win_rate": 0.1})
        )
        log.append(EventEval(time=2.0, opponent="heuristic:easy", job="b", checkpoint=identity, **rate))
    paths.replays.mkdir()
    shutil.copy(champion.MATCH, paths.replays / "first.ecr")
    return paths


@pytest.fixture
def page(monkeypatch):
    """Stands for the page with the viewer, which only an installation has built."""
    monkeypatch.setattr("echelon.server.page.single_page", lambda data, *_, **__: f"<html>{len(data)}</html>")


def test_push_writes_policy_readme_and_match(echelon, run, page, tmp_path):
    target = tmp_path / "made"
    code, out, err = echelon("policy", "push", run.id, "someone/keen-fox", "--dry-run", str(target), "--json")
    assert code == 0, err
    shown = json.loads(out)
    assert shown["files"].keys() == set(hub.FETCHED) and shown["url"] == ""
    text = (target / hub.README).read_text(encoding="utf-8")
    assert text.startswith("---\nlibrary_name: echelon\n")
    assert "| `heuristic:easy` | 90% (83% to 95%) | - | 100 |" in text and "10%" not in text
    assert "5 against 5, 40x40x12 maps, 10 s" in text and "preset `quickstart`" in text and "1,001" in text
    assert "echelon policy pull someone/keen-fox\nechelon eval keen-fox --ladder\n" in text
    policy = find_checkpoint(target)
    assert policy.id == shown["id"] == find_checkpoint(run.root).id
    assert not any(text in (target / "manifest.json").read_text() for text in (str(tmp_path), '"git"'))


def test_readme_says_how_exploitable_the_policy_is(echelon, run, tmp_path):
    make_redteam()
    texts = []
    for number, name in enumerate(("champion", run.id)):
        target = tmp_path / f"made{number}"
        words = ("policy", "push", name, "someone/keen-fox", "--dry-run", str(target), "--replay", "none")
        assert echelon(*words)[0] == 0
        texts.append((target / hub.README).read_text(encoding="utf-8"))
    assert "## Exploitability" in texts[0] and "## Exploitability" not in texts[1]
    assert (
        "| 1,000 | `" not in texts[0]
        and texts[0].count("| 20% (10-30) sampled, 0% mean | 70% (60-80) sampled, 50% mean | 0 |") == 3
    )
    assert "trained against this policy" not in texts[0] and "- training added most from " in texts[0]
    assert "\n| 1,000 | " in texts[0] and texts[0].index("Exploitability") < texts[0].index("## Use")


def test_readme_of_a_policy_without_evaluations_and_match(echelon, run, tmp_path):
    run.evals.unlink()
    target = tmp_path / "made"
    assert echelon("policy", "push", str(run.root), "a/b", "--replay", "none", "--dry-run", str(target))[0] == 0
    assert sorted(file.name for file in target.iterdir()) == [hub.README, *hub.POLICY]
    text = (target / hub.README).read_text(encoding="utf-8")
    assert "Not evaluated yet" in text and "model-index" not in text and hub.PAGE not in text


def test_push_and_pull_refuse_existing_folders(echelon, run, tmp_path):
    for words in (
        ["policy", "push", run.id, "a/b", "--dry-run", str(tmp_path)],
        ["policy", "pull", "a/b", "--out", str(tmp_path)],
    ):
        code, _, err = echelon(*words)
        assert code == 1 and "already exists; try another --" in err


def test_missing_library_is_named(echelon, run, page, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    code, _, err = echelon("policy", "push", run.id, "a/b")
    assert code == 1 and "huggingface_hub is not installed; try: pip install 'echelon[hub]'" in err


@pytest.mark.long
def test_pushed_policy_comes_back_from_the_hub(echelon, run, tmp_path, monkeypatch):
    pytest.importorskip("huggingface_hub")
    folder = tmp_path / "fetched"
    with HubServer() as server:
        home = {"HF_ENDPOINT": server.url, "HF_TOKEN": "hf_stand_in", "HF_HOME": str(tmp_path / "cache")}
        for name, value in {**home, "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}.items():
            monkeypatch.setenv(name, value)
        pushed = command("policy", "push", run.id, "someone/keen-fox", "--replay", "none", "--json")
        assert pushed.returncode == 0, pushed.stderr
        assert json.loads(pushed.stdout)["url"] == f"{server.url}/someone/keen-fox"
        assert set(server.repos["someone/keen-fox"]) == {hub.README, *hub.POLICY}
        assert set(server.tokens) == {"Bearer hf_stand_in"}
        server.repos["someone/keen-fox"]["evil.py"] = b"raise SystemExit"
        monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", server.url)
        code, out, err = echelon("policy", "pull", "someone/keen-fox", "--out", str(folder), "--json")
        assert code == 0, err
        assert sorted(file.name for file in folder.iterdir()) == [hub.README, *hub.POLICY]
        assert find_checkpoint(folder).id == json.loads(out)["id"]

        weights = server.repos["someone/keen-fox"]["model.safetensors"]
        server.repos["someone/keen-fox"]["model.safetensors"] = weights[:-1] + b"x"
        for repo, text in (("someone/keen-fox", "damaged"), ("someone/nosuch", "download of 'someone/nosuch' failed")):
            code, _, err = echelon("policy", "pull", repo, "--out", str(tmp_path / "other"))
            assert code == 1 and text in err, err
            assert err.strip().count("\n") == 0 and not (tmp_path / "other").exists()
        monkeypatch.setattr(hub, "MAX_BYTES", 1000)
        with pytest.raises(ValueError, match="its policy has [0-9,]+ bytes, expected at most 1,000"):
            hub.download("someone/keen-fox", tmp_path / "other")
        assert not list(tmp_path.glob(".pull-*"))


def test_unreachable_hub_is_one_line_without_number_of_the_system(echelon, tmp_path, monkeypatch):
    library = pytest.importorskip("huggingface_hub")

    def unreachable(*_: object, **__: object) -> None:
        try:
            raise type("ConnectError", (Exception,), {"__module__": "httpx"})("[Errno -2] Name or service not known")
        except Exception as error:
            raise library.errors.LocalEntryNotFoundError("Dry run cannot be performed") from error

    monkeypatch.setattr(library, "snapshot_download", unreachable)
    code, _, err = echelon("policy", "pull", "a/b", "--out", str(tmp_path / "policy"))
    assert code == 1
    assert err == ("error: download of 'a/b' failed: Name or service not known; try HF_ENDPOINT or another network\n")

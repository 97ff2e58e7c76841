"""Labels of runs: written whole, read from damaged files, and names of variants."""

from __future__ import annotations

import pytest

from echelon.jobs.labels import MAX_TAGS, NO_DIFFERENCE, Labels, change_labels, read_labels, variant_names
from echelon.runs import RunPaths


def test_labels_are_changed_one_by_one(tmp_path):
    paths = RunPaths(tmp_path)
    assert read_labels(paths) == Labels() and not paths.labels.exists()
    change_labels(paths, group="base", add=["a", "b", "a"], notes="first")
    assert change_labels(paths, add=["c"], remove=["a"]) == Labels(group="base", tags=("b", "c"), notes="first")
    assert change_labels(paths, group="", notes="") == read_labels(paths) == Labels(tags=("b", "c"))


@pytest.mark.parametrize("word", ["two words", "x" * 61, "\x1b[31m", ""])
def test_label_must_be_one_short_word(tmp_path, word):
    with pytest.raises(ValueError, match="label"):
        change_labels(RunPaths(tmp_path), add=[word])
    assert not RunPaths(tmp_path).labels.exists()


@pytest.mark.parametrize("text", ["{", "[1]", '{"group": 3, "tags": "a", "notes": []}', '{"tags": [1, null, {}]}'])
def test_damaged_labels_are_left_out(tmp_path, text):
    RunPaths(tmp_path).labels.write_text(text)
    assert read_labels(RunPaths(tmp_path)) == Labels()


def test_number_of_tags_is_bounded(tmp_path):
    with pytest.raises(ValueError, match="tags"):
        change_labels(RunPaths(tmp_path), add=[f"t{n}" for n in range(MAX_TAGS + 1)])


def test_variants_are_not_named_by_the_progress_of_a_sweep():
    assert variant_names([{"seed": 1, "pause_steps": 0}, {"seed": 1, "pause_steps": 900}]) == [NO_DIFFERENCE] * 2


def test_variants_are_named_by_what_differs():
    base = {"ppo.lr": 1e-3, "seed": 1, "env.gamma": 0.9, "ppo.gamma": 0.9}
    assert variant_names([base, {**base, "ppo.lr": 3e-4, "seed": 2}]) == ["lr=0.001 · seed=1", "lr=0.0003 · seed=2"]
    changed = {**base, "env.gamma": None, "ppo.gamma": 0.5}
    assert variant_names([base, changed])[1] == "env.gamma=none · ppo.gamma=0.5"
    assert variant_names([base, base]) == ["-", "-"] and variant_names([]) == []

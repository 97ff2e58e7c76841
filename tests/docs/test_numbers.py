"""Numbers of the documents that the code decides: columns of an observation, memory of the GPU preset."""

import re
from dataclasses import replace

from echelon.config.presets import get_preset
from echelon.env.layout import END_WIDTH, FLAT_OBS_DIM, obs_dim
from echelon.jobs.memory import GIB, bytes_by_option
from tests.docs.pages import ROOT


def text_of(page: str) -> str:
    return " ".join((ROOT / "docs" / page).read_text(encoding="utf-8").split())


def test_columns_of_an_observation_add_up():
    found = re.search(
        r"([\d,]+) columns: (\d+) of the core .*?, (\d+) of the local map, and (\d+) with", text_of("concepts.md")
    )
    assert found is not None
    whole, core, tail, end = (int(number.replace(",", "")) for number in found.groups())
    env = get_preset("quickstart").env
    assert (whole, core, end) == (obs_dim(env), FLAT_OBS_DIM, END_WIDTH) and core + tail + end == whole
    others = [text_of(page) for page in ("howto/policy.md", "tasks.md", "learning.md")]
    assert all(f"{whole:,}" in text for text in others)


def test_memory_of_the_gpu_preset_is_what_a_run_is_checked_for():
    text = text_of("howto/train.md")
    found = re.search(r"take ([\d.]+) GiB with 2,048 environments, ([\d.]+) with 1,024 and ([\d.]+) with 512", text)
    assert found is not None
    sizes = [sum(bytes_by_option(replace(get_preset("gpu"), num_envs=n)).values()) / GIB for n in (2048, 1024, 512)]
    assert [f"{size:.1f}" for size in sizes] == list(found.groups())

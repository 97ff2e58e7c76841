"""The model card of a published policy: what it plays, how well with intervals, and the commands that reproduce it."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from echelon.runs import command
from echelon.statistics import Estimate
from echelon.telemetry.evaluations import EvaluationRow
from echelon.training.policy_agent import env_config_of


def policy_readme(
    repo: str,
    manifest: Mapping[str, Any],
    rows: Sequence[EvaluationRow],
    *,
    preset: str = "",
    has_match: bool = False,
    attacks: tuple[Sequence[Sequence[str]], Sequence[str]] = ((), ()),
) -> str:
    """Return the card as Markdown with YAML metadata; ``rows`` are evaluations of this checkpoint on held-out seeds.

    ``attacks`` are the best attackers of a red team: steps of one, its start, win rates untrained and on fresh seeds,
    matches; then what it has found, in sentences.
    """
    env = env_config_of(manifest)
    world, team = env.world, env.team_size
    game = f"{team} against {team}, {world.size_x}x{world.size_y}x{world.size_z} maps, {env.max_episode_seconds:g} s"
    name, local = repo.partition("/")[2] or repo, local_name(repo)
    facts = {
        "Game": game,
        "Observations": f"{env.obs_layout} layout, {manifest['obs_dim']} columns",
        "Training": f"{manifest['global_step']:,} learner agent-steps, update {manifest.get('update', 0):,}"
        + (f", preset `{_plain(preset)}`" if preset else ""),
        "Checkpoint": f"`{_plain(manifest['id'])}`",
    }
    lines = [
        *_metadata(repo, game, rows),
        f"# {_plain(name)}",
        "",
        "A policy for mech combat in Echelon: one recurrent network for every mech of a team.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {key} | {value} |" for key, value in facts.items()),
        "",
        "## Results",
        "",
        *_results(rows),
        "",
        *_attacks(*attacks),
        "## Use",
        "",
        "With Echelon and its extra `hub` installed:",
        "",
        "```sh",
        command("policy", "pull", repo),
        command("eval", local, "--ladder"),
        command("play", local),
        command("train", "--preset", _plain(preset) or "quickstart", "--start-from", local),
        "```",
        "",
        "```python",
        "import echelon",
        "",
        f'print(echelon.evaluate("{local}", "medium", seeds=100).win_rate)',
        "```",
        "",
    ]
    if has_match:
        lines += ["`match.html` is a match of this policy as one page: download it and open it in a browser.", ""]
    return "\n".join(lines)


def local_name(repo: str) -> str:
    """Return the folder that ``echelon policy pull`` writes by default."""
    return repo.rpartition("/")[2]


def _metadata(repo: str, game: str, rows: Sequence[EvaluationRow]) -> list[str]:
    """Return the card's metadata; every scalar is JSON, which YAML reads as it is."""
    lines = ["---", "library_name: echelon", "pipeline_tag: reinforcement-learning", "tags:"]
    lines += ["- reinforcement-learning", "- multi-agent", "- echelon"]
    measured = [row for row in rows if row.mean is not None]
    if measured:
        lines += ["model-index:", f"- name: {json.dumps(repo)}", "  results:"]
    for row in measured:
        assert row.mean is not None
        lines += [
            "  - task: {type: reinforcement-learning}",
            f"    dataset: {{type: echelon, name: {json.dumps(f'against {row.opponent}, {game}')}}}",
            f'    metrics: [{{type: win_rate, value: {row.mean.value:.4f}, name: "win rate, mean actions"}}]',
        ]
    return [*lines, "---", ""]


def _results(rows: Sequence[EvaluationRow]) -> list[str]:
    if not rows:
        return ["Not evaluated yet: `echelon eval --ladder` on the held-out seeds, then push again."]
    table = [
        "Win rates on held-out seeds, each from both sides, with 95 % Wilson intervals; a draw is no win.",
        "",
        "| Opponent | Mean actions | Sampled actions | Battles | Maps |",
        "|---|---:|---:|---:|---|",
    ]
    for row in rows:
        cells = (f"`{_plain(row.opponent)}`", _rate(row.mean), _rate(row.sampled), str(row.episodes), _plain(row.maps))
        table.append(f"| {' | '.join(cells)} |")
    return table


def _attacks(attacks: Sequence[Sequence[str]], findings: Sequence[str]) -> list[str]:
    if not attacks:
        return []
    return [
        "## Exploitability",
        "",
        *(f"- {_plain(text)}" for text in findings),
        "",
        "Win rates against this policy, on fresh seeds, of the best attacker at each length of training; it plays the "
        "better of mean and sampled actions. A start that wins untrained is another policy, not an attack.",
        "",
        "| Steps of an attacker | Best one from | Untrained | Win rate | Matches |",
        "|---:|---|---:|---:|---:|",
        *(f"| {' | '.join(map(_plain, row))} |" for row in attacks),
        "",
    ]


def _rate(rate: Estimate | None) -> str:
    return "-" if rate is None else f"{rate.value:.0%} ({rate.low:.0%} to {rate.high:.0%})"


def _plain(text: object) -> str:
    """Return a text of a run's files without what would end a cell, a line or a span of Markdown."""
    return "".join(c for c in str(text) if c.isprintable() and c not in "|`<>")

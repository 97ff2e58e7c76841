"""Tables of evaluations: one result, a ladder of levels, and the evaluations of a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from echelon_cli import output

if TYPE_CHECKING:
    from echelon.statistics import Estimate
    from echelon.telemetry.evaluations import EvaluationRow

SCRIPTED = "heuristic:"


def show_result(result: dict[str, Any]) -> None:
    show_ladder(result) if "levels" in result else show_single(result)


def show_single(result: dict[str, Any]) -> None:
    sampled = _sampled_cells(result)
    output.show_table(
        ("", ""),
        [
            ("wins", f"{output.percent(result['win_rate'])} (95 % interval {_interval(result)})"),
            *(
                [("wins, sampled", f"{sampled[0]} (95 % interval {sampled[1]})")]
                if result["sampled_win_rate"] is not None
                else []
            ),
            ("draws, losses", f"{output.percent(result['draw_rate'])}, {output.percent(result['loss_rate'])}"),
            ("episodes", f"{result['episodes']}: {result['seeds']} seeds from {result['first_seed']}, both sides"),
            ("against", _against(result)),
            ("task", _task(result)),
            ("endings", ", ".join(f"{reason} {count}" for reason, count in result["reasons"].items())),
            ("hp margin", output.figure(result["mean_hp_margin"])),
            ("return", _named_values(result["returns_by_role"])),
            ("reward", _named_values(result["reward_terms"])),
            ("length", f"{result['mean_episode_length']:.0f} environment steps"),
            ("duration", output.duration(result["duration_s"])),
            ("policy", f"{result['checkpoint']} {result['id']}".rstrip()),
            *(
                [("replays", f"{len(result['replays'])} in {Path(result['replays'][0]).parent}")]
                if result["replays"]
                else []
            ),
        ],
    )


def show_ladder(result: dict[str, Any]) -> None:
    right = ("wins", "95 % interval", "sampled", "its interval", "draws", "losses", "hp margin", "length")
    output.show_table(
        ("level", *right),
        [
            (
                row["level"],
                output.percent(row["win_rate"]),
                _interval(row),
                *_sampled_cells(row),
                output.percent(row["draw_rate"]),
                output.percent(row["loss_rate"]),
                output.figure(row["mean_hp_margin"]),
                f"{row['mean_episode_length']:.0f}",
            )
            for row in result["levels"]
        ],
        right=right,
    )
    output.print_line(
        f"{2 * result['seeds']} episodes per level: {result['seeds']} seeds from {result['first_seed']}, both sides"
    )
    output.print_line(f"trigger probability {result['weapon_prob']:g}; {_task(result)}")
    output.print_line(f"{result['checkpoint']} {result['id']}".rstrip())


def show_evaluations(rows: Sequence[EvaluationRow]) -> None:
    output.show_table(
        ("evaluation", "update", "against", "wins", "95 % interval", "sampled", "its interval", "matches", "maps"),
        [
            (
                output.local_time(row.time),
                row.update or "-",
                opponent_name(row.opponent),
                *rate_cells(row.mean),
                *rate_cells(row.sampled),
                row.episodes if row.episodes >= row.planned else f"{row.episodes} of {row.planned}",
                row.maps or "-",
            )
            for row in rows
        ],
        right=("update", "wins", "95 % interval", "sampled", "its interval", "matches"),
        unwrapped=("maps",),
        optional=("maps", "update", "matches", "evaluation"),
    )


def opponent_name(name: str) -> str:
    """Return an opponent as tables name it: a scripted level without its prefix."""
    return name.removeprefix(SCRIPTED) or "-"


def show_training_evaluations(rows: Sequence[EvaluationRow]) -> None:
    """Print the evaluations during training, newest first."""
    right = ("update", "steps", "wins", "95 % interval", "draws", "matches")
    output.show_table(
        (*right[:2], "purpose", "in training against", *right[2:], "best so far"),
        [
            (
                row.update,
                output.count(row.global_step),
                row.purpose or "-",
                opponent_name(row.opponent),
                *rate_cells(row.mean or row.sampled),
                output.percent(row.draw_rate),
                row.episodes,
                "yes" if row.chosen else "",
            )
            for row in rows
        ],
        right=right,
        unwrapped=("purpose",),
        optional=("draws", "matches", "update", "best so far"),
    )


def rate_cells(rate: Estimate | None) -> tuple[str, str]:
    if rate is None:
        return "-", "-"
    return output.percent(rate.value), f"{output.percent(rate.low)} to {output.percent(rate.high)}"


def _interval(row: dict[str, Any]) -> str:
    return f"{output.percent(row['win_low'])} to {output.percent(row['win_high'])}"


def _sampled_cells(row: dict[str, Any]) -> tuple[str, str]:
    if row["sampled_win_rate"] is None:
        return "-", "-"
    low, high = output.percent(row["sampled_low"]), output.percent(row["sampled_high"])
    return output.percent(row["sampled_win_rate"]), f"{low} to {high}"


def _against(result: dict[str, Any]) -> str:
    scripted = result["opponent"].startswith(SCRIPTED)
    return f"{result['opponent']}, trigger probability {result['weapon_prob']:g}" if scripted else result["opponent"]


def _named_values(values: dict[str, float]) -> str:
    return ", ".join(f"{name} {output.figure(value)}" for name, value in values.items()) or "-"


def _task(result: dict[str, Any]) -> str:
    x, y, z = result["map"]
    actions = "mean actions, then sampled ones" if result["deterministic"] else "sampled actions"
    observation = f"{result['observation']} observation"
    maps = f"{result['maps']} maps of {x}x{y}x{z}"
    return f"packs of five per team: {result['packs']}, {maps}, {result['seconds']:g} s, {observation}, {actions}"

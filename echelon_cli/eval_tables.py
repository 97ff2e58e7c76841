"""Tables of evaluations: one result, a ladder of levels, and the evaluations of a run."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from echelon.agent_files import AGENT
from echelon.replay.match_text import ending_text
from echelon.statistics import Estimate
from echelon.telemetry.evaluations import EvaluationRow
from echelon_cli import output
from echelon_cli.listing import SCRIPTED, opponent_name
from echelon_cli.output import Column, percent

Result = Mapping[str, Any]


def show_result(result: Result) -> None:
    show = show_ladder if "levels" in result else show_matrix if "cells" in result else show_single
    show(result)
    for player, calls in result.get("commanders", {}).items():
        failed = f" (the first at {calls['first']})" if calls["failed"] else ""
        counts = f"{calls['calls']} calls, {calls['failed']} failed{failed}, {calls['slow']} slow"
        output.print_line(f"{'decisions' if player.startswith(AGENT) else 'orders'} of {player}: {counts}")


def show_matrix(result: Result) -> None:
    """Print a table of win rates for mean and one for sampled actions: map edges down, packs per team across."""
    cells = {(cell["edge"], cell["packs"]): cell for cell in result["cells"]}
    edges, packs = (list(dict.fromkeys(key[axis] for key in cells)) for axis in (0, 1))
    kinds = {"win_rate": ("wins", _interval), "sampled_win_rate": ("wins, sampled actions", _sampled_interval)}
    for rate, (title, bounds) in kinds.items():
        if all(cell[rate] is None for cell in result["cells"]):
            continue
        rows = [
            (edge, *(f"{percent(cells[edge, n][rate])} ({bounds(cells[edge, n])})" for n in packs)) for edge in edges
        ]
        output.show_table((f"{title}: edge [vox]", *(f"{n} packs" if n > 1 else "1 pack" for n in packs)), rows)
    output.print_line(f"against {_against(result)}; {2 * result['seeds']} episodes per cell")
    output.print_line(f"{result['checkpoint']} {result['id']}".rstrip())


def show_single(result: Result) -> None:
    facts = [("wins", f"{percent(result['win_rate'])} (95 % interval {_interval(result)})")]
    if result["sampled_win_rate"] is not None:
        facts.append(
            ("wins, sampled", f"{percent(result['sampled_win_rate'])} (95 % interval {_sampled_interval(result)})")
        )
    facts += [
        ("draws, losses", f"{percent(result['draw_rate'])}, {percent(result['loss_rate'])}"),
        ("episodes", f"{result['episodes']}: {result['seeds']} seeds from {result['first_seed']}, both sides"),
        ("against", _against(result)),
        ("task", _task(result)),
        ("endings", ", ".join(f"{ending_text(reason)} {count}" for reason, count in result["reasons"].items())),
        ("hp margin", output.measured(result["mean_hp_margin"])),
        ("return", _named_values(result["returns_by_role"])),
        ("reward", _named_values(result["reward_terms"])),
        ("length", f"{result['mean_episode_length']:.0f} environment steps"),
        ("duration", output.duration(result["duration_s"])),
        ("policy", f"{result['checkpoint']} {result['id']}".rstrip()),
    ]
    if result["replays"]:
        facts.append(("replays", f"{len(result['replays'])} in {Path(result['replays'][0]).parent}"))
    output.show_table(("", ""), facts)
    if "teamwork" in result:
        show_teamwork(result["teamwork"])


def _estimate(row: Result, form: str = ".2f", scale: float = 1.0) -> str:
    """Return a value with its interval, such as ``+1.25 (0.40 to 2.10)``."""
    known = [row[key] for key in ("value", "low", "high") if output.is_known(row.get(key))]
    value, *bounds = [f"{scale * number:{form}}" for number in known] or ["-"]
    return f"{value} ({' to '.join(bounds)})" if bounds else value


TEAMWORK = (
    Column("condition", lambda row: row["condition"]),
    Column("wins", lambda row: percent(row["value"]), right=True),
    Column("95 % interval", lambda row: output.bounds(row["low"], row["high"]), right=True, rank=1),
    Column("change [points]", lambda row: _estimate(row["difference"] or {}, "+.0f", 100.0), right=True),
    Column("shared targets / chance", lambda row: _estimate(row["focus_fire"]), right=True, rank=2),
    Column("spread of first hits [s]", lambda row: output.measured(row["spread_s"]), right=True, rank=3),
    Column("spread / chance", lambda row: _estimate(row["spread"]), right=True, rank=3),
)


def show_teamwork(found: Result) -> None:
    output.show_rows(TEAMWORK, found["conditions"], title="teamwork, with 95 % intervals over seeds")
    for row in found["mates"]:
        output.print_line(
            f"with {row['mate']}: whole teams exceed single gains by {_estimate(row['excess'], '+.2f')} logits, "
            f"p {output.measured(row['p_value'])}; mixed teams win {_estimate(row['mixing'], '+.0f', 100.0)} points "
            "compared with pure ones"
        )


def _interval(row: Result) -> str:
    return output.bounds(row["win_low"], row["win_high"])


def _sampled_interval(row: Result) -> str:
    return output.bounds(row["sampled_low"], row["sampled_high"])


LADDER = (
    Column("level", lambda row: row["level"]),
    Column("wins", lambda row: percent(row["win_rate"]), right=True),
    Column("95 % interval", _interval, right=True),
    Column("sampled", lambda row: percent(row["sampled_win_rate"]), right=True),
    Column("its interval", _sampled_interval, right=True),
    Column("draws", lambda row: percent(row["draw_rate"]), right=True),
    Column("losses", lambda row: percent(row["loss_rate"]), right=True),
    Column("hp margin", lambda row: output.measured(row["mean_hp_margin"]), right=True),
    Column("length", lambda row: f"{row['mean_episode_length']:.0f}", right=True),
)


def show_ladder(result: Result) -> None:
    output.show_rows(LADDER, result["levels"])
    output.print_line(
        f"{2 * result['seeds']} episodes per level: {result['seeds']} seeds from {result['first_seed']}, both sides"
    )
    output.print_line(f"trigger probability {result['weapon_prob']:g}; {_task(result)}")
    output.print_line(f"{result['checkpoint']} {result['id']}".rstrip())


def _rate(rate: Estimate | None) -> str:
    return "-" if rate is None else percent(rate.value)


def _bounds(rate: Estimate | None) -> str:
    return "-" if rate is None else output.bounds(rate.low, rate.high)


def _episodes(row: EvaluationRow) -> str:
    return str(row.episodes) if row.episodes >= row.planned else f"{row.episodes} of {row.planned}"


EVALUATIONS = (
    Column("evaluation", lambda row: output.local_time(row.time), rank=1),
    Column("update", lambda row: row.update or "-", right=True, rank=3),
    Column("against", lambda row: opponent_name(row.opponent)),
    Column("wins", lambda row: _rate(row.mean), right=True),
    Column("95 % interval", lambda row: _bounds(row.mean), right=True),
    Column("sampled", lambda row: _rate(row.sampled), right=True),
    Column("its interval", lambda row: _bounds(row.sampled), right=True),
    Column("matches", _episodes, right=True, rank=2),
    Column("maps", lambda row: row.maps or "-", whole=True, rank=4),
)

TRAINING_EVALUATIONS = (
    Column("update", lambda row: row.update, right=True, rank=2),
    Column("steps", lambda row: output.count(row.global_step), right=True),
    Column("purpose", lambda row: row.purpose or "-", whole=True),
    Column("in training against", lambda row: opponent_name(row.opponent)),
    Column("wins", lambda row: _rate(row.mean or row.sampled), right=True),
    Column("95 % interval", lambda row: _bounds(row.mean or row.sampled), right=True),
    Column("draws", lambda row: percent(row.draw_rate), right=True, rank=4),
    Column("matches", lambda row: row.episodes, right=True, rank=3),
    Column("best so far", lambda row: "yes" if row.chosen else "", rank=1),
)


def show_newest(columns: Sequence[Column], rows: Sequence[EvaluationRow], most: int, others: str) -> None:
    """Print the newest evaluations, and the command ``others`` that shows the older ones."""
    if not rows:
        return
    output.show_rows(columns, rows[:most], title="")
    if len(rows) > most:
        output.print_line(f"{len(rows) - most} older: {others}", style="dim")


def _against(result: Result) -> str:
    scripted = result["opponent"].startswith(SCRIPTED)
    return f"{result['opponent']}, trigger probability {result['weapon_prob']:g}" if scripted else result["opponent"]


def _named_values(values: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {output.measured(value)}" for name, value in values.items()) or "-"


def _task(result: Result) -> str:
    x, y, z = result["map"]
    mean = "mean actions" if "teamwork" in result else "mean actions, then sampled ones"
    actions = mean if result["deterministic"] else "sampled actions"
    observation = f"{result['observation']} observation"
    maps = f"{result['maps']} maps of {x}x{y}x{z}"
    return f"packs of five per team: {result['packs']}, {maps}, {result['seconds']:g} s, {observation}, {actions}"

"""Tables and JSON of red teams: win rate of the best attacker over compute, and each attacker."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from echelon_cli import output
from echelon_cli.listing import shown_id

if TYPE_CHECKING:
    from echelon.jobs.sweeps.plan import SweepPlan
    from echelon.jobs.sweeps.redteam import RedTeamReport
    from echelon.statistics import Estimate


def report_json(report: RedTeamReport) -> dict[str, Any]:
    return {**asdict(report), "exploitability": report.exploitability}


def plan_lines(plan: SweepPlan) -> list[str]:
    """Return what a red team will do, in lines."""
    attack = plan.attack
    assert attack, "the plan is that of a red team"
    kinds = ", ".join(each.name for each in plan.variants)
    rungs = ", ".join(map(output.count, attack.rungs))
    own = f", which trained for {output.count(attack.steps)} steps" if attack.steps else ""
    where = f" through {plan.launcher}" if plan.launcher else ""
    return [
        f"attackers of {attack.target}{own}: {plan.seeds} from each of {kinds}",
        f"evaluated at {rungs} steps on {plan.base['eval']['seeds']} seeds, the best one on {attack.seeds} fresh seeds",
        f"{output.count(plan.planned_steps)} steps in all, {plan.at_once} at once{where}",
    ]


def show_report(report: RedTeamReport) -> None:
    """Print the curve on fresh seeds, then the win rates by which the best attackers were chosen."""
    target = f"{report.attack.target} ({report.attack.checkpoint[:8]})"
    actions = "mean" if report.target_mean else "sampled"
    output.print_line(f"attackers of {target}, which plays {actions} actions", style="bold")
    columns = ("share", "steps", "all attackers", "best attacker", "mean", "interval", "sampled", "its interval", "run")
    rows = [
        (
            output.percent(point.share),
            output.count(point.steps),
            output.count(point.all_steps),
            "-" if point.attacker is None else f"{point.name} · {point.attacker}",
            *rate_cells(point.mean),
            *rate_cells(point.sampled),
            shown_id(point.run),
        )
        for point in report.curve
    ]
    right = ("share", "steps", "all attackers", "mean", "interval", "sampled", "its interval")
    output.show_table(columns, rows, right=right, optional=("run", "its interval", "all attackers"))
    for point in report.curve:
        if point.message:
            output.print_line(f"evaluation on fresh seeds of {point.name} failed: {point.message}", style="dim")
    output.print_line(
        f"win rates of the best attacker on {report.attack.seeds} fresh seeds, both sides, with 95 % intervals; "
        "steps of one attacker, and of all until there",
        style="dim",
    )
    shares = [output.percent(point.share) for point in report.curve]
    output.show_table(
        ("attacker", "from", "seed", *shares, "run"),
        [
            (
                str(each.number),
                each.name,
                str(each.seed),
                *(f"{cell[0]} ({cell[1]})" for cell in map(rate_cells, each.rates)),
                *[""] * (len(shares) - len(each.rates)),
                shown_id(each.run),
            )
            for each in report.attackers
        ],
        right=("attacker", "seed", *shares),
        optional=("run", "seed"),
        title="",
    )
    for each in report.attackers:
        if each.message:
            output.print_line(f"attacker {each.number} failed: {each.message}", style="dim")
    output.print_line(f"win rates with mean actions on the {report.seeds} seeds that choose the best one", style="dim")
    if report.exploitability:
        value, low, high = report.exploitability
        output.print_line(
            f"the strongest attacker wins {output.percent(value)} ({output.interval(low, high)}) of its matches",
            style="bold",
        )


def rate_cells(rate: Estimate | None) -> tuple[str, str]:
    """Return a win rate and its interval, dashes where there is none."""
    return ("-", "-") if rate is None else (output.percent(rate[0]), output.interval(rate[1], rate[2]))

"""Tables and JSON of red teams: win rate of the best attacker over compute, and each attacker."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from echelon.runs import RunNotFoundError, command, find_run
from echelon.telemetry.latest import read_latest
from echelon_cli import output
from echelon_cli.listing import shown_id

if TYPE_CHECKING:
    from echelon.jobs.sweeps.plan import SweepPlan
    from echelon.jobs.sweeps.redteam import Rates, RedTeamReport
    from echelon.statistics import Estimate


def plan_lines(plan: SweepPlan) -> list[str]:
    """Return what a red team will do, in lines."""
    attack = plan.attack
    assert attack, "the plan is that of a red team"
    kinds = ", ".join(each.name for each in plan.variants)
    rungs = ", ".join(map(output.count, attack.rungs))
    own = f", which trained for {output.count(attack.steps)} steps" if attack.steps else ""
    where = f" through {plan.launcher}" if plan.launcher else ""
    took = ""
    with contextlib.suppress(RunNotFoundError):
        if (last := read_latest(find_run(attack.target).metrics).update) and last.global_step:
            starts_s = 10.0 * (plan.repeated + 1) * plan.rungs
            seconds = starts_s + plan.planned_work * last.elapsed_s / last.global_step
            took = f"; about {output.duration(seconds)} with evaluations, at the target's speed"
    return [
        f"attackers of {attack.target}{own}: {plan.seeds} from each of {kinds}",
        f"evaluated before training and at {rungs} steps on {plan.base['eval']['seeds']} seeds",
        f"the best one at each of these steps plays again, on {attack.seeds} fresh seeds",
        f"{output.count(plan.planned_steps)} steps in all, {plan.at_once} at once{where}{took}",
    ]


def show_report(report: RedTeamReport) -> None:
    """Print the curve on fresh seeds, then the win rates by which the best attackers were chosen."""
    attack, shares = report.attack, [output.percent(point.share) for point in report.curve]
    actions = "mean" if report.target_mean else "sampled"
    target = f"{attack.target} ({attack.checkpoint[:8]})"
    output.print_line(f"attackers of {target}, which plays {actions} actions", style="bold")
    right = ("share", "steps", "all attackers", "mean", "interval", "sampled", "its interval")
    rows = [
        (output.percent(point.share), output.count(point.steps), output.count(point.all_steps), *rate_cells(point.mean),
         *rate_cells(point.sampled), "-" if point.attacker is None else f"{point.name} · {point.attacker}",
         shown_id(point.run))
        for point in report.curve
    ]  # fmt: skip
    optional = ("run", "its interval", "all attackers")
    output.show_table((*right, "best attacker", "run"), rows, right=right, optional=optional)
    note = (
        f"win rates of the best attacker on {attack.seeds} fresh seeds, both sides, with 95 % intervals; steps of one"
    )
    output.print_line(f"{note} attacker, and of all until there", style="dim")
    rows = [
        (str(each.number), each.name, str(each.seed),
         *map(both_cells, (each.before, *each.rates)),
         *[""] * (len(shares) - len(each.rates)), shown_id(each.run))
        for each in report.attackers
    ]  # fmt: skip
    columns, right = ("attacker", "from", "seed", "0%", *shares, "run"), ("attacker", "seed", "0%", *shares)
    output.show_table(columns, rows, right=right, optional=("run", "seed"), title="")
    failed = [(f"attacker {each.number}", each.message) for each in report.attackers]
    failed += [(f"evaluation {point.job}", point.message) for point in report.curve]
    for what, message in failed:
        if message:
            output.print_line(f"{what} failed: {message}", style="dim")
    note = f"mean/sampled actions, the better chooses the best one and has the interval; {report.seeds} seeds"
    output.print_line(f"{note}; 0%: untrained", style="dim")
    for text in report.findings:
        output.print_line(text, style="bold")
    if report.exploit:
        words = command("redteam", "--show", report.id, "--out", "FILE.html")
        output.print_line(f"how it wins, and the curve: {words}", style="dim")


def both_cells(rates: Rates | None) -> str:
    """Return win rates with mean and sampled actions, and the interval of the better."""
    if rates is None:
        return "-"
    both = "/".join(f"{100 * each.value:.0f}" for each in (rates.mean, rates.sampled) if each)
    return f"{both}% ({output.interval(*rates.best[1:])})"


def rate_cells(rate: Estimate | None) -> tuple[str, str]:
    """Return a win rate and its interval, dashes where there is none."""
    return ("-", "-") if rate is None else (output.percent(rate.value), output.interval(rate.low, rate.high))

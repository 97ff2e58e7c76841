"""``echelon redteam``: measure how exploitable a policy is, by attackers that train against it in the background."""

from pathlib import Path
from typing import Annotated

import typer

from echelon.files import write_output
from echelon.jobs.config_layers import ConfigError
from echelon_cli import job, options, output, redteam_job, sweep_job
from echelon_cli.commands.sweep import complete_sweeps, show_plan
from echelon_cli.commands.sweep import show as show_sweep
from echelon_cli.options import argument, complete_networks, option, overrides_of, usage_errors


def redteam(
    policy: Annotated[
        str | None,
        argument("RUN|CHECKPOINT|ENTRY|champion", "The policy to attack; attackers keep a copy.", complete_networks),
    ] = None,
    shares: Annotated[
        str, option("--shares", "Evaluate attackers at these percentages of --steps.", "LIST")
    ] = redteam_job.SHARES,
    steps: Annotated[
        int | None,
        option("--steps", "Learner agent-steps of an attacker or of --harden; default: the policy's.", min=1),
    ] = None,
    origins: Annotated[
        list[str] | None,
        option(
            "--from",
            "Start, repeated for several: target, value (target, paid the fall of its value), nothing or a policy.",
            "POLICY",
            complete_networks,
        ),
    ] = None,
    seeds: Annotated[int, option("--seeds", "Attackers from each start.", min=1)] = 1,
    report_seeds: Annotated[
        int, option("--report-seeds", "Fresh seeds on which the best attacker of each share is evaluated.", min=1)
    ] = 200,
    assignments: options.Set = None,
    at_once: Annotated[
        int | None, option("--at-once", "Attackers trained at the same time; they share the cores; default: 1.", min=1)
    ] = None,
    launcher: options.Launcher = None,
    notify: options.Notify = None,
    mirror: options.Mirror = None,
    resume: Annotated[str | None, option("--resume", "Continue a red team.", "ID", complete_sweeps)] = None,
    show: Annotated[str | None, option("--show", "Print the report of a red team.", "ID", complete_sweeps)] = None,
    out: Annotated[Path | None, option("--out", "Write --show's report as one HTML page.", "FILE", short="-o")] = None,
    force: options.Force = False,
    harden: Annotated[
        str | None, option("--harden", "Train on, in the league, against these attackers.", "ID", complete_sweeps)
    ] = None,
    plan_only: Annotated[bool, option("--plan", "Show what would be done, and start nothing.")] = False,
    detach: options.Detach = False,
    as_json: options.Json = False,
) -> int:
    """Train attackers against a policy and report how often the best one wins; Ctrl-C detaches.

    By default one attacker starts from the policy, one from champion where that is another policy of this game, and
    one from nothing. Each trains as long as the policy did, so the job takes 2 or 3 times its steps in all.
    """
    from echelon.jobs.observers import requested
    from echelon.jobs.sweeps.page import page_of
    from echelon.jobs.sweeps.results import read_report
    from echelon_cli.follow import show_summary
    from echelon_cli.redteam_tables import plan_lines

    if sum(map(bool, (policy, resume, show, harden))) != 1:
        raise typer.BadParameter("expected either a policy to attack, --resume ID, --show ID or --harden ID")
    own = {} if harden else {"--steps": steps, "--set": assignments}
    own |= {"--from": origins, "--launcher": launcher, "--plan": plan_only}
    if (resume or harden) and any(own.values()):
        raise typer.BadParameter(f"{next(filter(own.get, own))} is given without a policy to attack; leave it out")
    if out and not show:
        raise typer.BadParameter("--out is given without --show ID, whose report it takes; add it")
    if show:
        paths = redteam_job.find(show)
        if out:
            if out.exists() and not force:
                raise ValueError(f"file {str(out)!r} already exists; try another --out or --force")
            write_output(out, page_of(read_report(paths)))
            if not as_json:
                output.print_line(f"page written: {out}")
        show_sweep(paths.id, as_json=as_json)
        return output.DONE
    if harden:
        run = redteam_job.harden(harden, steps, overrides_of(assignments), as_json=as_json)
        return job.follow(run, detach, lambda status: show_summary(status, run.snapshot, run.paths), as_json=as_json)
    with usage_errors():
        observers = requested(notify or (), mirror or ())
    if resume:
        follower = sweep_job.resume(redteam_job.find(resume).id, observers, at_once, as_json=as_json)
        return redteam_job.follow(follower, detach=detach, as_json=as_json)
    overrides = overrides_of(assignments)
    if taken := overrides.keys() & {*redteam_job.OWN}:
        raise ConfigError(f"--set {min(taken)} is decided by the red team, expected another field")
    chosen = {
        "shares": shares, "steps": steps, "origins": origins or (), "fresh_seeds": report_seeds, "seeds": seeds,
        "at_once": at_once or 1, "launcher": launcher or "", "overrides": overrides,
    }  # fmt: skip
    if plan_only:
        plan, _ = redteam_job.prepare(str(policy), Path(redteam_job.PRESET), **chosen)
        show_plan(plan, plan_lines(plan), as_json)
        return output.DONE
    follower = redteam_job.start(str(policy), observers, as_json=as_json, **chosen)
    return redteam_job.follow(follower, detach=detach, as_json=as_json)

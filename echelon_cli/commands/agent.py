"""``echelon agent``: programs that play teams (docs/howto/agents.md)."""

from typing import Annotated

import numpy as np
import typer

from echelon.agent_files import AGENT
from echelon_cli import options, output
from echelon_cli.options import CHOICES, argument, one_of, option
from echelon_cli.players import find_player

app = typer.Typer(help="Agents: programs in any language that play.", no_args_is_help=True, rich_markup_mode=None)


@app.callback()
def _group() -> None:
    pass


@app.command("check")
def check(
    command: Annotated[str, argument("COMMAND", "Command of the agent, in quotes, without process:.")],
    opponent: Annotated[str, option("--opponent", "Scripted level.", "LEVEL", one_of(*CHOICES["pilot"]))] = "trivial",
    matches: Annotated[int, option("--matches", "Matches, each map from both sides.", min=2)] = 4,
    as_json: options.Json = False,
) -> int:
    """Play matches with an agent and say what it does wrong.

    The exit code is 0 where it does nothing wrong, else 1.
    """
    player, level = find_player(AGENT + command.removeprefix(AGENT)), find_player(opponent, "opponent")
    if level.path or matches % 2:
        raise typer.BadParameter(f"--opponent {opponent!r} --matches {matches}: expected a level, and an even number")
    from echelon.arena.contest import Contest, MatchSession
    from echelon.arena.match_runner import play
    from echelon.arena.named_pilots import policy_pilot
    from echelon.arena.policy_runner import GroupedPolicyRunner
    from echelon.rl.agent_process import LOG_LINES, MOST_FAULTS, STAND_IN
    from echelon.rl.checkpoint import env_config_of
    from echelon.rl.outside import ProcessPolicy

    assert player.path is not None
    pilot, loaded = policy_pilot(player.name, player.path)
    assert isinstance(loaded.policy, ProcessPolicy)
    teams = loaded.policy.packs
    contest = Contest(
        env=env_config_of(loaded.meta),
        pilots=(pilot.id, level.name),
        policies={pilot.id: pilot},
        matches=matches,
        swap=True,
    )
    with (
        output.waiting("playing", quiet=as_json) as show,
        GroupedPolicyRunner(plan=contest.plan, load=lambda pilot: loaded) as runner,
    ):
        session = MatchSession(envs=1, policy_runner=runner, on_status=show)
        results = list(play(contest.plan, contest.pairings(), session))
    taken_over, calls = teams.taken_over, teams.take_calls()
    ends = teams.close()
    wins = sum(result.record.winner == result.pairing.swapped for result in results)
    median, most, longest = np.quantile(teams.seconds, [0.5, 0.95, 1.0]) if teams.seconds else (0.0, 0.0, 0.0)
    faults = [fault for fault in (calls.first, *ends[:1]) if fault]
    found = {
        "command": command, "matches": len(results), "wins": wins, "opponent": level.name, "start_s": teams.start_s,
        "decisions": calls.calls, "failed": calls.failed, "slow": calls.slow, "taken_over": taken_over,
        "median_s": median, "quantile_95_s": most, "longest_s": longest, "faults": faults, "log": teams.log[-2000:],
    }  # fmt: skip
    if as_json:
        output.show_json(found)
        return bool(faults)
    hello = (
        f"no hello within {teams.start_s:.0f} s" if "no hello" in calls.first else f"hello after {teams.start_s:.2f} s"
    )
    output.print_line(f"start     {hello}")
    output.print_line(f"decisions {calls.calls}: {calls.failed} failed, {calls.slow} longer than 0.1 s")
    output.print_line(
        f"answers   median {median * 1e3:.1f} ms, 95 % {most * 1e3:.1f} ms, longest {longest * 1e3:.0f} ms"
    )
    own = f"; in {taken_over} of them {STAND_IN} flew on after {MOST_FAULTS} faults" * bool(taken_over)
    output.print_line(f"matches   {wins} of {len(results)} won against {level.name}{own}")
    for fault in faults:
        output.print_line(f"fault     {fault}")
    for line in teams.log.strip().splitlines()[-LOG_LINES:]:
        output.print_line(f"stderr    {line}")
    output.print_line("passed" if not faults else "not passed: mend the faults")
    return bool(faults)

"""Evaluations of a red team's best attackers on fresh seeds: evaluation jobs beside the folder of the sweep.

In the last one the target plays itself, so that its behaviour against the attackers can be compared with its usual one.
"""

from collections import Counter
from dataclasses import asdict, fields, replace

from echelon.jobs import launch
from echelon.jobs.evaluations import admit, admits, open_policy
from echelon.jobs.kinds import KINDS
from echelon.jobs.launchers import LaunchError
from echelon.jobs.spec import new_spec
from echelon.jobs.sweeps.plan import SweepPlan
from echelon.jobs.sweeps.redteam import rates_of
from echelon.jobs.sweeps.schedule import EVALUATED, FAILED, STARTED, Trial
from echelon.jobs.tickets import resolved_device
from echelon.runs import RunPaths, create_run
from echelon.telemetry.events import EvalStats, EventEval, EventFresh
from echelon.telemetry.log import read_events

MAX_STARTS = 10
"""Starts of an evaluation by one process of a red team before it counts as failed."""
RECORDED = 10
"""Seeds of an evaluation whose matches are recorded, and on which the target plays itself."""
POLICY, OPPONENT = "policy", "opponent"
"""Copies of attacker and target in the folder of an evaluation."""


class FreshEvaluations:
    """Evaluation jobs in which an attacker plays the target with mean and with sampled actions."""

    def __init__(self, plan: SweepPlan, sweep: RunPaths) -> None:
        self._plan, self._sweep = plan, sweep
        self._starts: Counter[str] = Counter()

    def planned(self, trial: Trial, rung: int) -> EventFresh:
        """Return the record of an evaluation that is to start."""
        assert self._plan.attack, "only a red team evaluates on fresh seeds"
        run = create_run("eval", self._sweep.root.parent).id
        is_usual = rung == self._plan.rungs
        step = self._plan.attack.steps if is_usual else trial.results[rung].global_step
        return EventFresh(trial=trial.number, rung=rung, is_usual=is_usual, run=run, state=STARTED, global_step=step)

    def outcome(self, event: EventFresh, trial: Trial) -> EventFresh | None:
        """Return the record of an evaluation that has ended; None while it runs. It is started and resumed here."""
        paths = self._paths(event)
        if paths.spec.exists():
            status = launch.ended_status(paths)
            if status is None:
                return None
            if status.state == "completed":
                return self._evaluated(event, paths)
            if status.state == "failed":
                return replace(event, state=FAILED, message=status.reason)
        self._starts[event.run] += 1
        try:
            if self._starts[event.run] > MAX_STARTS:
                raise ValueError(f"it ended {MAX_STARTS} times without a result")
            self._start(event, trial, paths)
        except LaunchError:
            # a full disk or a busy machine: the next look at the evaluation starts it again
            if self._starts[event.run] >= MAX_STARTS:
                raise
        except (ValueError, OSError) as error:
            return replace(event, state=FAILED, message=str(error))
        return None

    def stop(self, event: EventFresh) -> None:
        paths = self._paths(event)
        if paths.spec.exists() and admits(paths.root, self._sweep.id):
            launch.stop(paths)

    def _paths(self, event: EventFresh) -> RunPaths:
        return RunPaths(self._sweep.root.parent / event.run)

    def _start(self, event: EventFresh, trial: Trial, paths: RunPaths) -> None:
        from echelon.rl.checkpoint import MANIFEST, step_name
        from echelon.training.eval_plan import EvalPlan, batch_seeds, environment_of

        plan, attack = self._plan, self._plan.attack
        assert attack, "only a red team evaluates on fresh seeds"
        run = RunPaths((self._sweep.root.parent / trial.choice.run).absolute())
        is_new, is_usual = not paths.spec.exists(), event.is_usual
        if not admits((run if is_new else paths).root, self._sweep.id):
            raise ValueError(f"run {trial.choice.run!r} was not made for the red team {self._sweep.id!r}")
        if is_new:
            admit(paths.root, self._sweep)
            if not (paths.root / POLICY / MANIFEST).exists():
                attacker = run.checkpoints / step_name(event.global_step)
                open_policy(self._sweep.root / attack.policy if is_usual else attacker).copy(paths.root / POLICY)
            open_policy(self._sweep.root / attack.policy).copy(paths.root / OPPONENT)
            admit(run.root, paths)
        target_mean = bool(plan.base["opponents"]["champion_mean"])
        chosen = trial.results.get(event.rung)
        record_sampled = chosen is not None and len(chosen.rates) > 5 and rates_of(chosen.rates).actions == "sampled"
        device, meta = str(plan.base["device"]), open_policy(paths.root / POLICY).meta
        evaluation = EvalPlan(
            target=attack.policy if is_usual else str(run.root), run="" if is_usual else str(run.root), policy=POLICY,
            opponents=(attack.policy,), opponent_policy=OPPONENT, opponent_mean=target_mean,
            deterministic=target_mean or not is_usual, weapon_prob=1.0, device=device,
            seeds=min(attack.seeds, RECORDED) if is_usual else attack.seeds, threads=int(plan.base["threads"]),
            batch_seeds=batch_seeds(environment_of(meta), resolved_device(device)),
            replays=str(paths.replays.absolute()), recorded=RECORDED,
            record_sampled=record_sampled, replay_prefix="fresh",
        )  # fmt: skip
        spec = new_spec("eval", {"preset": "eval", "eval": asdict(evaluation)}, {}, parent=self._sweep.id)
        launch.launch(paths, spec, KINDS["eval"], launcher=plan.launcher)

    def _evaluated(self, event: EventFresh, paths: RunPaths) -> EventFresh:
        found = [each for each in read_events(paths.metrics)[0] if isinstance(each, EventEval)]
        if not found:
            return replace(event, state=FAILED, message="it has no result")
        stats = {field.name: getattr(found[-1], field.name) for field in fields(EvalStats)}
        return replace(event, state=EVALUATED, checkpoint=found[-1].checkpoint, **stats)

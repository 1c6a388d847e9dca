"""`gymnast train --seeds`: the same training with each seed, as ordinary runs, and what they say together.

The same command again skips the runs that are finished and goes on with those that were cut short.
"""

from __future__ import annotations

import shutil
from collections.abc import Generator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from gymnast import config as configs
from gymnast.config.layers import split_target
from gymnast.core.errors import Stopped, UserError
from gymnast.core.pulse import Pulse
from gymnast.core.seeds import parse_seeds
from gymnast.core.text import duration, score, setting
from gymnast.core.trust import allow
from gymnast.jobs.launchers.local import LocalLauncher, LocalRun
from gymnast.jobs.pool import ENDS, run_all
from gymnast.jobs.worker import Job
from gymnast.report.run_facts import RunFacts
from gymnast.runs.folder import new_token, run_id
from gymnast.runs.references import Run, RunInfo, list_runs, runs_dir_option
from gymnast.verbs.progress import SILENT, Progress
from gymnast.verbs.runs.compare import Measured, comparison
from gymnast.verbs.runs.show import brief
from gymnast.verbs.runs.sides import Side
from gymnast.verbs.train import Order, settle

WORK = "gymnast.verbs.remote.work:train_and_count"
SIDE_BY_SIDE = ("train.threads=1",)  # what shares the machine does not wait for each other. --set may say otherwise


@dataclass(frozen=True)
class SeedsTrained:
    """The runs of all seeds, and their measures together, as `gymnast runs compare` takes them."""

    target: str
    runs_dir: Path
    runs: list[RunFacts]  # one a seed, that has come to its end
    measures: dict[str, Measured]
    failed: dict[int, str]  # by seed: why
    next: list[tuple[str, str]] = field(default_factory=list)  # command, what it does

    @property
    def solved(self) -> int:
        return sum(bool(run.solved) for run in self.runs)

    @property
    def asked(self) -> int:
        return len(self.runs) + len(self.failed)

    @property
    def is_solved(self) -> bool:
        return self.solved == self.asked

    @property
    def exit_code(self) -> int:
        return 1 if self.failed else 0

    def to_json(self) -> dict[str, Any]:
        return {
            "target": self.target,
            "runs": [brief(run) for run in self.runs],
            "seeds": self.asked,
            "solved": self.solved,
            "measures": {name: asdict(measured) for name, measured in self.measures.items()},
            "failed": {str(seed): why for seed, why in self.failed.items()},
        }


@dataclass(frozen=True, eq=False)
class Part:
    """The run of one seed: what it is to do, and its folder, which may be there already."""

    seed: int
    order: Order
    run: Run
    found: str | None = None  # the status of a run that this command has made before

    @property
    def steps(self) -> int:
        return int(self.order.config["train"]["total_timesteps"])

    @property
    def is_done(self) -> bool:
        return self.found == "finished"

    @property
    def has_checkpoint(self) -> bool:
        return self.run.checkpoint_path("last").exists()

    def job(self) -> Job:
        return Job(WORK, {"order": asdict(self.order)}, folder=self.run.path.absolute())


def train_seeds(
    target: str,
    overrides: Sequence[str],
    runs_dir: Path,
    seeds: str,
    jobs: int | None = None,
    redo: bool = False,
    steps: int | None = None,
    init_from: str | None = None,
    track: Sequence[str] = (),
    name: str | None = None,
    tags: Sequence[str] = (),
    trust: bool = False,
    progress: Progress = SILENT,
) -> SeedsTrained:
    """`name`: of each run, with its seed behind it; `trust`: what the file names is imported, wherever it was made."""
    if trust:
        allow(split_target(target)[0])
    try:
        numbers = parse_seeds(seeds)
    except ValueError as error:
        raise UserError(f"--seeds {seeds}: {error}") from None
    settings = [*(SIDE_BY_SIDE if (jobs or 1) > 1 else ()), *overrides]

    def order(seed: int) -> Order:
        own = None if name is None else f"{name}-s{seed}"
        order = settle(target, settings, runs_dir, seed, steps, init_from, track, own, tags)
        order.facts["command"] = command_of(order, init_from)
        return order

    parts = parts_of({seed: order(seed) for seed in numbers}, runs_dir, redo)
    left = [part for part in parts if not part.is_done]
    for part in parts:
        if part.is_done:
            progress.say(f"seed {part.seed}: trained already, {part.run.id} (--redo trains it again)")
    if left:
        how = "" if len(left) == 1 else ", one after the other" if (jobs or 1) == 1 else f", {jobs} at a time"
        progress.say(f"training {len(left)} run{'s' * (len(left) > 1)} of {target}{how} ...")
    failed = train_all(left, jobs or 1, progress)
    if len(failed) == len(parts) and len(set(failed.values())) == 1 and not any(p.run.path.exists() for p in parts):
        raise UserError(failed[numbers[0]])  # what is wrong with the settings, or missing on this machine
    facts = [RunFacts(part.run) for part in parts if part.seed not in failed]
    measures = {key: found[0] for key, found in comparison([Side.of(facts)]).measures.items()} if facts else {}
    return SeedsTrained(target, runs_dir, facts, measures, failed, commands_of(facts, runs_dir))


def command_of(order: Order, init_from: str | None) -> list[str]:
    """What trains this run alone."""
    words = ["gymnast", "train", order.target, *(["--init-from", init_from] if init_from else [])]
    return [*words, *(word for setting in order.settings for word in ("--set", setting))]


def parts_of(orders: dict[int, Order], runs_dir: Path, redo: bool) -> list[Part]:
    """Each with the folder of the run that it was given before, or with a new one."""
    there = [] if redo else list_runs(runs_dir)
    parts = []
    for seed, order in orders.items():
        same = next((info for info in there if is_made_by(order, info)), None)
        if same is not None and same.status == "running":
            raise UserError(f"seed {seed} is being trained right now, by run {same.id}; wait for it or stop it first.")
        if same is not None:
            parts.append(Part(seed, order, Run(same.path), same.status))
        else:
            env, algo = order.config["env"]["id"], order.config["algo"]["name"]
            parts.append(Part(seed, order, Run(runs_dir / run_id(new_token(runs_dir), env, algo, seed))))
    return parts


def is_made_by(order: Order, info: RunInfo) -> bool:
    """Whether that run was trained, or begun, by the same order; what crashed is trained again."""
    wanted = (order.config["train"]["seed"], order.config["env"]["id"], order.facts["parent"], order.facts["name"])
    if (info.seed, info.env, info.parent, info.name) != wanted or info.status in ("crashed", "damaged"):
        return False
    asked = configs.validate(order.config)
    try:
        kept = Run(info.path).config_path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        return False
    threads = {order.config["train"]["threads"], None, 1}  # whatever --jobs made of it: the numbers are the same
    return kept in (configs.dump(configs.override(asked, [f"train.threads={setting(n)}"])) for n in threads)


def train_all(parts: Sequence[Part], at_once: int, progress: Progress) -> dict[int, str]:
    """Why those that failed did, by seed. The first Ctrl-C stops all runs as it stops one: with a checkpoint."""
    progress.plan(sum(part.steps for part in parts))
    launcher, pulse = LocalLauncher(), Pulse()
    running: dict[Part, LocalRun] = {}
    reached = dict.fromkeys(parts, 0)
    failed: dict[int, str] = {}
    ended = 0

    def launch(part: Part) -> LocalRun:
        running[part] = launcher.run(part.job())
        if pulse.stopping:
            running[part].close()
        return running[part]

    def stop() -> None:
        """A run without a row may not listen yet, and has learned nothing that could be kept."""
        for part, events in running.items():
            if reached[part]:
                events.stop()
            else:
                events.close()

    def waiting() -> Generator[Part, None, None]:
        for part in parts:
            if pulse.stopping:
                return
            progress.step(f"seed {part.seed}, {ended} of {len(parts)} runs")
            yield part

    pulse.on_stop = stop
    with pulse.listening(), closing(run_all(waiting(), at_once, launch)) as events:
        for part, event in events:
            steps = min(event.data["steps"], part.steps) if event.kind == "event" else part.steps
            progress.done(steps - reached[part])
            reached[part] = steps
            if event.kind in ENDS:
                del running[part]
                if event.kind == "error" and not pulse.stopping:
                    failed[part.seed] = why_it_failed(part, event.data["why"])
                elif not pulse.stopping and part.run.read().status != "finished":  # somebody else has stopped it
                    failed[part.seed] = f"{part.run.id} was interrupted; the same command goes on with it"
                ended += not pulse.stopping
                if not pulse.stopping:
                    said = failed.get(part.seed) or said_of(RunFacts(part.run))
                    progress.say(f"{ended} of {len(parts)}  seed {part.seed}: {said}", failed=part.seed in failed)
    if pulse.stopping:
        raise Stopped(how_it_stopped(parts))
    return failed


def how_it_stopped(parts: Sequence[Part]) -> str:
    for part in parts:  # begun, and killed before there was anything to keep
        if part.found is None and part.run.path.exists() and not part.has_checkpoint and not part.run.live():
            shutil.rmtree(part.run.path)
    done = sum(part.run.path.exists() and part.run.read().status == "finished" for part in parts)
    begun = sum(part.has_checkpoint for part in parts) - done
    return f"stopped; {done} of {len(parts)} runs are finished, {begun} begun. The same command goes on with them."


def why_it_failed(part: Part, why: str) -> str:
    """Of an env that crashed the last line of its traceback, and where the rest is."""
    crash = RunFacts(part.run).crash if part.run.path.exists() else None
    return why if crash is None else f"{crash}  {part.run.log_path}"


def said_of(facts: RunFacts) -> str:
    """A run in a few words."""
    known = "no score" if facts.score is None else score(facts.score)
    verdict = "" if facts.solved is None else ", solved" if facts.solved else ", not solved"
    return f"{known}{verdict}, {facts.env_steps:,} steps in {duration(facts.seconds or 0.0)}  {facts.token}"


def commands_of(runs: Sequence[RunFacts], runs_dir: Path) -> list[tuple[str, str]]:
    """What to look at next: all of them together, and the worst alone."""
    if not runs:
        return []
    where, names = runs_dir_option(runs_dir), ",".join(run.token for run in runs)
    scored = [run for run in runs if run.score is not None]
    worst = min(scored, key=lambda run: run.score or 0.0, default=runs[0])
    return [
        (f"gymnast runs plot {names}{where}", "their learning curve, with its interval"),
        (f"gymnast runs compare {names} REF{where}", "compare them with other runs"),
        (f"gymnast report {worst.token}{where}", f"the run with the lowest score, seed {worst.info.seed}"),
    ]

"""`gymnast speed`: how fast training is on this machine, where its time goes, how near that is to the machine's limit,
the one change that helps most, and how fast other libraries are.

Whatever is compared is measured in one run, in turns, one process working at a time, the best of several windows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gymnast import config as configs
from gymnast.core.errors import UserError
from gymnast.core.machine import cores, cpu_model
from gymnast.jobs.worker import Worker
from gymnast.training.record import solved_threshold, versions
from gymnast.verbs.progress import SILENT, Progress
from gymnast.verbs.speed.advice import changes
from gymnast.verbs.speed.libraries import Baseline, baselines_for, parse_names, parse_paths
from gymnast.verbs.speed.libraries.command import Commands
from gymnast.verbs.speed.results import Speed
from gymnast.verbs.speed.runs import measure_solving, measure_startup, our_worker, timed
from gymnast.verbs.train import resolve_config

if TYPE_CHECKING:
    from gymnast.config import RunConfig

ENDLESS = 10**12  # steps: a run measured in windows has no end, so its schedules stay at their start
COLLECTING, LEARNING = ("env", "act", "copy"), ("returns", "update")
WORTH_SAYING = 0.03  # a smaller gain is noise, and so is one that not every round shows
ADVICE_ROUNDS = 2
LIMIT_SECONDS = 2.0  # that measuring the limit takes, about


@dataclass
class Windows:
    """What was measured of one side, window by window."""

    rates: list[float] = field(default_factory=list)
    phases: list[dict[str, float]] = field(default_factory=list)  # seconds per env step
    memory_mb: float | None = None
    compile_seconds: float | None = None

    def add(self, answer: dict[str, Any]) -> None:
        self.rates.append(answer["steps"] / answer["seconds"])
        self.phases.append({name: spent / answer["steps"] for name, spent in answer.get("phases", {}).items()})
        self.memory_mb = answer.get("memory_mb", self.memory_mb)
        self.compile_seconds = answer.get("compile_seconds", self.compile_seconds)

    @property
    def best(self) -> float:
        return max(self.rates)

    def rate_of(self, names: Sequence[str]) -> float:
        """Steps a second if training consisted of these phases only; the best window's."""
        return 1.0 / max(1e-12, min(sum(phases.get(name, 0.0) for name in names) for phases in self.phases))

    def shares(self) -> dict[str, float]:
        """Each phase's share of the best window."""
        phases = self.phases[self.rates.index(self.best)]
        total = sum(phases.values()) or math.inf
        return {name: spent / total for name, spent in phases.items()}


def measure(
    target: str,
    overrides: Sequence[str] = (),
    *,
    seconds: float = 2.0,
    windows: int = 3,
    against: str | None = None,
    pythons: Sequence[str] = (),
    repos: Sequence[str] = (),
    solve: bool = False,
    startup: bool = False,
    seeds: int = 5,
    advice: bool = True,
    progress: Progress = SILENT,
) -> Speed:
    resolved = resolve_config(target, overrides)
    config = resolved.config
    paths = parse_paths("--python", pythons), parse_paths("--repo", repos)
    others = baselines_for(config, parse_names(against), *paths)
    if solve and (silent := [other.name for other in others if not other.can_be_scored]):
        raise UserError(f"--solve: {', '.join(silent)} cannot be scored while it trains. Leave it out of --against.")
    starts = solving = training = None
    if startup:
        starts = measure_startup(resolved.target, target, overrides, config, others, windows, progress)
    if solve:
        solving = measure_solving(config, solved_threshold(config, resolved.facts), others, seeds, progress)
    if not (startup or solve):
        training = measure_training(config, others, seconds, windows, advice, progress)
    return Speed(
        target=resolved.target,
        env=config.env.id,
        machine={"cpu": cpu_model(), "cores": cores(), "versions": versions()},
        settings={
            "n_envs": config.env.n_envs,
            "n_steps": config.algo.n_steps,
            "threads": config.train.threads,
            "seconds": seconds,
            "windows": windows,
        },
        notes=[f"{other.name}: {note}" for other in others for note in other.notes],
        training=training,
        startup=starts,
        solve=solving,
    )


def steady(config: RunConfig, *more: str) -> RunConfig:
    """The run as it is in the long middle: no end, no evaluation, no verdict, as many rows as ever."""
    return configs.override(
        config,
        [
            f"log.every={config.log_every}",
            f"train.total_timesteps={ENDLESS}",
            "train.checkpoint_every=null",
            "eval.every=0",
            "stop.on_solved=false",
            "stop.plateau=null",
            *more,
        ],
    )


def measure_training(
    config: RunConfig, baselines: Sequence[Baseline], seconds: float, windows: int, advice: bool, progress: Progress
) -> dict[str, Any]:
    """The long middle of a run, without evaluations: its rates; the limit; the other libraries; the best change."""
    base = steady(config).model_dump(mode="json")
    progress.plan(seconds * windows * 2 * (1 + len(baselines)) + LIMIT_SECONDS)
    progress.step("starting")
    with our_worker() as ours:
        about = ours.ask(do="build", name="ours", config=base)
        env, whole = Windows(), Windows()
        with ExitStack() as running:  # no other library holds memory or a core while changes are measured
            others = [start(baseline, config, running, progress) for baseline in baselines]
            for turn in range(windows):
                label = f"window {turn + 1} of {windows}"
                with timed(progress, f"{label}: env alone", seconds):
                    env.add(ours.ask(do="env", config=base, seconds=seconds))
                with timed(progress, f"{label}: training", seconds):
                    whole.add(ours.ask(do="window", name="ours", seconds=seconds))
                for other in others:
                    for threads, result in other.results.items():
                        what = f"{label}: {other.baseline.name}, threads {threads or 'default'}"
                        with timed(progress, what, seconds):
                            result.add(other.worker.ask(threads=threads, seconds=seconds))
            memory = ours.ask(do="memory")["memory_mb"]
            with timed(progress, "the machine's limit", LIMIT_SECONDS):
                limit = limits(env.best, whole, ours.ask(do="limit", name="ours"))
        return {
            **about,  # engine, why, threads
            "rates": {
                "env": env.best,  # alone, with random actions
                "collect": whole.rate_of(COLLECTING),
                "update": whole.rate_of(LEARNING),
                "whole": whole.best,
            },
            "windows": whole.rates,
            "shares": whole.shares(),
            "memory_mb": memory,
            "limit": limit,
            "against": {other.baseline.name: other.report(whole.best) for other in others},
            "advice": advise(ours, config, about, env.best, seconds / 2, progress) if advice else None,
        }


def limits(env_alone: float, whole: Windows, network: dict[str, Any]) -> dict[str, Any]:
    """What would be left if nothing but the env and the network took time, one after the other.

    `network`: the rates of its arithmetic alone and of torch's passes alone, and how they were found.
    """
    env = max(env_alone, whole.rate_of(["env"]))  # random play resets more often than an agent does
    together = 1.0 / (1.0 / env + 1.0 / network["arithmetic"])
    in_torch = 1.0 / (1.0 / env + 1.0 / network["network"])
    mine = {"env": env, "whole": together, "share": whole.best / together}
    return {**network, **mine, "torch": in_torch, "torch_share": whole.best / in_torch}


@dataclass(frozen=True)
class Running:
    """Another library at work in its own process."""

    baseline: Baseline
    worker: Worker | Commands
    about: dict[str, Any]
    results: dict[int | None, Windows]  # by thread setting

    def report(self, ours: float) -> dict[str, Any]:
        """Ratios are our rate over theirs."""
        best = max(self.results.values(), key=lambda result: result.best)
        return {
            "version": self.about["version"],
            "python": self.baseline.python,
            "default_threads": self.about["threads"],
            "settings": [
                {"threads": threads, "rate": result.best, "windows": result.rates, "ratio": ours / result.best}
                for threads, result in self.results.items()
            ],
            "compile_seconds": best.compile_seconds,
            "memory_mb": best.memory_mb,
            "best": best.best,
            "ratio": ours / best.best,
            "ratio_default": ours / self.results[None].best,
        }


def start(baseline: Baseline, config: RunConfig, running: ExitStack, progress: Progress) -> Running:
    progress.step(f"starting {baseline.name}")
    worker = baseline.start("windows")
    running.push(worker)
    about = worker.ready()
    settings = thread_settings(about["threads"], two_may_pay=config.agent.encoder != "mlp")
    return Running(baseline, worker, about, {threads: Windows() for threads in settings})


def thread_settings(default: int, two_may_pay: bool) -> list[int | None]:
    """The library's own default (None), then those that differ from it."""
    return [None, *(n for n in ((1, 2) if two_may_pay else (1,)) if n != default and n <= cores())]


def advise(
    ours: Worker, config: RunConfig, about: dict[str, Any], env_rate: float, seconds: float, progress: Progress
) -> dict[str, Any]:
    """Every single change that could help, measured in turns with the run as it is."""
    tried = [(change, Windows()) for change in changes(config, about["engine"], about["threads"], env_rate)]
    progress.plan(ADVICE_ROUNDS * seconds * (len(tried) + 1))
    for change, _ in tried:
        progress.step(f"building {change.text}")
        ours.ask(do="build", name=change.text, config=steady(config, *change.overrides).model_dump(mode="json"))
    base = Windows()
    for turn in range(ADVICE_ROUNDS):
        for name, result in [("ours", base), *((change.text, result) for change, result in tried)]:
            with timed(progress, f"{'as it is' if result is base else name}, round {turn + 1}", seconds):
                result.add(ours.ask(do="window", name=name, seconds=seconds))
    rows: list[dict[str, Any]] = [
        {
            "change": change.text,
            "set": list(change.overrides),
            "rate": result.best,
            "gain": result.best / base.best - 1.0,
            "steady": all(its > as_it_is for its, as_it_is in zip(result.rates, base.rates, strict=True)),
            "note": change.note,
        }
        for change, result in tried
    ]
    rows.sort(key=lambda row: -row["gain"])
    best = next((row for row in rows if row["gain"] > WORTH_SAYING and row["steady"]), None)
    return {"base": base.best, "tried": rows, "best": best}

"""`gymnast bench`: how fast training is on this machine, where its time goes, how near that is to the machine's limit,
the one change that helps most, and how other libraries do beside it.

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
from gymnast.verbs.speed.advice import Change, changes
from gymnast.verbs.speed.libraries import Opponent, opponents, parse_names, parse_pythons
from gymnast.verbs.speed.libraries.command import Commands
from gymnast.verbs.speed.process import Bar, our_worker, progress_bar
from gymnast.verbs.speed.runs import measure_solving, measure_startup
from gymnast.verbs.train import resolve_config

if TYPE_CHECKING:
    from gymnast.config import RunConfig

ENDLESS = 10**12  # steps: a run measured in windows has no end, so its schedules stand at their start
COLLECTING, LEARNING = ("env", "act", "copy", "idle"), ("returns", "update")
WORTH_SAYING = 0.03  # a smaller gain is noise, and so is one that not every round shows
ADVICE_ROUNDS = 2
LIMIT_SECONDS = 2.0  # that measuring the limit takes, about


@dataclass
class Windows:
    """What one contestant did, window by window."""

    rates: list[float] = field(default_factory=list)
    phases: list[dict[str, float]] = field(default_factory=list)  # seconds per env step
    memory_mb: float | None = None

    def add(self, answer: dict[str, Any]) -> None:
        self.rates.append(answer["steps"] / answer["seconds"])
        self.phases.append({name: spent / answer["steps"] for name, spent in answer.get("phases", {}).items()})
        self.memory_mb = answer.get("memory_mb", self.memory_mb)

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


def bench(
    target: str,
    overrides: Sequence[str] = (),
    *,
    seconds: float = 2.0,
    windows: int = 3,
    against: str | None = None,
    pythons: Sequence[str] = (),
    solve: bool = False,
    startup: bool = False,
    seeds: int = 5,
    advice: bool = True,
    as_json: bool = False,
) -> dict[str, Any]:
    resolved = resolve_config(target, overrides)
    config = resolved.config
    rivals = opponents(config, parse_names(against), parse_pythons(pythons))
    if solve and (silent := [rival.name for rival in rivals if not rival.can_be_scored]):
        raise UserError(f"--solve: {', '.join(silent)} cannot be scored while it trains. Leave it out of --against.")
    data: dict[str, Any] = {
        "target": resolved.target,
        "env": config.env.id,
        "machine": {"cpu": cpu_model(), "cores": cores(), "versions": versions()},
        "settings": {
            "n_envs": config.env.n_envs,
            "n_steps": config.algo.n_steps,
            "threads": config.train.threads,
            "seconds": seconds,
            "windows": windows,
        },
    }
    with progress_bar() as bar:
        if startup:
            data["startup"] = measure_startup(resolved.target, target, overrides, config, rivals, windows, bar)
        if solve:
            threshold = solved_threshold(config, resolved.facts)
            data["solve"] = measure_solving(config, threshold, rivals, seeds, bar)
        if not (startup or solve):
            data |= measure_rates(config, rivals, seconds, windows, advice, bar)
    data["notes"] = [f"{rival.name}: {note}" for rival in rivals for note in rival.notes]
    if not as_json:
        from gymnast.terminal.speed import print_bench

        print_bench(data)
    return data


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


def measure_rates(
    config: RunConfig, rivals: Sequence[Opponent], seconds: float, windows: int, advice: bool, bar: Bar
) -> dict[str, Any]:
    """Steps a second of env, collect, update and the whole; the limit; the best change; the others."""
    base = steady(config).model_dump(mode="json")
    with ExitStack() as stack:
        ours = stack.enter_context(our_worker())
        bar.plan(seconds * (2 * windows + 2 * windows * len(rivals)) + LIMIT_SECONDS)
        bar.step("starting")
        about = ours.ask(do="build", name="ours", config=base)
        others = [stack.enter_context(Contestant(rival, config)) for rival in rivals]
        for other in others:
            bar.step(f"starting {other.name}")
            other.start()
        env, whole = Windows(), Windows()
        for turn in range(windows):
            bar.step(f"window {turn + 1} of {windows}: env alone")
            env.add(ours.ask(do="env", config=base, seconds=seconds))
            bar.done(seconds)
            bar.step(f"window {turn + 1} of {windows}: training")
            whole.add(ours.ask(do="window", name="ours", seconds=seconds))
            bar.done(seconds)
            for other in others:
                for threads in other.threads:
                    bar.step(f"window {turn + 1} of {windows}: {other.name}, threads {threads or 'default'}")
                    other.window(threads, seconds)
                    bar.done(seconds)
        memory = ours.ask(do="memory")["memory_mb"]
        bar.step("the machine's limit")
        limit = ours.ask(do="limit", name="ours")
        bar.done(LIMIT_SECONDS)
        data = {
            "engine": about["engine"],
            "why": about["why"],
            "threads": about["threads"],
            "rates": {
                "env": env.best,
                "collect": whole.rate_of(COLLECTING),
                "update": whole.rate_of(LEARNING),
                "whole": whole.best,
            },
            "windows": whole.rates,
            "shares": whole.shares(),
            "memory_mb": memory,
            "limit": limits(env.best, whole, limit),
            "against": {other.name: other.report(whole.best) for other in others},
        }
        for other in others:
            other.stop()
        if advice:
            data["advice"] = advise(ours, config, about, env.best, seconds / 2, bar)
    return data


def limits(env_alone: float, whole: Windows, network: dict[str, Any]) -> dict[str, Any]:
    """What would be left if nothing but the env and the network's arithmetic took time, one after the other."""
    env = max(env_alone, whole.rate_of(["env"]))  # random play resets more often than an agent's does
    together = 1.0 / (1.0 / env + 1.0 / network["arithmetic"])
    in_torch = 1.0 / (1.0 / env + 1.0 / network["network"])
    return {
        **network,
        "env": env,
        "whole": together,
        "share": whole.best / together,
        "torch": in_torch,
        "torch_share": whole.best / in_torch,
    }


class Contestant(ExitStack):
    """A rival in its own process, measured with every thread setting that makes sense for it."""

    def __init__(self, opponent: Opponent, config: RunConfig) -> None:
        super().__init__()
        self.opponent, self.name = opponent, opponent.name
        self.two_may_pay = config.agent.encoder != "mlp"
        self.threads: list[int | None] = [None]
        self.results: dict[int | None, Windows] = {}
        self.about: dict[str, Any] = {}
        self.worker: Worker | Commands | None = None

    def start(self) -> None:
        self.worker = worker = self.push(self.opponent.start("windows"))
        self.about = worker.ready()  # with its first iteration behind it
        self.threads = thread_settings(self.about["threads"], self.two_may_pay)
        self.results = {threads: Windows() for threads in self.threads}

    def stop(self) -> None:
        """So that it holds no memory and no core while others are measured."""
        self.close()

    def window(self, threads: int | None, seconds: float) -> None:
        assert self.worker is not None
        self.results[threads].add(self.worker.ask(threads=threads, seconds=seconds))

    def report(self, ours: float) -> dict[str, Any]:
        best = max(self.results.values(), key=lambda result: result.best)
        return {
            "version": self.about["version"],
            "python": self.opponent.python,
            "default_threads": self.about["threads"],
            "settings": [
                {"threads": threads, "rate": result.best, "windows": result.rates, "ratio": ours / result.best}
                for threads, result in self.results.items()
            ],
            "memory_mb": best.memory_mb,
            "best": best.best,
            "ratio": ours / best.best,
            "ratio_default": ours / self.results[None].best,
        }


def thread_settings(default: int, two_may_pay: bool) -> list[int | None]:
    """The library's own default (None), then those that differ from it."""
    return [None, *(n for n in ((1, 2) if two_may_pay else (1,)) if n != default and n <= cores())]


def advise(
    ours: Worker, config: RunConfig, about: dict[str, Any], env_rate: float, seconds: float, bar: Bar
) -> dict[str, Any]:
    """Every single change that could help, measured in turns with the run as it is."""
    tried: list[tuple[Change, Windows]] = []
    offered = changes(config, about["engine"], about["threads"], env_rate)
    bar.plan(ADVICE_ROUNDS * seconds * (len(offered) + 1))
    for change in offered:
        bar.step(f"building {change.text}")
        ours.ask(do="build", name=change.text, config=steady(config, *change.overrides).model_dump(mode="json"))
        tried.append((change, Windows()))
    base = Windows()
    for turn in range(ADVICE_ROUNDS):
        bar.step(f"as it is, round {turn + 1}")
        base.add(ours.ask(do="window", name="ours", seconds=seconds))
        bar.done(seconds)
        for change, result in tried:
            bar.step(f"{change.text}, round {turn + 1}")
            result.add(ours.ask(do="window", name=change.text, seconds=seconds))
            bar.done(seconds)
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

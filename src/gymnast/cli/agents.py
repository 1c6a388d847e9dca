"""Verbs that train agents, and those that look at one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from gymnast.cli.verbs import app, common, quiet, sets


@app.command(short_help="Train an agent until it is solved.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option("--seed", type=int, help="Short for --set train.seed=N.")
@click.option("--steps", type=int, help="Short for --set train.total_timesteps=N.")
@click.option("--init-from", metavar="REF", help="Start with the layers of another run's agent that fit.")
@click.option(
    "--track", multiple=True, metavar="NAME", help="Also log to wandb, trackio, tensorboard or csv. Repeatable."
)
@quiet
@common
def train(
    target: str,
    overrides: tuple[str, ...],
    seed: int | None,
    steps: int | None,
    init_from: str | None,
    track: tuple[str, ...],
    quiet: bool,
    runs_dir: Path,
    as_json: bool,
) -> Any:
    """Train an agent on ENV until a verdict on fresh episodes says solved, or its budget is spent.

    ENV is any id registered with Gymnasium (`module:Env-v0` imports the module first), or a YAML file of yours.
    Envs with presets: `gymnast envs list`.

    \b
    gymnast train CartPole-v1
    gymnast train CartPole-v1:reinforce --seed 7 --json
    gymnast train LunarLander-v3 --set env.kwargs.gravity=-5 --set env.n_envs=32
    gymnast train FrozenLake-v1 --set 'env.wrappers=[{time_limit: {steps: 50}}]'
    gymnast train my_env.yaml:fast --init-from @best
    gymnast train CartPole-v1 --track wandb --track tensorboard
    """
    from gymnast.verbs.train import start

    return start(target, overrides, runs_dir, seed, steps, init_from, quiet, track=track)


@app.command(short_help="Go on with a run.")
@click.argument("ref", default="@last")
@sets
@click.option("--steps", type=int, help="Short for --set train.total_timesteps=N.")
@click.option("--reset-optimizer", is_flag=True, help="Keep the agent, forget the optimizer's moments.")
@quiet
@common
def resume(
    ref: str,
    overrides: tuple[str, ...],
    steps: int | None,
    reset_optimizer: bool,
    quiet: bool,
    runs_dir: Path,
    as_json: bool,
) -> Any:
    """Go on with REF exactly where it stopped: weights, optimizer, schedules, random numbers, envs in mid-episode.

    With changed settings a new run is made that starts from there; the old one stays as it is.

    \b
    gymnast resume                            the newest run
    gymnast resume k3x9 --steps 200000        train longer
    gymnast resume @best/best --set algo.learning_rate=1e-4 --reset-optimizer
    """
    from gymnast.verbs.train import resume

    longer = [] if steps is None else [f"train.total_timesteps={steps}"]
    return resume(ref, [*overrides, *longer], runs_dir, reset_optimizer, quiet)


@app.command("eval", short_help="Score a saved agent.")
@click.argument("ref", default="@last")
@click.option("--episodes", type=click.IntRange(min=1), help="How many.  [default: the run's stop.episodes]")
@click.option("--seed", type=click.IntRange(min=0), help="Other episodes than the default ones.")
@click.option("--stochastic", is_flag=True, help="Sample actions instead of taking the likeliest.")
@sets
@common
def evaluate(
    ref: str,
    episodes: int | None,
    seed: int | None,
    stochastic: bool,
    overrides: tuple[str, ...],
    runs_dir: Path,
    as_json: bool,
) -> Any:
    """Run the agent of REF on fresh episodes and say whether it solves its env.

    The env is built exactly as in training, less wrappers that call themselves training-only.

    \b
    gymnast eval                              the best agent of the newest run
    gymnast eval k3x9/last --stochastic --episodes 500
    gymnast eval @best:LunarLander-v3 --set env.kwargs.enable_wind=true
    """
    from gymnast.verbs.runs import print_evaluation
    from gymnast.verbs.train import evaluate_ref

    result = evaluate_ref(ref, episodes, runs_dir, seed, stochastic, overrides)
    if not as_json:
        print_evaluation(result, runs_dir)
    return result


@app.command(short_help="Film a saved agent.")
@click.argument("ref", default="@last")
@click.option("--episodes", type=click.IntRange(1, 32), default=1, show_default=True, help="How many.")
@click.option("--seed", type=click.IntRange(min=0), help="Other episodes than the default ones.")
@click.option("--stochastic", is_flag=True, help="Sample actions instead of taking the likeliest.")
@click.option("--progression", is_flag=True, help="An episode of every checkpoint of the run, in order.")
@click.option("--seconds", type=click.FloatRange(min=1), default=10.0, show_default=True, help="At most, of each then.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File; default: in the run's videos.")
@click.option("--no-overlay", is_flag=True, help="The env's pictures alone.")
@sets
@common
def video(ref: str, runs_dir: Path, as_json: bool, **options: Any) -> Any:
    """Film the agent of REF: every step with reward, return so far, value, and actions with their probabilities.

    REF may name a checkpoint (k3x9/best, k3x9/last, k3x9/step_20480); without one it is the best. The episodes are
    those that `gymnast eval REF --episodes N --seed S` scores. A JSON file beside the film says what is in it.

    \b
    gymnast video                             the best agent of the newest run
    gymnast video k3x9/last --episodes 3 --stochastic --out three.mp4
    gymnast video @best:LunarLander-v3 --progression
    """
    from gymnast.verbs.video import film_ref

    return film_ref(ref, runs_dir, as_json=as_json, **options)


@app.command(short_help="A page about a run.")
@click.argument("ref", default="@last")
@click.option("--html", is_flag=True, help="As HTML with pictures, in one file that needs nothing else.")
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="File; default: in the run's folder.")
@click.option("--open", "show", is_flag=True, help="Open the HTML page in the browser.")
@common
def report(ref: str, html: bool, out: Path | None, show: bool, runs_dir: Path, as_json: bool) -> Any:
    """A page about a run: verdict, what to try next, curves, alerts, where the time went, settings, files.

    Every run gets one when it ends, report.md in its folder; this makes it anew and prints it.

    \b
    gymnast report                            the newest run, as Markdown
    gymnast report @best --html --open        with pictures, in the browser
    gymnast report k3x9 --html --out k3x9.html
    """
    from gymnast.verbs.report import report_run

    return report_run(ref, runs_dir, html, out, show, as_json)

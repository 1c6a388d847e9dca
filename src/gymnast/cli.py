"""The `gymnast` command: verbs, options and nothing else. Every verb is one call into `apps`, imported when it runs."""

from __future__ import annotations

import functools
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import click

from gymnast.errors import EnvFailure, Stopped, UserError, did_you_mean
from gymnast.files import numbers_to_json

Command = Callable[..., Any]
CONTEXT = {"help_option_names": ["-h", "--help"], "max_content_width": 110}


class Verbs(click.Group):
    """A group that answers a mistyped verb with the nearest ones, and keeps the order its verbs were written in."""

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        command = super().get_command(context, name)
        if command is None:
            context.fail(
                f"no command {name!r}.{did_you_mean(name, self.commands)} See `{context.command_path} --help`."
            )
        return command

    def list_commands(self, context: click.Context) -> list[str]:
        return list(self.commands)


def common(function: Command) -> Command:
    """--runs-dir and --json, which every verb has. What the verb returns is the JSON object."""

    @click.option(
        "--runs-dir",
        type=click.Path(file_okay=False, path_type=Path),
        default=lambda: os.environ.get("GYMNAST_RUNS") or "runs",
        show_default="$GYMNAST_RUNS or runs",
        help="Where runs are kept.",
    )
    @click.option("--json", "as_json", is_flag=True, help="End with one line of JSON.")
    @functools.wraps(function)
    def verb(*args: Any, as_json: bool, runs_dir: Path, **options: Any) -> None:
        result = function(*args, runs_dir=runs_dir, as_json=as_json, **options)
        if as_json:
            click.echo(json.dumps(numbers_to_json(result), allow_nan=False))

    return verb


sets = click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="KEY=VALUE",
    help="Change any setting, e.g. --set algo.learning_rate=lin_1e-3 or --set env.kwargs.gravity=-5. Repeatable.",
)
quiet = click.option("--quiet", "-q", is_flag=True, help="Print nothing but errors (and --json).")


@click.group(cls=Verbs, context_settings=CONTEXT, no_args_is_help=True)
@click.version_option(package_name="gymnast", message="gymnast %(version)s")
def app() -> None:
    """Train reinforcement-learning agents until they are provably solved, and see why they learn or fail to.

    \b
    gymnast train CartPole-v1                 train the tuned preset until it is solved
    gymnast train LunarLander-v3:zoo          another variant of a preset
    gymnast train Acrobot-v1 --set algo.n_steps=128 --seed 3
    gymnast resume @last                      go on exactly where a run stopped
    gymnast video @best                       watch what it does
    gymnast report                            what came of it, and what to try next
    gymnast runs list                         what there is
    gymnast doctor                            what is installed, and how to add what is not
    """


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
    from gymnast.apps.training import start

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
    from gymnast.apps.training import resume

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
    from gymnast.apps.show_runs import print_evaluation
    from gymnast.apps.training import evaluate_ref

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
    from gymnast.apps.video import film_ref

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
    from gymnast.apps.report import report_run

    return report_run(ref, runs_dir, html, out, show, as_json)


@app.group(cls=Verbs, short_help="List, show, compare, plot, delete and zip runs.")
def runs() -> None:
    """What has been trained. REF is @last, @best, @best:ENV, an id or its beginning, or a path."""


@runs.command("list", short_help="All runs, newest first.")
@common
def runs_list(runs_dir: Path, as_json: bool) -> Any:
    """All runs, newest first."""
    from gymnast.apps.show_runs import list_all_runs

    return list_all_runs(runs_dir, as_json)


@runs.command("show", short_help="All about one run.")
@click.argument("ref", default="@last")
@common
def runs_show(ref: str, runs_dir: Path, as_json: bool) -> Any:
    """All about one run: state, scores, checkpoints, last row of metrics."""
    from gymnast.apps.show_runs import show_run

    return show_run(ref, runs_dir, as_json)


group = click.option(
    "--group",
    type=click.Choice(["seed", "none"]),
    default="seed",
    show_default=True,
    help="seed: runs that differ in nothing else count as one.",
)


@runs.command("compare", short_help="Why is one better than another.")
@click.argument("refs", nargs=-1, required=True)
@group
@common
def runs_compare(refs: tuple[str, ...], group: str, runs_dir: Path, as_json: bool) -> Any:
    """Runs, or groups of seeds, side by side: scores, curves, and what differs in settings, versions, alerts, history.

    Runs joined by commas are one side; with several runs on both sides differences come with intervals.

    \b
    gymnast runs compare w8v2v wp8k3
    gymnast runs compare w8v2v,wp8k3,xq4zt c7d2m,c9f4k
    gymnast runs compare @all:CartPole-v1 --json
    """
    from gymnast.apps.compare_runs import compare_runs

    return compare_runs(refs, runs_dir, group, as_json)


@runs.command("plot", short_help="Curves of one or several runs.")
@click.argument("refs", nargs=-1, required=True)
@click.option("--metric", "metrics", multiple=True, help="Or the end of its name; repeatable.  [default: the return]")
@click.option(
    "--x",
    type=click.Choice(["steps", "vec_steps", "updates", "seconds"]),
    default="steps",
    show_default=True,
    help="What runs to the right.",
)
@group
@click.option("--out", type=click.Path(dir_okay=False, path_type=Path), help="A picture: FILE.png, .svg or .pdf.")
@click.option("--text", is_flag=True, help="The chart in text as well.")
@common
def runs_plot(refs: tuple[str, ...], runs_dir: Path, as_json: bool, **options: Any) -> Any:
    """Learning curves in the terminal, or as a picture. Several seeds become a mean with its 95 % interval.

    \b
    gymnast runs plot @last
    gymnast runs plot @all:CartPole-v1 --metric ep_rew_mean --x seconds
    gymnast runs plot w8v2v,wp8k3 c7d2m,c9f4k --metric entropy --metric approx_kl --out curves.png
    """
    from gymnast.apps.plot_runs import plot_runs

    return plot_runs(refs, runs_dir, as_json=as_json, **options)


@runs.command("delete", short_help="Remove runs.")
@click.argument("refs", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@common
def runs_delete(refs: tuple[str, ...], yes: bool, runs_dir: Path, as_json: bool) -> Any:
    """Remove runs with all their files."""
    from gymnast.run import delete_run, resolve

    found = {run.id: run for run in (resolve(ref, runs_dir) for ref in refs)}
    try:
        agreed = yes or click.confirm(f"Delete {', '.join(found)}?", err=True)
    except click.Abort:  # nobody is there to answer
        agreed = False
        click.echo(err=True)
    if not agreed:
        raise UserError("nothing was deleted. Say --yes to delete without being asked.")
    for run in found.values():
        delete_run(run)
        if not as_json:
            click.echo(f"deleted {run.id}")
    return {"deleted": list(found)}


@runs.command("zip", short_help="One file with everything of a run.")
@click.argument("ref", default="@last")
@click.option("--out", type=click.Path(path_type=Path), default=Path(), help="File or folder; default: here.")
@common
def runs_zip(ref: str, out: Path, runs_dir: Path, as_json: bool) -> Any:
    """Put a run's folder into one zip file."""
    from gymnast.run import resolve, zip_run

    path = zip_run(resolve(ref, runs_dir), out)
    if not as_json:
        click.echo(f"wrote {path}")
    return {"zip": str(path)}


@app.group(cls=Verbs, short_help="List, show, check and audit environments.")
def envs() -> None:
    """Environments: those with presets, and any other that Gymnasium knows."""


@envs.command("list", short_help="Envs with presets.")
@click.option("--all", "everything", is_flag=True, help="Also every other id registered with Gymnasium.")
@common
def envs_list(everything: bool, runs_dir: Path, as_json: bool) -> Any:
    """Envs with presets, their variants and what it takes to solve them."""
    from gymnast.apps.show_envs import list_envs

    return list_envs(everything, as_json)


@envs.command("show", short_help="Facts about one env.")
@click.argument("env")
@common
def envs_show(env: str, runs_dir: Path, as_json: bool) -> Any:
    """What an env is: actions, observations, rewards, when it is solved, what others reached."""
    from gymnast.apps.show_envs import show_env

    return show_env(env, as_json)


@envs.command("check", short_help="Step an env through its engine.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option("--steps", type=click.IntRange(min=1), default=1000, show_default=True, help="Vector steps.")
@common
def envs_check(target: str, overrides: tuple[str, ...], steps: int, runs_dir: Path, as_json: bool) -> Any:
    """Build ENV as training would, step it with random actions and report what it gives and how fast."""
    from gymnast.apps.check_env import check_env

    return check_env(target, overrides, steps, as_json)


@envs.command("audit", short_help="What there is to learn from in an env.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option("--steps", type=click.IntRange(min=1), default=1000, show_default=True, help="Vector steps.")
@click.option("--seed", type=click.IntRange(min=0), help="Of envs and actions; default: train.seed.")
@click.option("--picture", type=click.Path(dir_okay=False, path_type=Path), help="A PNG file for the histograms.")
@common
def envs_audit(
    target: str,
    overrides: tuple[str, ...],
    steps: int,
    seed: int | None,
    picture: Path | None,
    runs_dir: Path,
    as_json: bool,
) -> Any:
    """Build ENV as training would, step it with random actions and report rewards, episodes, whether its parallel
    copies differ at all, how alike their transitions are, and whether a seed repeats them.

    \b
    gymnast envs audit FrozenLake-v1
    gymnast envs audit LunarLander-v3 --steps 5000 --picture rewards.png
    gymnast envs audit MountainCar-v0:ppo --seed 3 --json
    """
    from gymnast.apps.audit_env import audit_env

    return audit_env(target, overrides, steps, seed, picture, as_json)


@app.group(cls=Verbs, short_help="Show, check, format and explain configs.")
def config() -> None:
    """Configs: presets, your own YAML files, and what they resolve to."""


@config.command("show", short_help="The whole config, resolved.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@common
def config_show(target: str, overrides: tuple[str, ...], runs_dir: Path, as_json: bool) -> Any:
    """The whole config that `train` would use, as YAML."""
    from gymnast.apps.show_config import show_config

    return show_config(target, overrides, as_json)


@config.command("check", short_help="Every mistake in a file.")
@click.argument("path", type=click.Path(path_type=Path))
@common
def config_check(path: Path, runs_dir: Path, as_json: bool) -> Any:
    """Check every variant of a YAML file; all problems at once, each with its key, value and fix."""
    from gymnast.config import check_file

    if problems := check_file(path):
        raise UserError("\n".join(problems))
    if not as_json:
        click.echo(f"{path}: no problems")
    return {"file": str(path), "problems": []}


@config.command("fmt", short_help="Put a file's keys in order.")
@click.argument("paths", nargs=-1, required=True, type=click.Path(path_type=Path))
@common
def config_fmt(paths: tuple[Path, ...], runs_dir: Path, as_json: bool) -> Any:
    """Put the keys of YAML files in their order; comments stay."""
    from gymnast.config import format_file

    changed = [str(path) for path in paths if format_file(path)]
    for path in paths if not as_json else ():
        click.echo(f"{path}: {'formatted' if str(path) in changed else 'in order already'}")
    return {"formatted": changed}


@config.command("explain", short_help="Where each value came from.")
@click.argument("target", metavar="ENV[:VARIANT]")
@click.argument("key", required=False)
@sets
@common
def config_explain(target: str, key: str | None, overrides: tuple[str, ...], runs_dir: Path, as_json: bool) -> Any:
    """Where each value came from and what it means; with KEY, that key or section alone.

    \b
    gymnast config explain CartPole-v1 algo
    gymnast config explain LunarLander-v3:zoo algo.gamma --set algo.gamma=0.99
    """
    from gymnast.apps.show_config import explain_config

    return explain_config(target, key, overrides, as_json)


@app.command(short_help="How fast training is here, and why.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option("--seconds", type=click.FloatRange(min=0.01), default=2.0, show_default=True, help="Of each window.")
@click.option("--windows", type=click.IntRange(min=1), default=3, show_default=True, help="The best of them counts.")
@click.option("--against", metavar="NAMES", help="Measured beside it: sb3,cleanrl,sample-factory.")
@click.option("--python", "pythons", multiple=True, metavar="NAME=PATH", help="The interpreter a rival runs in.")
@click.option("--startup", is_flag=True, help="Instead: from Enter to the end of a run of 5,120 steps.")
@click.option("--solve", is_flag=True, help="Instead: training time until it is solved.")
@click.option("--seeds", type=click.IntRange(min=1), default=5, show_default=True, help="Runs of --solve.")
@click.option("--no-advice", is_flag=True, help="Do not look for the change that helps most.")
@common
def bench(
    target: str, overrides: tuple[str, ...], no_advice: bool, runs_dir: Path, as_json: bool, **options: Any
) -> Any:
    """Measure training on this machine: env, collect, update and the whole, where the time goes, how near that is to
    what the machine could do, and the one change that helps most.

    \b
    gymnast bench CartPole-v1
    gymnast bench LunarLander-v3:zoo --against sb3
    gymnast bench CartPole-v1:zoo --against sb3,cleanrl --python cleanrl=.venv-cleanrl/bin/python
    gymnast bench CartPole-v1:zoo --against sb3 --startup
    gymnast bench CartPole-v1 --against sb3 --solve --seeds 5
    """
    from gymnast.apps.bench import bench

    return bench(target, overrides, advice=not no_advice, as_json=as_json, **options)


@app.command(short_help="Find what trains fastest here.")
@click.argument("target", metavar="ENV[:VARIANT]")
@sets
@click.option("--seconds", type=click.FloatRange(min=0.1), default=45.0, show_default=True, help="To spend in all.")
@click.option("--write", type=click.Path(dir_okay=False, path_type=Path), help="A YAML file for the choice.")
@common
def tune(
    target: str, overrides: tuple[str, ...], seconds: float, write: Path | None, runs_dir: Path, as_json: bool
) -> Any:
    """Measure engines, numbers of envs and threads on this machine and choose the fastest.

    The result is kept for `env.engine: auto`, and for configs that say `env.n_envs: auto`.

    \b
    gymnast tune CartPole-v1
    gymnast tune LunarLander-v3 --write mine.yaml && gymnast train mine.yaml
    """
    from gymnast.apps.tune import tune

    return tune(target, overrides, seconds=seconds, write=write, as_json=as_json)


@app.command(short_help="Presets over seeds: tables, curves, statistics.")
@click.argument("targets", metavar="[ENV[:VARIANT]]...", nargs=-1)
@click.option(
    "--plan", type=click.Path(dir_okay=False, path_type=Path), help="Rows from a YAML file; ENVs choose some."
)
@click.option("--seeds", metavar="N|A-B", help="How many seeds, or which: 5, 1-10, 1,4-6.  [default: 5]")
@click.option("--steps", type=click.IntRange(min=1), help="Env steps of a run; else the preset's.")
@click.option("--bar", type=float, help="Mean score to reach; else what counts as solved.")
@click.option("--within", type=click.FloatRange(min=0, min_open=True), help="Seconds of training to reach it in.")
@click.option("--against", metavar="NAMES", help="Other libraries to train with the same settings, e.g. sb3.")
@click.option("--python", "pythons", multiple=True, metavar="NAME=PATH", help="The interpreter a rival runs in.")
@click.option("--equal-steps", is_flag=True, help="Train for all steps, solved or not, and compare the curves.")
@click.option("--set", "set", multiple=True, metavar="KEY=VALUE", help="Change any setting. Repeatable.")
@click.option("--jobs", type=click.IntRange(min=1), default=2, show_default=True, help="Runs at a time, a thread each.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default="benchmarks",
    show_default=True,
    help="Folder for results.json, RESULTS.md and pictures.",
)
@click.option("--redo", is_flag=True, help="Forget the runs of these rows first. Leave it out to go on after a stop.")
@click.option("--report", is_flag=True, help="Run nothing: make RESULTS.md from what is there.")
@quiet
@common
def benchmark(targets: tuple[str, ...], runs_dir: Path, **options: Any) -> Any:
    """Train presets over several seeds and say with statistics how well, how soon and how fast they solve.

    Every run is kept as it ends: after Ctrl-C, a crash or a power cut the same command does what is left. RESULTS.md is
    made from all that is in the folder, with the command that makes each row.

    \b
    gymnast benchmark CartPole-v1 --seeds 5
    gymnast benchmark LunarLander-v3 --bar 250 --within 120
    gymnast benchmark CartPole-v1:zoo Acrobot-v1:zoo --equal-steps --against sb3 --seeds 1-10
    gymnast benchmark --plan benchmarks/plan.yaml
    gymnast benchmark --plan benchmarks/plan.yaml Taxi-v4:ppo --seeds 1-2
    gymnast benchmark --report
    """
    from gymnast.apps.benchmark import benchmark

    return benchmark(targets, **options)


@app.command(short_help="What is installed and what is missing.")
@common
def doctor(runs_dir: Path, as_json: bool) -> Any:
    """What is installed, what is missing, and the one command that adds it."""
    from gymnast.apps.doctor import examine

    return examine(runs_dir, as_json)


def usage_line(error: click.ClickException) -> str:
    """What is wrong with the command line, and where to look; nothing for a bare group, which is asked for help."""
    message = error.format_message()
    if "\n" in message:
        return ""
    context = error.ctx if isinstance(error, click.UsageError) else None
    advice = f" See `{context.command_path} --help`." if context is not None and "--help" not in message else ""
    return f"{message}{advice}"


def main() -> NoReturn:
    """Runs the command; a user's mistake is told in a line and ends with 2, an env's failure with 1."""
    code, failure = 0, ""
    try:
        app.main(prog_name="gymnast", standalone_mode=False)
    except click.ClickException as error:
        code, failure = error.exit_code, usage_line(error)
        if failure:
            click.echo(f"gymnast: {failure}", err=True)
        else:
            error.show()
    except UserError as error:
        click.echo("\n".join(f"gymnast: {line}" for line in str(error).splitlines()), err=True)
        code, failure = 2, str(error)
    except EnvFailure as error:
        click.echo(f"gymnast: {error}", err=True)
        code, failure = 1, str(error)
    except Stopped as stopped:
        click.echo(f"gymnast: {stopped}", err=True)
        code, failure = 130, str(stopped)
    except (KeyboardInterrupt, click.Abort):
        click.echo("gymnast: stopped at once; what was saved last is whole (`gymnast runs list`).", err=True)
        code, failure = 130, "interrupted"
    if code and "--json" in sys.argv:
        click.echo(json.dumps({"error": failure}))
    sys.stdout.flush()
    sys.exit(code)


def entry() -> NoReturn:
    """The command as installed. All is written and closed by now; taking torch apart would cost half a second."""
    try:
        main()
    except SystemExit as end:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(end.code if isinstance(end.code, int) else 1)

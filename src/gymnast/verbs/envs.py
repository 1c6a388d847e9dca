"""`gymnast envs list|show`: what there is to train on. Gymnasium is imported only for what no preset tells."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.text import Text

from gymnast import config as configs
from gymnast.config import EnvConfig
from gymnast.config.facts import Optimum
from gymnast.config.files import is_preset, read_preset
from gymnast.config.layers import split_target
from gymnast.config.load import find
from gymnast.core.errors import UserError
from gymnast.envs.shaping.components import find_shaper
from gymnast.terminal.format import Cell, Column, facts_grid, heading, number, output, span, table
from gymnast.verbs.extras import EXTRAS

LIST = (
    Column("env", style="bold"),
    Column("variants", drop=1),
    Column("solved at", right=True),
    Column("optimum", right=True, drop=2),
    Column("description", style="dim", wraps=40, drop=3),
)


def list_envs(everything: bool, as_json: bool = False) -> dict[str, Any]:
    """`gymnast envs list`."""
    envs = [_preset(preset) for preset in configs.list_presets()]
    others = _other_ids([env["id"] for env in envs]) if everything else None
    if not as_json:
        console = output()
        _print_presets(console, envs)
        if others is not None:
            _print_others(console, others)
        else:
            console.print("\nany other id registered with Gymnasium works too: `gymnast envs list --all`", style="dim")
    return {"envs": envs} if others is None else {"envs": envs, "others": others}


def _preset(preset: configs.Preset) -> dict[str, Any]:
    facts = configs.load_facts(preset.id)
    assert facts is not None
    return {
        "id": preset.id,
        "variants": preset.variants,
        "family": facts.family,
        "description": facts.description,
        "threshold": facts.solved.threshold if facts.solved else None,
        "optimum": facts.optimum,
        "extra": facts.extra,
        "installed": facts.extra is None or EXTRAS[facts.extra].installed,
    }


def _print_presets(console: Console, envs: Sequence[dict[str, Any]]) -> None:
    rows: list[list[Cell]] = []
    for family in dict.fromkeys(env["family"] for env in envs):
        rows += [[""] * len(LIST)] if rows else []
        rows.append([heading(family), *[""] * (len(LIST) - 1)])
        for env in envs:
            if env["family"] == family:
                rows.append(_list_row(env))
    console.print(table(console, LIST, rows))
    for extra in dict.fromkeys(env["extra"] for env in envs if not env["installed"]):
        console.print(
            f"\n! needs a package that is not installed: {EXTRAS[extra].command}", style="yellow", markup=False
        )


def _list_row(env: dict[str, Any]) -> list[Cell]:
    name = Text(env["id"]) if env["installed"] else Text(f"{env['id']} !", style="yellow")
    threshold = "" if env["threshold"] is None else f"{env['threshold']:g}"
    optimum = "" if env["optimum"] is None else f"{env['optimum']:g}"
    return [name, ", ".join(env["variants"]), threshold, optimum, env["description"]]


def _other_ids(known: Sequence[str]) -> list[str]:
    from gymnast.envs.suites import list_env_ids

    return [name for name in list_env_ids() if name not in known]


def _print_others(console: Console, names: Sequence[str]) -> None:
    console.print()
    console.print(heading("registered with Gymnasium, without a preset"))
    for name in names:
        console.print(Text(name))


def show_env(target: str, as_json: bool = False) -> dict[str, Any]:
    """`gymnast envs show`."""
    env_id = split_target(target)[0]
    if is_preset(env_id) and not env_id.startswith("defaults/"):
        facts = configs.load_facts(env_id)
        assert facts is not None
        extra = EXTRAS[facts.extra] if facts.extra else None
        variants = [_variant(env_id, name) for name in _variant_names(env_id)]
        data = {"id": env_id, **facts.model_dump(mode="json"), "installed": extra is None or extra.installed}
        data |= {"shaping": _shaping(env_id), "variants": variants}
        best = facts.best_return(facts.described(env_id))
        data |= {"optimum": best.value, "optimum_source": best.source} if best else {}
        if not as_json:
            _print_facts(output(), env_id, facts, best, variants, data["shaping"])
        return data
    from gymnast.envs.suites import list_env_ids

    find(target, list_env_ids)  # a typo ends here, with the nearest names
    data = _registered(env_id)
    if not as_json:
        _print_registered(output(), data)
    return data


def _variant_names(env_id: str) -> list[str]:
    return [str(name) for name in read_preset(env_id).data["variants"]]


def _variant(env_id: str, name: str) -> dict[str, Any]:
    config = configs.load(f"{env_id}:{name}").config
    return {
        "name": name,
        "about": read_preset(env_id).data["variants"][name].get("about"),
        "algo": config.algo.name,
        "total_timesteps": config.train.total_timesteps,
        "n_envs": config.env.n_envs,
    }


def _shaping(env_id: str) -> list[dict[str, str]]:
    """The extra rewards an env offers to env.shaping."""
    shaper = find_shaper(env_id)
    parts = shaper.components.items() if shaper else ()
    return [{"name": name, "kind": type(part).__name__.lower(), "meaning": part.meaning} for name, part in parts]


def _print_facts(
    console: Console,
    env_id: str,
    facts: configs.EnvFacts,
    best: Optimum | None,
    variants: Sequence[dict[str, Any]],
    shaping: Sequence[dict[str, str]],
) -> None:
    console.print(Text().append(env_id, style="bold").append(f"  {facts.family}", style="dim"))
    console.print(Text(facts.description))
    if facts.extra and not EXTRAS[facts.extra].installed:
        command = EXTRAS[facts.extra].command
        console.print(f"! needs a package that is not installed: {command}", style="yellow", markup=False)
    console.print()
    limit = f"{facts.max_episode_steps:,} steps" if facts.max_episode_steps else "none"
    kwargs = ", ".join(f"{key}={value}" for key, value in facts.kwargs.items())
    solved, rewarded = facts.solved, facts.reward
    unbounded = rewarded.low is None and rewarded.high is None
    limits = "" if unbounded else f"{span(rewarded.low, rewarded.high)} a step: "
    console.print(
        facts_grid(
            [
                ("made with", kwargs),
                ("time limit", limit),
                ("reward", f"{limits}{rewarded.meaning}"),
                (
                    "solved",
                    f"mean of {solved.threshold:g} over {solved.episodes} episodes ({solved.source})" if solved else "",
                ),
                ("", (solved.note or "") if solved else ""),
                ("optimum", "" if best is None else f"{best.value:g} ({best.source})"),
            ]
        )
    )
    _section(
        console,
        "actions",
        [Column("", right=True), Column("")],
        [[str(i), name] for i, name in enumerate(facts.actions)],
    )
    parts: list[list[Cell]] = [
        [str(index), part.name, span(part.low, part.high), part.unit or "", part.meaning or ""]
        for index, part in enumerate(facts.observations)
    ]
    names = [Column("", right=True), Column(""), Column("range"), Column("unit"), Column("meaning", wraps=24)]
    _section(console, "observation", names, parts)
    if shaping:
        columns = [Column("", style="bold"), Column(""), Column("", style="dim", wraps=24)]
        _section(console, "shaping", columns, [[part["name"], part["kind"], part["meaning"]] for part in shaping])
    if facts.references:
        scores: list[list[Cell]] = [
            [item.algo, f"{item.score:g}", number(item.steps), item.source] for item in facts.references
        ]
        columns = [
            Column("algo"),
            Column("score", right=True),
            Column("steps", right=True),
            Column("source", wraps=24),
        ]
        _section(console, "published scores", columns, scores)
    rows: list[list[Cell]] = [
        [
            item["name"],
            item["algo"],
            number(item["total_timesteps"]),
            str(item["n_envs"]),
            item["about"] or f"gymnast train {env_id}:{item['name']}",
        ]
        for item in variants
    ]
    columns = [
        Column("", style="bold"),
        Column("algo"),
        Column("steps", right=True),
        Column("envs", right=True),
        Column("", style="dim", wraps=24),
    ]
    _section(console, "variants", columns, rows)


def _section(console: Console, title: str, columns: Sequence[Column], rows: Sequence[Sequence[Cell]]) -> None:
    console.print()
    console.print(heading(title))
    shown = table(console, columns, rows)
    shown.show_header = any(column.title for column in columns)
    console.print(shown)


def _registered(env_id: str) -> dict[str, Any]:
    """What Gymnasium knows of an env that has no preset; its spaces only if it can be made here."""
    from gymnast.envs.suites import find_spec, make
    from gymnast.envs.tabular.oracle import find_table

    spec = find_spec(env_id)
    data: dict[str, Any] = {
        "id": env_id,
        "entry_point": spec.entry_point if isinstance(spec.entry_point, str) else repr(spec.entry_point),
        "kwargs": {key: str(value) for key, value in spec.kwargs.items()},
        "max_episode_steps": spec.max_episode_steps,
        "threshold": spec.reward_threshold,
        "observation_space": None,
        "action_space": None,
        "optimum": None,
        "optimum_source": None,
        "problem": None,
        "variants": _any_variants(),
    }
    try:
        env = make(env_id)
    except UserError as error:
        return data | {"problem": str(error)}
    data |= {"observation_space": str(env.observation_space), "action_space": str(env.action_space)}
    env.close()
    if table := find_table(EnvConfig(id=env_id)):
        data |= {"optimum": table.optimum.value, "optimum_source": table.optimum.source}
    return data


def _any_variants() -> list[str]:
    return [str(name) for name in read_preset("defaults/any").data["variants"]]


def _print_registered(console: Console, data: dict[str, Any]) -> None:
    limit, threshold = data["max_episode_steps"], data["threshold"]
    console.print(Text().append(data["id"], style="bold").append("  registered with Gymnasium, no preset", style="dim"))
    console.print()
    console.print(
        facts_grid(
            [
                ("observations", data["observation_space"] or ""),
                ("actions", data["action_space"] or ""),
                ("time limit", f"{limit:,} steps" if limit else "none"),
                (
                    "solved",
                    f"mean of {threshold:g} (registered)"
                    if threshold is not None
                    else "no threshold registered: set stop.threshold",
                ),
                (
                    "optimum",
                    f"{data['optimum']:g} ({data['optimum_source']})" if data["optimum"] is not None else "",
                ),
                ("made with", ", ".join(f"{key}={value}" for key, value in data["kwargs"].items())),
                ("entry point", data["entry_point"]),
                ("problem", Text(data["problem"], style="yellow") if data["problem"] else ""),
                ("train", f"gymnast train {data['id']}  (variants: {', '.join(data['variants'])})"),
            ]
        )
    )

"""`gymnast envs list|show`: what there is to train on. Gymnasium is imported only for what no preset says."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from gymnast import config as configs
from gymnast.config import EnvConfig
from gymnast.config.files import is_preset, read_preset
from gymnast.config.layers import split_target, variant_names
from gymnast.config.load import find
from gymnast.core.errors import UserError
from gymnast.envs.shaping.components import find_shaper
from gymnast.verbs.extras import EXTRAS


@dataclass(frozen=True)
class EnvBrief:
    id: str
    variants: list[str]
    family: str
    description: str
    threshold: float | None
    optimum: float | None
    extra: str | None
    installed: bool


@dataclass(frozen=True)
class EnvsList:
    envs: list[EnvBrief]
    others: list[str] | None  # registered with Gymnasium, without a preset; None: not asked for

    def to_json(self) -> dict[str, Any]:
        data = asdict(self)
        return data if self.others is not None else {"envs": data["envs"]}


@dataclass(frozen=True)
class VariantBrief:
    name: str
    about: str | None
    algo: str
    total_timesteps: int
    n_envs: int


@dataclass(frozen=True)
class ShapingPart:
    """An extra reward that an env offers to env.shaping."""

    name: str
    kind: str
    meaning: str


@dataclass(frozen=True)
class PresetEnv:
    id: str
    facts: configs.EnvFacts
    installed: bool
    shaping: list[ShapingPart]
    variants: list[VariantBrief]
    optimum: float | None  # the best possible mean return
    optimum_source: str | None

    def to_json(self) -> dict[str, Any]:
        data = {"id": self.id, **self.facts.model_dump(mode="json"), "installed": self.installed}
        data |= {"shaping": [asdict(part) for part in self.shaping]}
        data |= {"variants": [asdict(variant) for variant in self.variants]}
        return data | {"optimum": self.optimum, "optimum_source": self.optimum_source}


@dataclass(frozen=True)
class RegisteredEnv:
    """What Gymnasium knows of an env that has no preset."""

    id: str
    entry_point: str
    kwargs: dict[str, str]
    max_episode_steps: int | None
    threshold: float | None
    variants: list[str]
    observation_space: str | None = None  # None, as the rest: it cannot be made here
    action_space: str | None = None
    optimum: float | None = None
    optimum_source: str | None = None
    problem: str | None = None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def needs(extra: str | None) -> str | None:
    """The command that installs what an env needs; None: it is there."""
    return None if extra is None or EXTRAS[extra].installed else EXTRAS[extra].command


def list_envs(everything: bool) -> EnvsList:
    envs = [_brief(preset) for preset in configs.list_presets()]
    if not everything:
        return EnvsList(envs, None)
    from gymnast.envs.suites import list_env_ids

    known = {env.id for env in envs}
    return EnvsList(envs, [name for name in list_env_ids() if name not in known])


def _brief(preset: configs.Preset) -> EnvBrief:
    facts = configs.load_facts(preset.id)
    assert facts is not None
    return EnvBrief(
        id=preset.id,
        variants=list(preset.variants),
        family=facts.family,
        description=facts.description,
        threshold=facts.solved.threshold if facts.solved else None,
        optimum=facts.optimum,
        extra=facts.extra,
        installed=needs(facts.extra) is None,
    )


def show_env(target: str) -> PresetEnv | RegisteredEnv:
    env_id = split_target(target)[0]
    if is_preset(env_id) and not env_id.startswith("defaults/"):
        return _preset(env_id)
    from gymnast.envs.suites import list_env_ids

    find(target, list_env_ids)  # a typo ends here, with the nearest names
    return _registered(env_id)


def _preset(env_id: str) -> PresetEnv:
    facts = configs.load_facts(env_id)
    assert facts is not None
    shaper = find_shaper(env_id)
    parts = shaper.components.items() if shaper else ()
    best = facts.best_return(facts.described(env_id))
    return PresetEnv(
        id=env_id,
        facts=facts,
        installed=needs(facts.extra) is None,
        shaping=[ShapingPart(name, type(part).__name__.lower(), part.meaning) for name, part in parts],
        variants=[_variant(env_id, name) for name in variant_names(read_preset(env_id))],
        optimum=facts.optimum if best is None else best.value,
        optimum_source=facts.optimum_source if best is None else best.source,
    )


def _variant(env_id: str, name: str) -> VariantBrief:
    config = configs.load(f"{env_id}:{name}").config
    about = read_preset(env_id).data["variants"][name].get("about")
    return VariantBrief(name, about, config.algo.name, config.train.total_timesteps, config.env.n_envs)


def _registered(env_id: str) -> RegisteredEnv:
    from gymnast.envs.suites import find_spec, make
    from gymnast.envs.tabular.oracle import find_table

    spec = find_spec(env_id)
    known: dict[str, Any] = {
        "id": env_id,
        "entry_point": spec.entry_point if isinstance(spec.entry_point, str) else repr(spec.entry_point),
        "kwargs": {key: str(value) for key, value in spec.kwargs.items()},
        "max_episode_steps": spec.max_episode_steps,
        "threshold": spec.reward_threshold,
        "variants": variant_names(read_preset("defaults/any")),
    }
    try:
        env = make(env_id)
    except UserError as error:
        return RegisteredEnv(**known, problem=str(error))
    known |= {"observation_space": str(env.observation_space), "action_space": str(env.action_space)}
    env.close()
    if table := find_table(EnvConfig(id=env_id)):
        known |= {"optimum": table.optimum.value, "optimum_source": table.optimum.source}
    return RegisteredEnv(**known)

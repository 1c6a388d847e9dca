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
    facts: configs.EnvFacts

    def to_json(self) -> dict[str, Any]:
        facts = self.facts
        return {
            "id": self.id,
            "variants": self.variants,
            "family": facts.family,
            "description": facts.description,
            "threshold": facts.solved.threshold if facts.solved else None,
            "optimum": facts.optimum,
            "extra": facts.extra,
            "installed": needs(facts.extra) is None,
        }


@dataclass(frozen=True)
class EnvsList:
    envs: list[EnvBrief]
    others: list[str] | None  # registered with Gymnasium, without a preset; None: not asked for

    def to_json(self) -> dict[str, Any]:
        envs = [env.to_json() for env in self.envs]
        return {"envs": envs} if self.others is None else {"envs": envs, "others": self.others}


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
    shaping: list[ShapingPart]
    variants: list[VariantBrief]
    optimum: float | None  # the best possible mean return
    optimum_source: str | None

    def to_json(self) -> dict[str, Any]:
        parts = ("shaping", "variants", "optimum", "optimum_source")
        facts = {"id": self.id, **self.facts.model_dump(mode="json"), "installed": needs(self.facts.extra) is None}
        return facts | {part: found for part, found in asdict(self).items() if part in parts}


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
    envs = [EnvBrief(preset.id, preset.variants, facts_of(preset.id)) for preset in configs.list_presets()]
    if not everything:
        return EnvsList(envs, None)
    from gymnast.envs.suites import list_env_ids

    known = {env.id for env in envs}
    return EnvsList(envs, [name for name in list_env_ids() if name not in known])


def facts_of(env_id: str) -> configs.EnvFacts:
    facts = configs.load_facts(env_id)
    assert facts is not None, "every preset has facts"
    return facts


def show_env(target: str) -> PresetEnv | RegisteredEnv:
    env_id = split_target(target)[0]
    if is_preset(env_id) and not env_id.startswith("defaults/"):
        return _preset(env_id)
    from gymnast.envs.suites import list_env_ids

    find(target, list_env_ids)  # a typo ends here, with the nearest names
    return _registered(env_id)


def _preset(env_id: str) -> PresetEnv:
    facts = facts_of(env_id)
    shaper = find_shaper(env_id)
    parts = shaper.components.items() if shaper else ()
    best = facts.best_return(facts.described(env_id))
    return PresetEnv(
        id=env_id,
        facts=facts,
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

"""stable-baselines3's policies and policy_kwargs, as settings of the agent."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

from gymnast.core.errors import UserError, did_you_mean

# stable-baselines3's names, and what each says about the agent
POLICIES: dict[str, dict[str, Any]] = {
    "MlpPolicy": {},
    "MultiInputPolicy": {},
    "CnnPolicy": {"agent.encoder": "nature_cnn", "agent.hidden": [], "agent.shared": True},
}
# its classes of the same meaning
POLICY_CLASSES = {
    "ActorCriticPolicy": "MlpPolicy",
    "ActorCriticCnnPolicy": "CnnPolicy",
    "MultiInputActorCriticPolicy": "MultiInputPolicy",
}
PLACES = {
    "ortho_init": "agent.ortho_init",
    "log_std_init": "agent.log_std_init",
    "squash_output": "agent.squash",
    "use_expln": "agent.sde_expln",
    "share_features_extractor": "agent.shared",
}
OWN_ENCODER = "Register your own encoder and name it by encoder=...: CONTRIBUTING.md, under 'Add an encoder'."
# policy_kwargs that can only be what they are: those values, and why
WITHOUT_CHOICE: dict[str, tuple[tuple[Any, ...], str]] = {
    "features_extractor_class": (("FlattenExtractor", "NatureCNN", "CombinedExtractor"), OWN_ENCODER),
    "features_extractor_kwargs": (
        (None,),
        "What an encoder gives to the layers has a fixed size; leave it out.",
    ),
    "normalize_images": ((True,), "Pictures are always scaled to 0..1."),
    "full_std": ((True,), "gSDE has a standard deviation for each feature and action."),
    "optimizer_class": ((), "Use torch.optim's Adam or AdamW, or RMSprop with A2C."),
}
# torch's optimizers, with those of their defaults that differ
OPTIMIZERS: dict[str, dict[str, Any]] = {
    "Adam": {"algo.optimizer": "adam"},
    "AdamW": {"algo.optimizer": "adamw", "algo.weight_decay": 0.01},
    "RMSprop": {"algo.optimizer": "rmsprop"},
}


def policy_and_env(model: str, policy: Any, env: Any) -> tuple[str | None, Any]:
    """stable-baselines3's two first arguments; the env alone will do. Its policy classes stand for their names."""
    if env is None:
        if policy is None or (isinstance(policy, str) and policy.endswith("Policy")) or _is_policy_class(policy):
            raise UserError(f"{model} needs an env: {model}('CartPole-v1') or {model}('MlpPolicy', env).")
        return None, policy
    if _is_policy_class(policy):
        if policy.__name__ not in POLICY_CLASSES:
            raise UserError(
                f"{model}({policy.__name__}, ...): your own policy class is not supported. Networks are settings "
                "(policy_kwargs, encoder). CONTRIBUTING.md shows under 'Add an encoder' how to register your own."
            )
        policy = POLICY_CLASSES[policy.__name__]
    if policy is None or (isinstance(policy, str) and policy in POLICIES):
        return policy, env
    hint = did_you_mean(policy, POLICIES) if isinstance(policy, str) else ""
    raise UserError(f"{model}: unknown policy {policy!r}.{hint} Known: {', '.join(POLICIES)}.")


def _is_policy_class(policy: Any) -> bool:
    return isinstance(policy, type) and any(base.__name__ == "BasePolicy" for base in policy.__mro__)


def of_policy(model: str, policy: Mapping[str, Any]) -> dict[str, Any]:
    """policy_kwargs as keys of the agent section."""
    found: dict[str, Any] = {}
    for name, value in policy.items():
        if name == "net_arch":
            found |= {} if value is None else layer_sizes(model, value)  # None: the default
        elif name == "activation_fn":
            found["agent.activation"] = activation(value)
        elif name == "optimizer_class" and value.__name__ in OPTIMIZERS:
            found = OPTIMIZERS[value.__name__] | found
        elif name == "optimizer_kwargs":
            names = {"eps": "optimizer_eps"}
            found |= {f"algo.{names.get(key, key)}": number for key, number in (value or {}).items()}
        elif name in PLACES:
            found[PLACES[name]] = value
        elif name in WITHOUT_CHOICE:
            usual, reason = WITHOUT_CHOICE[name]
            if getattr(value, "__name__", value) not in usual:
                raise UserError(f"{model}(policy_kwargs={{{name!r}: ...}}): not supported. {reason}")
        else:
            known = ["net_arch", "activation_fn", *PLACES, *WITHOUT_CHOICE]
            raise UserError(
                f"{model}(policy_kwargs={{{name!r}: ...}}): not supported.{did_you_mean(name, known)} "
                f"Known: {', '.join(known)}."
            )
    return found


def layer_sizes(model: str, arch: Any) -> dict[str, Any]:
    """net_arch as keys of the agent section."""
    if isinstance(arch, list | tuple) and len(arch) == 1 and isinstance(arch[0], Mapping):
        warnings.warn("net_arch=[dict(...)]: the list around the dict is of old; leave it out.", stacklevel=2)
        arch = arch[0]
    if isinstance(arch, int):
        raise UserError(f"{model}(policy_kwargs={{'net_arch': {arch}}}): must be a list, one number a layer: [{arch}].")
    if not isinstance(arch, Mapping):
        return {"agent.hidden": list(arch)}
    if not set(arch) <= {"pi", "vf"}:
        raise UserError(
            f"{model}(policy_kwargs={{'net_arch': {dict(arch)}}}): has layers for pi and vf, and no others."
        )
    actor, critic = list(arch.get("pi", [])), list(arch.get("vf", []))
    return {"agent.hidden": actor} if actor == critic else {"agent.hidden": actor, "agent.critic_hidden": critic}


def activation(value: Any) -> Any:
    """ "leaky_relu" of nn.LeakyReLU; a name stays as it is, and the config says which it knows."""
    if not isinstance(value, type):
        return value
    by_class = {"LeakyReLU": "leaky_relu"}
    return by_class.get(value.__name__, value.__name__.lower())

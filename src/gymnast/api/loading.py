"""Models from files and from runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gymnast import config as configs
from gymnast.api.model import PREDICT_RNG, Model, model_class, with_suffix
from gymnast.api.settings import dotted, leave_judgement_to_the_user, moved_to
from gymnast.api.sources import EnvSource, Spaces, source_of
from gymnast.core.errors import UserError
from gymnast.runs import checkpoint
from gymnast.runs.references import default_runs_dir, resolve_checkpoint


def load(
    ref: str | Path, env: Any = None, *, verbose: int = 0, runs_dir: str | Path | None = None, **keywords: Any
) -> Model:
    """A saved model of any algorithm: a file, or a run by its reference (@best, @last, an id, a folder).

    A model of an env object predicts without one and needs `env` to train on.
    """
    saved = checkpoint.load(find_checkpoint(ref, runs_dir))
    state = saved.state
    data = state["config"]
    kind = model_class(data["algo"]["name"])
    about = state.get("about") or {}
    given = dotted(kind.__name__, kind.algo, keywords)
    if not about:  # a run of `gymnast train`: learn() trains on for the steps it is told, like any other model's
        leave_judgement_to_the_user(data, given)
    before = configs.validate(data)
    was_object = about.get("env") == "object"
    source = source_of(env) if env is not None else EnvSource(before.env.id)
    config = moved_to(kind.__name__, before, source, given)
    spaces = Spaces.from_json(about) if about else Spaces.of(config.env, source)
    if env is not None and about and not Spaces.of(config.env, source).fit(spaces):
        raise UserError(f"env: {source.name} has other spaces than the {before.env.id} that {ref} was trained on.")
    known = None if env is None and was_object else source
    model = kind.__new__(kind)  # not __init__: there is nothing to choose, and no env to make before one is needed
    model._begin(config, known, spaces, verbose, runs_dir, saved=saved)
    model.metrics = dict(saved.metrics)
    if PREDICT_RNG in saved.tensors:
        model._generator.set_state(saved.tensors[PREDICT_RNG])
    return model


def find_checkpoint(ref: str | Path, runs_dir: str | Path | None) -> Path:
    for path in (Path(ref), with_suffix(ref)):
        if path.is_file():
            return path
    try:
        return resolve_checkpoint(str(ref), runs_dir or default_runs_dir())[1]
    except UserError as error:
        raise UserError(f"there is no file {with_suffix(ref)}, and as a run's name: {error}") from None

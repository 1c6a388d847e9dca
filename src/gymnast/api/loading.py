"""Models from files and from runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gymnast import config as configs
from gymnast.api.arguments import WrongArgument, argument_errors
from gymnast.api.files import File, read
from gymnast.api.model import PREDICT_RNG, Model, model_class
from gymnast.api.settings import device_here, dotted, keyword_places, leave_judgement_to_the_user, moved_to
from gymnast.api.sources import EnvSource, Spaces, source_of
from gymnast.api.tasks import checked_task, of_task
from gymnast.core.errors import UserError, reason_of
from gymnast.core.trust import allow
from gymnast.runs.checkpoint import Checkpoint
from gymnast.training.record import versions


@argument_errors
def load(
    ref: File,
    env: Any = None,
    *,
    verbose: int | None = None,
    runs_dir: str | Path | None = None,
    tensorboard_log: str | Path | None = None,
    custom_objects: dict[str, Any] | None = None,
    print_system_info: bool = False,
    force_reset: bool = True,
    trust: bool = False,
    task: str | None = None,
    **keywords: Any,
) -> Model:
    """A saved model of any algorithm: a file, by name or open, or a run by its reference (@best, @last, an id, ...).

    A model of an env object predicts without one and needs `env` to train on. Keywords change settings; so do those of
    `custom_objects` that are settings. `task`: the name of one, of a run with several. `verbose`: None is what the
    saved model had. `force_reset` changes nothing: episodes go on where the file can continue them. `trust`: modules
    of envs and wrappers that the file names are imported, although it was made on another machine.
    """
    if print_system_info:
        print(", ".join(f"{name} {version}" for name, version in versions().items()))
    file = read(ref, runs_dir)
    if trust:
        allow(file.path)
    _ = file.settings  # refused here, before anything in it is used
    saved = file.alone()
    state = saved.state
    data = state["config"]
    kind = model_class(saved.config.algo.name)
    about = saved.about
    places = keyword_places(kind.algo)
    keywords = {key: value for key, value in (custom_objects or {}).items() if key in places} | keywords
    given = dotted(kind.__name__, kind.algo, keywords)
    if "train.device" not in given:
        given["train.device"] = device_here(data["train"]["device"])
    if not about:  # a run of `gymnast train`: learn() trains on for the given steps, like any other model's
        leave_judgement_to_the_user(data, given)
    before = configs.validate(data)
    if before.tasks or task is not None:
        known_task = checked_task(ref, before, task)
        if env is not None or given.keys() - {"train.device"}:
            raise WrongArgument(f"load(task={task!r}): such a model is not trained on; leave env and settings out.")
        on_device = configs.override(before, [f"train.device={given['train.device']}"])
        return of_task(kind.algo).of(saved, on_device, known_task, verbose or 0, runs_dir)
    was_object = about.get("env") == "object"
    source = source_of(env) if env is not None else EnvSource(before.env.id)
    config = moved_to(kind.__name__, before, source, given)
    spaces = saved_spaces(saved) if about else Spaces.of(config.env, source)
    if env is not None and about and not Spaces.of(config.env, source).fit(spaces):
        raise UserError(f"env: {source.name} has other spaces than the {before.env.id} that {ref} was trained on.")
    known = None if env is None and was_object else source
    model = kind.__new__(kind)  # not __init__: there is nothing to choose, and no env to make before one is needed
    model._begin(config, known, spaces, about.get("verbose", 0) if verbose is None else verbose, runs_dir, saved=saved)
    model.metrics, model.tensorboard_log = dict(saved.metrics), tensorboard_log
    model.continues = env is None or not force_reset
    if PREDICT_RNG in saved.tensors:
        model.generator.set_state(saved.tensors[PREDICT_RNG])
    return model


def saved_spaces(saved: Checkpoint) -> Spaces:
    try:
        return Spaces.from_json(saved.about)
    except (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise saved.unusable(f"about: {reason_of(error)}") from error

"""Models in files: by every name, in open files, for commands; weights in and out."""

from __future__ import annotations

import io
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
import stable_baselines3 as sb3
import torch

import gymnast
from gymnast import PPO
from gymnast.core.errors import UserError
from gymnast.core.trust import Untrusted
from gymnast.verbs.eval import evaluate_ref
from gymnast.verbs.train import resume, start
from gymnast.verbs.video import record_video
from tests.envs_for_tests import Counting
from tests.runs.test_api import same, small_ppo


@pytest.mark.parametrize(
    ("saved", "file", "loaded"),
    [
        ("m", "m.zip", ("m", "m.safetensors", "m.zip")),
        ("m.zip", "m.zip", ("m", "m.zip")),
        ("m.safetensors", "m.safetensors", ("m", "m.zip")),
    ],
)
def test_a_model_is_found_under_the_names_that_scripts_use(
    tmp_path: Path, saved: str, file: str, loaded: tuple[str, ...]
) -> None:
    model = small_ppo()
    model.save(str(tmp_path / saved))
    assert [path.name for path in tmp_path.iterdir()] == [file]
    for name in loaded:
        assert same(PPO.load(tmp_path / name), model)


def test_a_zip_file_is_one_and_damage_to_it_is_noticed(tmp_path: Path) -> None:
    small_ppo().save(tmp_path / "m.zip")
    with zipfile.ZipFile(tmp_path / "m.zip") as archive:
        assert archive.namelist() == ["model.safetensors"]
        archive.extractall(tmp_path)
    assert same(PPO.load(tmp_path / "model.safetensors"), PPO.load(tmp_path / "m.zip"))
    data = bytearray((tmp_path / "m.zip").read_bytes())
    data[len(data) // 2] ^= 1
    (tmp_path / "m.zip").write_bytes(data)
    with pytest.raises(UserError, match=r"cannot use checkpoint .*m.zip: Bad CRC-32") as caught:
        PPO.load(tmp_path / "m.zip")
    assert len(str(caught.value).splitlines()) == 1


def test_what_may_be_left_out_of_a_file(tmp_path: Path) -> None:
    model = small_ppo(verbose=2)
    model.save(tmp_path / "without", exclude=["verbose", "logger"])
    model.save(tmp_path / "with", exclude=["verbose"], include=["verbose"])
    assert [PPO.load(tmp_path / name).verbose for name in ("without", "with")] == [0, 2]
    assert PPO.load(tmp_path / "with", verbose=1).verbose == 1
    with pytest.raises(ValueError, match=r"exclude=\['policy'\]\): belongs to a model"):
        model.save(tmp_path / "m", exclude=["policy"])


def test_open_files(tmp_path: Path) -> None:
    model = small_ppo()
    with tempfile.TemporaryFile() as file:
        model.save(file)
        assert same(PPO.load(file), model)
        assert not file.closed
    buffer = io.BytesIO()
    model.save(buffer)
    assert same(gymnast.load(buffer), model)
    with pytest.raises(UserError, match="cannot use checkpoint in an open file: it is cut short"):
        PPO.load(io.BytesIO(b"no"))
    with pytest.raises(UserError, match="neither a path nor"):
        PPO.load(3)  # type: ignore[arg-type]


def test_a_file_of_stable_baselines3_is_named_as_such(tmp_path: Path) -> None:
    sb3.PPO("MlpPolicy", "CartPole-v1").save(tmp_path / "theirs")
    with pytest.raises(UserError, match=r"One that stable-baselines3 saved .* train again here") as caught:
        PPO.load(tmp_path / "theirs")
    assert len(str(caught.value).splitlines()) == 1


def test_loading_takes_stable_baselines3s_other_arguments(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small_ppo(stats_window_size=3).save(tmp_path / "m")
    replaced = {"gamma": 0.5, "of_nobody": 1}
    model = PPO.load(tmp_path / "m", custom_objects=replaced, print_system_info=True, force_reset=False)
    assert "torch" in capsys.readouterr().out
    assert model.gamma == 0.5
    assert model.session.meter.window == 3
    model.learn(32)
    assert model.session.meter.window == 3


def test_commands_take_a_file_that_python_saved(tmp_path: Path) -> None:
    model = small_ppo("CartPole-v1", seed=3).learn(64)
    model.save(tmp_path / "mine.zip")
    model.save(tmp_path / "mine.safetensors")
    runs = tmp_path / "runs"
    for name in ("mine.zip", "mine.safetensors"):
        scored = evaluate_ref(str(tmp_path / name), 4, runs, seed=1, stochastic=False)
        assert (scored.run, scored.data["episodes"], scored.next) == (name, 4, [])
    filmed = record_video(str(tmp_path / "mine.zip"), runs, seed=1)
    assert filmed.data["video"] == tmp_path / "mine_seed1.mp4"
    assert filmed.data["video"].is_file()
    small = ["env.n_envs=1", "algo.n_steps=32", "algo.batch_size=32", "agent.hidden=[16]", "eval.every=0"]
    started = start(
        "CartPole-v1", [*small, "stop.on_solved=false"], runs, 0, 32, str(tmp_path / "mine.zip"), quiet=True
    )
    assert gymnast.load(started.run, runs_dir=runs).config.agent.hidden == [16]
    with pytest.raises(UserError, match=r"saved from Python, not a run: gymnast.load"):
        resume(str(tmp_path / "mine.zip"), [], runs)
    small_ppo(lambda: Counting()).save(tmp_path / "object")
    with pytest.raises(UserError, match=r"trained on an object of Python code, Counting.*evaluate_policy"):
        evaluate_ref(str(tmp_path / "object.zip"), 4, runs, seed=1, stochastic=False)


def test_parameters_in_and_out(tmp_path: Path) -> None:
    one, other = small_ppo(seed=1).learn(32), small_ppo(seed=2)
    assert not same(one, other)
    other.set_parameters(one.get_parameters())
    assert same(one, other)
    moments = [each.get_parameters()["policy.optimizer"] for each in (one, other)]
    assert all(torch.equal(moments[0][name], moments[1][name]) for name in moments[0])
    one.save(tmp_path / "one")
    third = small_ppo(seed=3)
    third.set_parameters(tmp_path / "one")
    assert same(one, third)
    with pytest.raises(ValueError, match=r"policy.optimizer does not match"):
        third.set_parameters({"policy": one.policy.state_dict()})
    third.set_parameters({"policy": one.policy.state_dict()}, exact_match=False)


def test_a_seed_may_be_set_later() -> None:
    models = [small_ppo(seed=seed) for seed in (1, 2)]
    for model in models:
        model.set_parameters(models[0].get_parameters())
        model.set_random_seed(7)
    draws = [model.predict(np.zeros((50, 4)))[0].tolist() for model in models]
    assert draws[0] == draws[1]


def test_the_policy_has_the_names_of_stable_baselines3s(tmp_path: Path) -> None:
    model = small_ppo(lambda: Counting())
    policy = model.policy
    assert isinstance(policy, torch.nn.Module)
    assert (policy.device.type, policy.net_arch) == ("cpu", [16])
    observation = np.array([[1.0], [2.0]], np.float32)
    tensor, vectorised = policy.obs_to_tensor(observation)
    assert (tuple(tensor.shape), vectorised) == ((2, 1), True)
    actions, values, logps = policy(tensor, deterministic=True)
    assert np.array_equal(policy.predict(observation, deterministic=True)[0], actions.numpy())
    assert torch.allclose(values, policy.predict_values(tensor))
    assert bool((logps <= 0).all())
    policy.save(tmp_path / "policy")
    assert np.array_equal(
        policy.__class__.load(tmp_path / "policy").predict(observation, deterministic=True)[0], actions
    )
    policy.note = 3
    assert model.policy.note == 3
    with pytest.warns(UserWarning, match="torch.compile is not used"):
        model.policy = torch.compile(policy)
    assert model.learn(32).num_timesteps == 32


def test_a_model_of_another_machine_imports_nothing_unasked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its file names a module of envs, which is code."""
    model = PPO("tests.envs_for_tests:test/Counting-v0", n_envs=2, n_steps=8, batch_size=16)
    model.save(tmp_path / "own")
    assert same(PPO.load(tmp_path / "own"), model)  # made here
    monkeypatch.setattr("gymnast.core.trust.made_on", lambda: "another machine")
    for ref in (tmp_path / "own", io.BytesIO((tmp_path / "own.zip").read_bytes())):
        with pytest.raises(Untrusted, match=r"needs code .* 'tests.envs_for_tests:test/Counting-v0'.*trust=True"):
            gymnast.load(ref)
    with pytest.raises(Untrusted, match="it was made on"):
        evaluate_ref(str(tmp_path / "own.zip"), 1, tmp_path, None, False)
    assert same(gymnast.load(tmp_path / "own", trust=True), model)

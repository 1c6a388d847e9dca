"""The engines that run any env, held to the contract with envs whose every number is known."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import gymnasium as gym
import numpy as np
import pytest

from gymnast.config import EnvConfig
from gymnast.core.errors import EnvFailure, UserError
from gymnast.core.seeds import derive_seed
from gymnast.envs.make import make_vec
from gymnast.envs.types import EpisodeRecord, VecEnv
from tests.contract.registered import engines_for
from tests.envs_for_tests import ACTIONS, OBSERVATIONS, Lonely, Spaces, full_id

ENGINES = engines_for(full_id("Counting-v0"))
N = 3
Make = Callable[..., VecEnv]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[VecEnv] = []

    def build(engine: str, name: str, n_envs: int = N, **config: Any) -> VecEnv:
        env_id = name if name in gym.registry else full_id(name)
        made.append(make_vec(EnvConfig(id=env_id, engine=engine, **config), n_envs, "train"))
        return made[-1]

    yield build
    for vec in made:
        vec.close()


def zeros(n: int = N) -> np.ndarray:
    return np.zeros(n, np.int64)


@pytest.mark.parametrize("engine", ENGINES)
def test_counting_env_shows_every_transition_once(make: Make, engine: str) -> None:
    vec = make(engine, "Counting-v0")
    assert (vec.reset(0).obs["obs"] == 0).all()
    for t in range(1, 13):  # episodes of 5 steps
        batch = vec.step(zeros())
        index = (t - 1) % 5 + 1  # which step of its episode this was
        assert (batch.reward == index).all()
        assert (batch.obs["obs"] == (0 if index == 5 else index)).all()
        assert (batch.terminated == (index == 5)).all()
        assert not batch.truncated.any()
        assert len(batch.episodes) == (N if index == 5 else 0)
        if index == 5:
            assert (batch.final_obs["obs"] == 5).all()
            # 1 + 2 + 3 + 4 + 5
            assert [(r.env, r.raw_return, r.length, r.frames) for r in batch.episodes] == [
                (i, 15, 5, 5) for i in range(N)
            ]
            assert batch.episodes[0].info == {"t": 5}


@pytest.mark.parametrize("engine", ENGINES)
def test_time_limit_is_truncation_and_both_flags_are_termination(make: Make, engine: str) -> None:
    limited, both = make(engine, "Truncating-v0"), make(engine, "BothFlags-v0")
    limited.reset(0)
    both.reset(0)
    for t in range(1, 9):
        batch = limited.step(zeros())
        assert not batch.terminated.any()
        assert (batch.truncated == (t == 7)).all()
        if t == 7:
            assert (batch.final_obs["obs"] == 7).all()
            assert not batch.episodes[0].terminated
        batch = both.step(zeros())
        assert not batch.truncated.any()
        assert (batch.terminated == (t % 4 == 0)).all()
    replaced = make(engine, "Truncating-v0", max_episode_steps=2)
    replaced.reset(0)
    assert not replaced.step(zeros()).truncated.any()
    assert replaced.step(zeros()).truncated.all()


@pytest.mark.parametrize("engine", ENGINES)
def test_every_episode_has_its_own_seed(make: Make, engine: str) -> None:
    vec = make(engine, "SeedEcho-v0")
    obs = vec.reset(42).obs["obs"]
    for k in range(3):
        assert obs[:, 0].tolist() == [derive_seed(42, i, k) for i in range(N)]
        for _ in range(5):
            batch = vec.step(zeros())
        assert [record.seed for record in batch.episodes] == [derive_seed(42, i, k) for i in range(N)]
        obs = batch.obs["obs"]


WRAPPED = [{"frame_skip": {"low": 1, "high": 3}}, {"sticky_actions": {"p": 0.5}}, {"observation_noise": {"std": 0.1}}]
RESUMED: list[tuple[str, dict[str, Any]]] = [
    ("Dice-v0", {}),
    ("Dice-v0", {"wrappers": [*WRAPPED, {"action_noise": {"p": 0.3}}, {"frame_stack": {"n": 2}}]}),
    ("Sampling-v0", {}),
    ("FrozenLake-v1", {}),
    ("LunarLander-v3", {"wrappers": [{"frame_skip": {"n": 2}}]}),
    ("BoxAction-v0", {"wrappers": [{"action_noise": {"std": 0.2}}]}),
]


@pytest.mark.parametrize("name,config", RESUMED)
def test_process_equals_sync_and_resumes_exactly(make: Make, name: str, config: dict[str, Any]) -> None:
    engines = [make("sync", name, **config), make("process", name, **config)]
    space = engines[0].action_space
    space.seed(0)
    actions = [np.stack([space.sample() for _ in range(N)]) for _ in range(160)]
    for vec in engines:
        vec.reset(7)
    found: list[list[EpisodeRecord]] = [[], [], [], []]
    for step, action in enumerate(actions):
        if step == 80:  # each state goes into the other engine: they are the same
            states = [{key: array.copy() for key, array in vec.save_state().items()} for vec in engines]
            engines += [make("process", name, **config), make("sync", name, **config)]
            for vec, state in zip(engines[2:], states, strict=True):
                vec.load_state(state)
            found[2], found[3] = list(found[0]), list(found[0])
        batches = [vec.step(action) for vec in engines]
        for records, batch in zip(found, batches, strict=False):
            records.extend(batch.episodes)
            np.testing.assert_array_equal(batch.obs["obs"], batches[0].obs["obs"])
            np.testing.assert_array_equal(batch.reward, batches[0].reward)
            np.testing.assert_array_equal(batch.terminated, batches[0].terminated)
            np.testing.assert_array_equal(batch.truncated, batches[0].truncated)
            ended = batch.terminated | batch.truncated
            np.testing.assert_array_equal(batch.final_obs["obs"][ended], batches[0].final_obs["obs"][ended])
    assert found[0]
    assert found[0] == found[1] == found[2] == found[3]
    if name == "Dice-v0":  # the parts of the raw return add up to it
        assert all(sum(r.components.values()) == pytest.approx(r.raw_return) for r in found[0])


@pytest.mark.parametrize("engine", ENGINES)
def test_what_an_env_samples_follows_from_the_seed(make: Make, engine: str) -> None:
    vecs = [make(engine, "Sampling-v0") for _ in range(3)]
    vecs[2].action_space.seed(5)  # who chooses random actions does not take the env's random numbers
    seen = []
    for vec, seed in zip(vecs, (3, 3, 4), strict=True):
        vec.reset(8)
        vec.step(np.full(N, vecs[2].action_space.sample()))
        seen.append([vec.reset(seed).obs["obs"].copy()])
        for _ in range(30):
            batch = vec.step(zeros())
            seen[-1] += [batch.obs["obs"].copy(), batch.reward.copy()]
    for one, again in zip(seen[0], seen[1], strict=True):
        np.testing.assert_array_equal(one, again)
    assert not any(np.array_equal(one, other) for one, other in zip(seen[0], seen[2], strict=True))
    assert len({tuple(row) for row in seen[0][0]}) == N  # each env samples for itself


def test_an_env_that_ignores_its_seed_begins_anew_with_a_warning(make: Make) -> None:
    vec = make("sync", "Unseeded-v0", 1)
    vec.reset(0)
    vec.step(zeros(1))
    state = vec.save_state()
    with pytest.warns(UserWarning, match="does not repeat itself from its seed"):
        vec.load_state(state)
    assert vec.save_state()["length"].tolist() == [0]
    assert vec.save_state()["episode"].tolist() == [1]


def test_long_episodes_keep_all_their_actions(make: Make) -> None:
    # 700 steps of one endless episode beside short ones: the log must grow and move without losing any
    vec = make("sync", "Truncating-v0", 2, max_episode_steps=701)
    vec.reset(0)
    taken = np.random.default_rng(0).integers(0, 2, (700, 2))
    for action in taken:
        vec.step(action)
    assert vec.save_state()["actions"].tolist() == [*taken[:, 0].tolist(), *taken[:, 1].tolist()]
    vec.step(zeros(2))
    for action in taken[:600]:
        vec.step(action)
    assert vec.save_state()["actions"].tolist() == [*taken[:600, 0].tolist(), *taken[:600, 1].tolist()]


@pytest.mark.parametrize(
    "wrappers,decisions",
    [
        ([], 5),
        ([{"frame_skip": {"n": 2}}], 3),  # 2 + 2 + 1 of the 5 steps
        ([{"sticky_actions": {"p": 0.9}}, {"frame_stack": {"n": 3}}, {"observation_noise": {"std": 5}}], 5),
        ([{"frame_skip": {"n": 2}}, {"time_limit": {"steps": 9}}], 3),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_score_is_the_envs_own_whatever_wraps_it(
    make: Make, engine: str, wrappers: list[dict[str, Any]], decisions: int
) -> None:
    if engine == "process" and len(wrappers) != 1:
        pytest.skip("the worker runs the sync engine; one wrapper shows that it gets them")
    vec = make(engine, "Counting-v0", 2, wrappers=wrappers)
    vec.reset(0)
    learned = np.zeros(2)
    for _ in range(decisions):
        batch = vec.step(zeros(2))
        learned += batch.reward
    assert [(r.raw_return, r.length, r.frames) for r in batch.episodes] == [(15.0, decisions, 5)] * 2
    assert learned.tolist() == [15.0, 15.0]


LEAVES = {
    "Box": {"obs": ((3,), np.float32)},
    "Image": {"obs": ((3, 16, 12), np.uint8)},
    "Discrete": {"obs": ((), np.int64)},
    "MultiDiscrete": {"obs": ((2,), np.int64)},
    "MultiBinary": {"obs": ((4,), np.int8)},
    "Dict": {"camera": ((1, 8, 10), np.uint8), "inside/room": ((), np.int64), "inside/speed": ((2,), np.float32)},
    "Tuple": {"0": ((), np.int64), "1": ((2,), np.float32)},
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", OBSERVATIONS)
def test_observations_as_leaves(make: Make, engine: str, name: str) -> None:
    if engine == "process" and name not in ("Dict", "Image", "Discrete"):
        pytest.skip("the same code as sync; three layouts show the shared memory")
    vec = make(engine, f"{name}Observation-v0", 2)
    batch = vec.reset(3)
    assert {key: (array.shape[1:], array.dtype) for key, array in batch.obs.items()} == LEAVES[name]
    plain = gym.make(full_id(f"{name}Observation-v0"))
    raw, _ = plain.reset(seed=derive_seed(3, 1, 0))
    for _ in range(9):  # beyond the first episode, of 8 steps
        for key, array in batch.obs.items():
            assert vec.obs_space[key].shape == array.shape[1:]
            assert vec.obs_space[key].contains(array[1][()])
            expected: Any = raw
            for part in () if key == "obs" else key.split("/"):
                expected = expected[int(part) if part.isdigit() else part]
            if name == "Image" or key == "camera":
                expected = np.transpose(expected, (2, 0, 1))
            if name == "Discrete":
                expected = expected - 2  # the space starts at 2; the learner's at 0
            np.testing.assert_allclose(array[1], expected, rtol=1e-6)
        batch = vec.step(zeros(2))
        raw, _, ended, _, _ = plain.step(0)
        if ended:
            raw, _ = plain.reset(seed=derive_seed(3, 1, 1))


@pytest.mark.parametrize("name", ACTIONS)
def test_actions_reach_the_env_in_its_own_terms(make: Make, name: str) -> None:
    # the env checks each action against its space, and pays the action's mean
    vec = make("sync", f"{name}Action-v0", 2)
    vec.reset(0)
    vec.action_space.seed(1)
    action = np.stack([vec.action_space.sample() for _ in range(2)])
    batch = vec.step(action)
    expected = action.reshape(2, -1).mean(axis=1) - (1 if name == "ShiftedDiscrete" else 0)
    np.testing.assert_allclose(batch.reward, expected, rtol=1e-6)


@pytest.mark.parametrize("engine", ENGINES)
def test_action_masks(make: Make, engine: str) -> None:
    vec = make(engine, "Masked-v0", action_masks=True)
    batch = vec.reset(0)
    for t in range(14):  # episodes of 6: the mask after an end is that of the new start
        assert batch.mask is not None
        assert batch.mask.dtype == np.bool_
        assert batch.mask.tolist() == [[a in ((t % 6) % 4, (t % 6 + 1) % 4) for a in range(4)]] * N
        batch = vec.step(np.full(N, (t % 6) % 4))
        assert (batch.reward == 1.0).all()
    remapped = make(engine, "Masked-v0", action_masks=True, wrappers=[{"action_remap": {"actions": [3, 0, 1]}}])
    assert remapped.reset(0).mask.tolist() == [[False, True, True]] * N  # type: ignore[union-attr]


def test_masks_of_a_real_env(make: Make) -> None:
    vec = make("sync", "Taxi-v4", 2, action_masks=True)
    batch = vec.reset(0)
    assert batch.mask is not None
    assert batch.mask.shape == (2, 6)
    assert not batch.mask.all()


def test_asking_for_masks_that_are_not_there(make: Make) -> None:
    with pytest.raises(UserError, match=r"env.action_masks: true, but .* gives no info\['action_mask'\]"):
        make("sync", "Counting-v0", action_masks=True).reset(0)


@pytest.mark.parametrize(
    "action,mask,expected",
    [
        ("Discrete", [0, 0, 0], "allows no action at all"),
        ("MultiDiscrete", [1, 0, 0, 0, 0], "allows nothing in component 1 of the action"),  # of 2 and 3 choices
        ("MultiDiscrete", [1, 0, 0, 1, 0], None),
        ("MultiBinary", [0, 0, 0], None),  # no button may be pressed, and none has to be
    ],
)
def test_a_mask_must_allow_something_in_every_part(action: str, mask: list[int], expected: str | None) -> None:
    class Says(Spaces):
        def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
            return super().reset(**options)[0], {"action_mask": np.array(mask)}

    vec = make_vec(EnvConfig(id="mine", action_masks=True), 1, "train", factory=lambda: Says(action=action))
    if expected is None:
        assert vec.reset(0).mask.tolist() == [[bool(one) for one in mask]]  # type: ignore[union-attr]
        return
    with pytest.raises(EnvFailure, match=rf"env 0, after a reset, {expected} in info\['action_mask'\]"):
        vec.reset(0)


def test_envs_that_need_a_process_each_get_one() -> None:
    """Two vectors of a suite with `one_per_process`, at once: a second env in any process would raise."""
    cfg = EnvConfig(id=Lonely.ID)
    vectors = [make_vec(cfg, n_envs, role) for n_envs, role in ((3, "train"), (1, "eval"))]  # type: ignore[arg-type]
    pids = [pid for vec in vectors for pid in vec.reset(0).obs["obs"][:, 0].tolist()]
    engines = [vec.engine for vec in vectors]
    for vec in vectors:
        vec.close()
    assert engines == ["process", "process"]
    assert len({*pids, os.getpid()}) == 5
    refusal = r"sync cannot run this env: a process may hold one of these envs only.* Use auto or process\."
    with pytest.raises(UserError, match=refusal):
        make_vec(cfg.model_copy(update={"engine": "sync"}), 1, "train")


TROUBLE = {
    "crash": r"env \d, in step 2 .*, crashed in step\.\nTraceback[\s\S]*RuntimeError: the gearbox is on fire",
    "quit": r"env \d, in step 2 .*, crashed in step\.\nTraceback[\s\S]*SystemExit: 3",
    "nan_reward": r"env 0, in step 2 of its episode, after the action 0, gave the reward nan",
    "nan_observation": r"env 0, in step 2 of its episode, after the action 0, gave NaN in the observation 'obs'",
    "inf_observation": r"env 0, in step 2 of its episode, after the action 0, gave -inf in the observation 'obs'\.$",
    "inf_last_observation": r"env 0, in step 2 of its episode, .*, gave inf in the observation 'obs'\.$",
    "huge_observation": r"gave 1e\+38 in the observation 'obs', too large to learn from: scale it by a wrapper\.$",
    "wrong_shape": r"observation 'obs' has shape \(2,\), its space declares \(1,\)",
    "list_reward": r"reward is \[1.0\], not a number",
    "none_flag": r"terminated is None, not true or false",
}


@pytest.mark.parametrize("trouble", TROUBLE)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_broken_env_is_named_with_what_is_wrong(make: Make, engine: str, trouble: str) -> None:
    expected = TROUBLE[trouble]
    if engine == "process" and trouble not in ("crash", "nan_reward"):
        pytest.skip("the worker runs the sync engine; two troubles show that it reports")
    vec = make(engine, "Troubled-v0", kwargs={"trouble": trouble, "at": 2})
    vec.reset(0)
    vec.step(zeros())
    with pytest.raises(EnvFailure, match=expected) as failure:
        vec.step(zeros())
    assert "test/Troubled-v0" in str(failure.value)


@pytest.mark.parametrize(
    "trouble,expected",
    [
        ("exit", r"the worker of envs 0 to \d \(process \d+\) ended with exit code 7"),
        ("kill", r"the worker of envs 0 to \d \(process \d+\) was killed by signal 9"),
        ("hang", r"did not finish a step within 1 s and was stopped. If the env is that slow, raise env.step_timeout"),
    ],
)
def test_a_lost_worker_ends_the_run(make: Make, trouble: str, expected: str) -> None:
    limit = 1.0 if trouble == "hang" else 60.0
    vec = make("process", "Troubled-v0", step_timeout=limit, kwargs={"trouble": trouble, "at": 1})
    vec.reset(0)
    processes: list[Any] = list(vec._processes)  # type: ignore[attr-defined]
    began = time.monotonic()
    with pytest.raises(EnvFailure, match=expected):
        vec.step(zeros())
    assert time.monotonic() - began < 60.0  # reported, not waited for
    for process in processes:  # closed means: ended and waited for, no zombie left
        with pytest.raises(ValueError, match="closed"):
            process.is_alive()
    with pytest.raises(EnvFailure, match="closed"):
        vec.step(zeros())
    vec.close()  # and again, without harm


def test_a_copy_of_the_process_that_an_env_forks_ends_there() -> None:
    code = (
        "import numpy as np\nfrom gymnast.config import EnvConfig\nfrom gymnast.envs.make import make_vec\n"
        f"cfg = EnvConfig(id={full_id('Troubled-v0')!r}, kwargs={{'trouble': 'fork'}}, engine='sync')\n"
        "vec = make_vec(cfg, 2, 'train')\nvec.reset(0)\n"
        "for _ in range(5):\n    vec.step(np.zeros(2, np.int64))\n"
        "print('trained on')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=100)
    assert done.stdout == "trained on\n"  # by one of three processes: the second env's step forks both of the first
    assert done.stderr.count("an env forked in its step; the copy of this process ends here") == 3


def test_close_ends_the_workers_and_slow_envs_are_not_hung(make: Make) -> None:
    vec = make("process", "Slow-v0", step_timeout=20.0, kwargs={"seconds": 0.05})
    vec.reset(0)
    assert (vec.step(zeros()).reward == 1).all()
    pids = [process.pid for process in vec._processes]  # type: ignore[attr-defined]
    vec.close()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_long_episodes_to_replay_do_not_ask_for_more_seconds_than_a_pipe_can_wait(make: Make) -> None:
    vec = make("process", "Counting-v0", step_timeout=86_400.0, kwargs={"length": None})
    vec.reset(0)
    for _ in range(30):  # a day for each step to replay is more than 2 ** 31 milliseconds
        vec.step(zeros())
    state = vec.save_state()
    vec.load_state(state)
    again = vec.save_state()
    assert {key: array.tolist() for key, array in again.items()} == {key: a.tolist() for key, a in state.items()}


def test_workers_do_not_import_torch(make: Make) -> None:
    vec = make("process", "Counting-v0", 2)
    for process in vec._processes:  # type: ignore[attr-defined]
        with open(f"/proc/{process.pid}/maps") as maps:
            assert "libtorch" not in maps.read()


def test_state_of_other_shape_is_refused(make: Make) -> None:
    vec = make("sync", "Counting-v0", 2)
    vec.reset(0)
    state = vec.save_state()
    with pytest.raises(UserError, match=r"of 2 envs, this run has 3; resume with env.n_envs=2"):
        make("sync", "Counting-v0", 3).load_state(state)
    del state["actions"]
    with pytest.raises(UserError, match="has no actions: it was not saved by the engine 'sync'"):
        vec.load_state(state)

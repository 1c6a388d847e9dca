"""Actors on the nodes of a real Ray cluster: the same numbers as lock step on one machine, also when a node dies."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from gymnast.core.errors import UserError
from gymnast.training.loop import train
from tests.cluster.conftest import NODE, nodes_here
from tests.invariants.conftest import collect, small_config
from tests.invariants.conftest import make_session as make_session
from tests.invariants.test_central import CASES, actors_of, same_weights
from tests.invariants.test_resume import equal

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module")
def two_nodes() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch, nodes_here(patch) as cluster:
        cluster.add_node(**NODE)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, log_to_driver=False)
        yield cluster


def wait_until_dead(actor: Any) -> None:
    """Its own process sees a moment later that the node is gone."""
    while True:
        try:
            ray.get(actor.__ray_ready__.remote())
        except ray.exceptions.RayActorError:
            return


@pytest.mark.timeout(300)
def test_actors_on_two_nodes_one_of_which_dies(two_nodes: Any, make_session: Any) -> None:
    central = {"n_actors": 2, "where": two_nodes.address}
    sections = CASES["masks and memory"] | {"eval": {"every": 0}}
    plain = make_session(small_config(**sections, train={"total_timesteps": 384}))
    remote = make_session(
        small_config(**sections, train={"total_timesteps": 384, "layout": "central", "central": central})
    )
    actors: Any = actors_of(remote)._all
    assert len(set(actors.nodes.values())) == 2
    rows: list[dict[str, float]] = []

    def observe(row: dict[str, float]) -> None:
        rows.append(row)
        if len(rows) == 1:
            doomed = next(iter(two_nodes.worker_nodes))
            there = next(index for index, node in actors.nodes.items() if doomed.node_id.startswith(node))
            two_nodes.remove_node(doomed, allow_graceful=False)
            wait_until_dead(actors._handles[there])

    expected: list[dict[str, float]] = []
    train(plain, observer=expected.append)
    with pytest.warns(UserWarning, match="was lost on node [0-9a-f]{6}; another one takes its place"):
        train(remote, observer=observe)
    equal(expected, rows)
    same_weights(plain, remote)
    assert actors_of(remote).replaced >= 1  # both, where both were on that node
    remote.close()

    waiting = make_session(
        small_config(**sections, train={"layout": "central", "central": central | {"mode": "async", "max_lag": 0}})
    )
    collect(waiting)
    assert abs(waiting.collector.measured()["central/ratio_max"] - 1.0) < 1e-4


@pytest.mark.timeout(300)
def test_actors_that_are_sent_to_a_dying_node_cost_no_lives(
    two_nodes: Any, make_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ray goes on sending actors to a node for seconds after its death. Here five die before they begin: one more than
    an actor may."""
    from gymnast.envs.actors import ray as ray_actors

    monkeypatch.setattr(ray_actors, "PAUSE", 0.01)
    central = {"n_actors": 1, "where": two_nodes.address}
    sections: dict[str, Any] = {"eval": {"every": 0}}
    session = make_session(small_config(**sections, train={"layout": "central", "central": central}))
    actors: Any = actors_of(session)._all
    begin, doomed = actors.start, iter(range(5))

    def start(index: int) -> None:
        begin(index)
        if next(doomed, None) is not None:
            ray.kill(actors._handles[index])

    monkeypatch.setattr(actors, "start", start)
    ray.kill(actors._handles[0])
    collect(session)
    assert actors_of(session).replaced == 6
    first, *others = actors_of(session).warnings
    assert "was lost on node" in first
    assert len(others) == 5
    assert all("was lost before it had begun; another one takes its place" in other for other in others)


def test_actors_on_a_node_with_another_version_do_not_begin(
    two_nodes: Any, make_session: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    central = {"n_actors": 1, "where": two_nodes.address}
    config = small_config(eval={"every": 0}, train={"layout": "central", "central": central})
    monkeypatch.setattr("gymnast.__version__", "9.8.7")
    with pytest.raises(UserError, match=r"\(node [0-9a-f]{6}\) has gymnast \S+ instead of 9\.8\.7: every node needs"):
        make_session(config)

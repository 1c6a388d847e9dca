"""`gymnast ray`: how a cluster is made, and what is on it."""

from __future__ import annotations

import os
import platform

from gymnast.core.errors import UserError, install_command
from gymnast.core.ray_cluster import LOOPBACK, NAMESPACE
from gymnast.jobs.launchers import parse_where
from gymnast.jobs.launchers.ray import RayLauncher
from gymnast.verbs.result import Facts


def how_to(port: int) -> Facts:
    """Commands by place, each with what it does. A cluster of one machine needs the first place only."""
    token = [
        ("export RAY_AUTH_MODE=token", "whoever has the token can run any code on the cluster, and nobody else"),
    ]
    return Facts(
        {
            "on every machine": [
                (install_command("ray"), f"the same Python ({platform.python_version()}) and the same packages"),
                *token,
            ],
            "on the head": [
                ("ray get-auth-token --generate", "makes the token, once; copy it to ~/.ray/auth_token everywhere"),
                (
                    f"ray start --head --port={port} --dashboard-host=127.0.0.1",
                    "the dashboard stays on this machine. For a cluster of one machine, which no other one can reach, "
                    f"begin the command with {' '.join(f'{name}={value}' for name, value in LOOPBACK.items())}; "
                    "commands with --on 127.0.0.1:PORT find that out by themselves",
                ),
            ],
            "on every worker": [
                (f"ray start --address=HEAD:{port}", "its cores are the cluster's now; --num-cpus=N offers fewer"),
            ],
            "what `ray start` may need, on any node": [
                ("--num-gpus=N", "how many GPUs runs may reserve, where Ray does not find them or shall have fewer"),
                ("--memory=BYTES", "how much memory runs may reserve; without it 70 % of what is free"),
                ("--labels=KEY=VALUE,KEY=VALUE", "what a run can ask for with train.resources.labels"),
                (
                    "--object-store-memory=BYTES",
                    "what Ray takes for large answers: 30 % of the memory if you say nothing",
                ),
                ("--temp-dir=/PATH", "instead of /tmp/ray: where /tmp is small, or other people use Ray as well"),
            ],
            "where you train from": [
                (f"export RAY_ADDRESS=HEAD:{port}", "then --on ray means this cluster"),
                ("gymnast ray status", "its nodes and cores"),
                ("gymnast train CartPole-v1 --on ray", "on any node with a free core"),
            ],
            "when you are done": [
                ("ray stop", "on every machine; it stops all Ray clusters there, as far as you may"),
                (
                    f"pkill -f 'gcs-address=HEAD:{port}|gcs_server_port={port}'",
                    "on every machine instead, if another of your clusters runs there",
                ),
            ],
        }
    )


def status(address: str | None) -> Facts:
    given = address or os.environ.get("RAY_ADDRESS")
    if not given:
        raise UserError("no cluster: name its HOST:PORT, or set RAY_ADDRESS. `gymnast ray up` says how to make one.")
    try:
        _, address = parse_where(given)
    except UserError:
        address = None
    if address is None:
        raise UserError(f"{given}: must be the HOST:PORT of a cluster, like 10.0.0.5:6379.")
    launcher = RayLauncher(address)
    import ray

    free = ray.available_resources()
    nodes = [
        {
            "address": node["NodeManagerAddress"],
            "node": node["NodeID"][:6],
            "head": "node:__internal_head__" in node["Resources"],
            "cores": int(node["Resources"].get("CPU", 0)),
            "gpus": int(node["Resources"].get("GPU", 0)),
            "memory": int(node["Resources"].get("memory", 0)),
            "labels": {key: value for key, value in node["Labels"].items() if not key.startswith("ray.io/")},
        }
        for node in ray.nodes()
        if node["Alive"]
    ]
    actors = ray.util.list_named_actors(all_namespaces=True)
    runs = sorted(actor["name"] for actor in actors if actor["namespace"] == NAMESPACE)
    return Facts({"address": launcher.address, "nodes": nodes, "free_cores": int(free.get("CPU", 0)), "runs": runs})

"""`gymnast ray`: a cluster for --on."""

from __future__ import annotations

import click

from gymnast.cli.verbs import Verbs, app, verb


@app.group(cls=Verbs, short_help="Make and see a Ray cluster for --on.")
def ray() -> None:
    """A Ray cluster, on which `train`, `resume`, `benchmark`, `sweep` and `speed` run with --on."""


@ray.command("up", short_help="Print the commands that make a cluster.")
@click.option("--port", type=click.IntRange(1, 65535), default=6379, show_default=True, help="Port of the head node.")
@verb("remote.cluster:how_to", "ray:print_how_to")
def ray_up() -> None:
    """Print the commands that make a cluster: for the head, for each worker, and for the machine you train from.

    Nothing is started. Ray's own commands do that, so that they can be read before.
    """


@ray.command("status", short_help="Show the nodes of a cluster and the runs on it.")
@click.argument("address", required=False, metavar="[HOST:PORT]")
@verb("remote.cluster:status", "ray:print_status")
def ray_status() -> None:
    """Show the nodes of a cluster, its cores, and the runs that are trained on it.

    \b
    gymnast ray status                        the cluster of RAY_ADDRESS
    gymnast ray status 10.0.0.5:6379
    """

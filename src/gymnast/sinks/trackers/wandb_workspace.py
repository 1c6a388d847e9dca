"""A W&B project's workspace, laid out by the metric catalogue. Made once, where the package for it is installed."""

from __future__ import annotations

from typing import Any

from gymnast.config.tuned import cache_path
from gymnast.core.machine import is_installed
from gymnast.metrics.catalogue import catalogue
from gymnast.metrics.rows import STEP

NAME = "Gymnast"


def set_up_workspace(entity: str, project: str) -> None:
    """Online only. Without `wandb-workspaces` W&B makes sections from the names' prefixes, which are the same."""
    mark = cache_path().parent / f"wandb-workspace-{entity}-{project}"
    if mark.exists() or not is_installed("wandb_workspaces"):
        return
    workspace(entity, project).save()
    mark.parent.mkdir(parents=True, exist_ok=True)
    mark.touch()


def workspace(entity: str, project: str) -> Any:
    """One section a subject; the metrics to look at first come first, over env steps."""
    import wandb_workspaces.reports.v2 as reports
    import wandb_workspaces.workspaces as workspaces

    groups: dict[str, list[str]] = {"look here first": []}
    for metric in catalogue():
        if metric.emphasis:
            groups["look here first"].append(metric.name)
        elif not metric.detail and not metric.name.endswith("*"):
            groups.setdefault(metric.group, []).append(metric.name)
    sections = [
        workspaces.Section(
            name=group,
            panels=[reports.LinePlot(title=name, x=STEP, y=[name]) for name in names],
            is_open=group == "look here first",
        )
        for group, names in groups.items()
    ]
    return workspaces.Workspace(entity=entity, project=project, name=NAME, sections=sections)

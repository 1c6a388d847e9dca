"""Our own process that is measured. Only one process works at a time."""

from __future__ import annotations

from gymnast.jobs.worker import Job, Worker


def our_worker() -> Worker:
    return Worker(Job("gymnast.verbs.speed.worker:measure"), name="gymnast")

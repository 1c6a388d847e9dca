"""Says which version of a library an interpreter has, and how many threads it takes there; or what it lacks.

Run by path, so nothing of Gymnast is imported.
"""

from __future__ import annotations

import importlib.util
import json
import os
import sys
from importlib import metadata


def has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package it would be in
        return False


def default_threads(needs: list[str]) -> int:
    """Those that torch takes; anything else takes every core that it may."""
    if "torch" in needs:
        import torch

        return torch.get_num_threads()
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def main() -> None:
    distribution, *needs = sys.argv[1:]
    lacking = [module for module in needs if not has(module)]
    if lacking:
        sys.exit(f"cannot import {', '.join(lacking)}")
    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:  # found on PYTHONPATH
        version = "checkout" + (f", jax {metadata.version('jax')}" if "jax" in needs else "")
    print(json.dumps({"version": version, "threads": default_threads(needs)}))


if __name__ == "__main__":
    main()

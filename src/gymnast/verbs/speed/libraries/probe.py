"""Says which version of a library an interpreter has, and how many threads torch takes there; or what it lacks.

Run by path, so nothing of Gymnast is imported.
"""

from __future__ import annotations

import importlib.util
import json
import sys
from importlib import metadata


def has(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:  # not even the package it would be in
        return False


def main() -> None:
    distribution, *needs = sys.argv[1:]
    lacking = [module for module in needs if not has(module)]
    if lacking:
        sys.exit(f"cannot import {', '.join(lacking)}")
    import torch

    try:
        version = metadata.version(distribution)
    except metadata.PackageNotFoundError:  # found on PYTHONPATH
        version = "checkout"
    print(json.dumps({"version": version, "torch": torch.__version__, "threads": torch.get_num_threads()}))


if __name__ == "__main__":
    main()

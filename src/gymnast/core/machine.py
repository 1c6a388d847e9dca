"""What this machine is: cores, processor, versions of packages."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from importlib import metadata, util
from pathlib import Path

import gymnast

RESERVED = "GYMNAST_CORES"  # an environment variable: how many cores a cluster has reserved for this process
SAME_VERSIONS = "every node needs the versions of the machine that a run is started from"
PACKAGES = ("gymnasium", "envpool", "ale-py", "numpy", "torch")  # a new one of these may change which engine is fastest


def cores() -> int:
    """Those this process may use, which a container or a scheduler can make fewer than there are."""
    if (reserved := os.environ.get(RESERVED, "")).isdecimal():
        return int(reserved)
    affinity = getattr(os, "sched_getaffinity", None)
    return len(affinity(0)) if affinity else os.cpu_count() or 1


def free_memory() -> int:
    """Bytes that can be had without swapping."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration):  # another system: half of the memory
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def is_installed(module: str) -> bool:
    """Not so for a bare folder of that name, which W&B leaves wherever it has run."""
    spec = util.find_spec(module)
    return spec is not None and spec.origin is not None


def machine() -> str:
    """Processor and versions, as one line."""
    found = [f"{package} {version}" for package, version in package_versions(*PACKAGES).items()]
    return ", ".join([f"{cpu_model()} x {cores()}", *found])


def package_versions(*packages: str) -> dict[str, str]:
    """Of those that are installed. Ours by the package itself: a distribution named `gymnast` is somebody else's."""
    found = {}
    for package in packages:
        with suppress(metadata.PackageNotFoundError):
            found[package] = gymnast.__version__ if package == "gymnast" else metadata.version(package)
    return found


def versions_to_share() -> dict[str, str]:
    """What must be the same wherever a part of a run is done, or its numbers are others."""
    python = ".".join(platform.python_version_tuple()[:2])
    found = package_versions("gymnast", "torch")  # a build for a GPU adds something to the version
    return {"python": python, **{package: version.partition("+")[0] for package, version in found.items()}}


def other_versions(wanted: Mapping[str, str]) -> str:
    """What differs here, in words; nothing where nothing does."""
    here = versions_to_share()
    differ = [name for name, version in wanted.items() if here.get(name) != version]
    return ", ".join(f"{name} {here.get(name, '(none)')} instead of {wanted[name]}" for name in differ)

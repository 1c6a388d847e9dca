"""Sample Factory's command line for any Gymnasium env: its own knows only those its authors registered.

Run by path, in whatever interpreter has that library, so nothing of Gymnast is imported.
"""

from __future__ import annotations

import sys
from typing import Any

import gymnasium as gym
import torch
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.train import run_rl


def make_env(name: str, cfg: Any = None, env_config: Any = None, render_mode: str | None = None) -> Any:
    return gym.make(name, render_mode=render_mode)


def main() -> int:
    arguments = sys.argv[1:]
    if not any(word.startswith("--device=") for word in arguments):
        arguments.append(f"--device={'gpu' if torch.cuda.is_available() else 'cpu'}")
    parser, settings = parse_sf_args(arguments)
    register_env(settings.env, make_env)
    return int(run_rl(parse_full_cfg(parser, arguments)))


if __name__ == "__main__":
    sys.exit(main())

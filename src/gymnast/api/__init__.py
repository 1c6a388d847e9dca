"""The Python API, in stable-baselines3's shape: its example scripts run with the import changed."""

from gymnast.api.evaluation import evaluate_policy
from gymnast.api.loading import load
from gymnast.api.making import make_vec_env
from gymnast.api.model import Model, model_class
from gymnast.api.vec_env import VecEnv

__all__ = ["Model", "VecEnv", "evaluate_policy", "load", "make_vec_env", "model_class"]

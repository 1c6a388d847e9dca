"""Gymnast: a reinforcement-learning workbench."""

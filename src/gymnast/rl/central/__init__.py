"""Actions are chosen in one place for envs that actors step elsewhere (Espeholt et al., 2020: SEED RL)."""

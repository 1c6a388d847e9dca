"""Learning: rollouts, returns, and the algorithms that update an agent from them. Knows no files."""

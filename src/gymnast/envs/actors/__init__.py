"""Envs in actors, which only step them: processes of this machine, or Ray actors on any."""

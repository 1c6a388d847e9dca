"""Everything needed to act, in one module with one state: normaliser, encoders, heads."""

from gymnast.agent.agent import Agent as Agent

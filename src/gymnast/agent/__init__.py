"""Everything needed to act, in one module with one state: normaliser, bodies, memory, heads."""

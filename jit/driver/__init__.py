"""From a call that no entry matches to an entry: who may compile, for which limits, what is shared, and what outlives a compiled function."""

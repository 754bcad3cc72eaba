"""Handles calls that no entry matches: decides whether to compile, applies limits, shares entries, and keeps entries after a compiled function is gone."""

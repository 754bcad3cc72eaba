"""Operators that take functions: cond, loops, scans, and regions that are compiled once."""

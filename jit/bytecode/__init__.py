"""Reads and writes bytecode: code objects become version-neutral instructions, and new code objects are made. Knows neither torch nor objects."""

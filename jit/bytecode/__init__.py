"""Bytecode in and out: code objects to version-neutral instructions, and back to new code objects. Knows no torch, no objects."""

"""Bytecode in and out: decoding code objects into version-neutral instructions, and assembling new code objects. Knows no torch and no objects."""

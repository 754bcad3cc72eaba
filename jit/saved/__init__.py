"""Compiled code that outlives the process: what an entry is made of as bytes, the names of what it refers to, and the folder that they lie in."""

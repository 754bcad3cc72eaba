"""The parts of export(): capturing a program as a graph, and lowering it."""

"""How export() captures a program and lowers it: a file for each part."""

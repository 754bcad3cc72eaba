"""The functions that a program calls: compile, and those that mark regions."""

"""What a program calls: compile, and what regions of it may ask for."""

"""State of the process that framejit shares with the program: signal handlers, the lock for compiling, filters of warnings."""

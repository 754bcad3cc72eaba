"""The parts of valid_inputs(), which explores a program."""

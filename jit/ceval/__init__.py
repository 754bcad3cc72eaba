"""The interpreter of canonical bytecode: frames, the evaluation loop, and one thin handler per operation. Never imports torch."""

"""The parts of precompile(), which makes artifacts."""

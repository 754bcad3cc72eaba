"""Programs for users and developers of framejit: the demonstration, the model zoo and the benchmarks."""

"""Numbers: known, symbolic, or without a value while tracing, and what is known of the values that they can have."""

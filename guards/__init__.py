"""Guards: what a compiled entry assumes of a call, as data, and the native tree that checks it."""

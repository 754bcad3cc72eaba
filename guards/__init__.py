"""Guards: the assumptions of a compiled entry about a call, as data, and the native tree that checks them."""

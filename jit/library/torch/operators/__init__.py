"""torch's own functions that become nodes, and those that read or switch torch's state."""

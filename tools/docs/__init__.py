"""Commands that write parts of the documentation."""

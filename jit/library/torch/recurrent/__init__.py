"""Recurrent networks, and the packed sequences that they take."""

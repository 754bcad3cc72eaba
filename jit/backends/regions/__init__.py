"""Regions: parts of a graph that repeat, such as a model's layers, are compiled once."""

"""The program's functions that are traced as graphs inside the graph, and the changes that such a function may make."""

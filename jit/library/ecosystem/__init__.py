"""Models for small packages that are neither torch's nor the standard library's."""

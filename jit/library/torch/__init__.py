"""Models of torch's functions, a package for each subject."""

"""Reports to the user: which frames are compiled, why an entry doesn't serve, what a call compiles to, what break reasons mean."""

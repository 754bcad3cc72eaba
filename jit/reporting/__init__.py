"""What a user is told: which frames, why an entry doesn't serve, what a call compiles to, what break reasons mean."""

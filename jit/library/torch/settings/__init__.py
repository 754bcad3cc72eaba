"""Settings of torch that choose among kernels: flags of backends, precision, determinism."""

"""What programs and libraries say to a compiler: framejit's functions, torch.compile, torch.compiler, declared functions."""

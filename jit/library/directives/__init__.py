"""The directives that programs and libraries give to a compiler: framejit's functions, torch.compile, torch.compiler, declared functions."""

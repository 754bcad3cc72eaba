"""Process groups, collectives and modules that are replicated over processes."""

IS_ABOUT = "torch.distributed.distributed_c10d"

"""torch.utils.checkpoint: functions that a backward pass computes again."""

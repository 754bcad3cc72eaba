"""flex_attention: attention with functions that change a score, and that define the mask."""

IS_ABOUT = "torch.nn.attention.flex_attention"

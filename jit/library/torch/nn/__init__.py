"""torch.nn and torch.ao: lazy modules, and observers of quantisation-aware training."""

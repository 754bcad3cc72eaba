"""torch.optim: steps of optimizers and of learning rate schedulers."""

"""A method is called without an instance, and asks `super()`."""

import torch

import framejit


class Base:
    scale = 2.0


class Layer(Base):
    def owner(self):
        return super().__self__


def layer(x):
    return x if Layer.owner(None) is None else -x


@framejit.compile
def model(x):
    x = torch.relu(x)
    return layer(x) * 2


result = model(torch.arange(3.0))

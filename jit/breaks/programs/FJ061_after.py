"""The program asks for what it wants to know by itself."""

import torch

import framejit


class Base:
    scale = 2.0


class Layer(Base):
    def owner(self):
        return self


def layer(x):
    return x if Layer.owner(None) is None else -x


@framejit.compile
def model(x):
    x = torch.relu(x)
    return layer(x) * 2


result = model(torch.arange(3.0))

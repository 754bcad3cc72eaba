"""The caller finds out what the compiled code has to know."""

import torch

import framejit


@framejit.compile
def scaled(x, is_layer):
    return x * 2 if is_layer else x.relu()


result = [scaled(torch.ones(3), f"layer{number}".startswith("layer")) for number in range(12)]

"""The caller unpacks the weights, and passes an ordinary tensor."""

import torch

import framejit


@framejit.compile
def layer(x, weight):
    x = torch.relu(x)
    return x @ weight


packed = torch.quantize_per_tensor(torch.eye(4), 0.1, 0, torch.qint8)
result = layer(torch.arange(4.0), packed.dequantize())

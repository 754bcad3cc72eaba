"""Weights that are stored quantized are unpacked where they are used."""

import torch

import framejit


@framejit.compile
def layer(x, packed):
    x = torch.relu(x)
    return x @ torch.dequantize(packed)


packed = torch.quantize_per_tensor(torch.eye(4), 0.1, 0, torch.qint8)
result = layer(torch.arange(4.0), packed)

"""The caller passes an ordinary tensor of the same memory."""

import torch

import framejit


class Image(torch.Tensor):
    pass


@framejit.compile
def batch(image, mean):
    mean = mean * 255
    return image.unsqueeze_(0) - mean


result = batch(torch.arange(3.0).as_subclass(Image).as_subclass(torch.Tensor), torch.tensor(0.5))

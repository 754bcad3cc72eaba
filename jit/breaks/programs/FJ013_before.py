"""A tensor of a subclass of the program's gets another dimension in place."""

import torch

import framejit


class Image(torch.Tensor):
    pass


@framejit.compile
def batch(image, mean):
    mean = mean * 255
    return image.unsqueeze_(0) - mean


result = batch(torch.arange(3.0).as_subclass(Image), torch.tensor(0.5)).as_subclass(torch.Tensor)

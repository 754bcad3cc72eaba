"""The value that changes from call to call is passed as a tensor. The other break remains."""

import torch

import framejit


@framejit.compile
def labelled(x, length):
    x = torch.tanh(x)
    print("labelled")
    return x + length


result = [labelled(torch.ones(3), torch.tensor(number)) for number in range(12)]

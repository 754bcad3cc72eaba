"""After a graph break, the compiled code depends on a text that is another one in each call."""

import torch

import framejit


@framejit.compile
def labelled(x, label):
    x = torch.tanh(x)
    print("labelled")
    return x + len(label)


result = [labelled(torch.ones(3), "x" * number) for number in range(12)]

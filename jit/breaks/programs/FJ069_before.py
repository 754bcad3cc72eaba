"""NumPy applies a function along an axis of an array."""

import numpy as np
import torch

import framejit


@framejit.compile
def ranges(x):
    array = torch.relu(x).numpy()
    spans = np.apply_along_axis(np.ptp, 0, array)
    return torch.from_numpy(spans) * 2


result = ranges(torch.arange(6.0).reshape(2, 3))

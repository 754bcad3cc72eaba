"""The caller computes the checksum, and passes the number of the row."""

import zlib

import torch

import framejit

table = torch.arange(40.0).reshape(8, 5)


@framejit.compile
def row(number, scale):
    scaled = table * scale
    return scaled[number] + 1


result = row(zlib.crc32(b"alpha") % 8, torch.tensor(0.5))

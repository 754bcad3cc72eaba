"""NumPy inside compiled programs: arrays that come in, go out and are changed, and the ways between arrays and tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from tools.bench.feature_cases.feature import feature


def an_array() -> tuple[np.ndarray]:
    return (np.random.default_rng(0).standard_normal((4, 6)),)


def an_image() -> tuple[np.ndarray]:
    return (np.random.default_rng(0).integers(0, 256, (8, 8, 3)).astype(np.uint8),)


def both() -> tuple[np.ndarray, torch.Tensor]:
    return np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32), torch.randn(4, 6, requires_grad=True)


@feature("array arithmetic", an_array)
def arithmetic(a: np.ndarray) -> Any:
    return (a * 2 + 1) / (abs(a) + 0.5) - a**2, a > 0, a @ a.T


@feature("ufuncs", an_array)
def universal(a: np.ndarray) -> Any:
    return np.sin(a) + np.exp(-np.square(a)), np.maximum(a, 0), np.isnan(a), np.logical_and(a > 0, a < 1), np.sqrt(np.abs(a))


@feature("reductions give scalars", an_array)
def reductions(a: np.ndarray) -> Any:
    return a.sum(), a.mean(axis=0), np.max(a, axis=1, keepdims=True), a.argmax(), a.std(), np.any(a > 2), a.cumsum(axis=0)


@feature("reshape, transpose, slices", an_array)
def shapes(a: np.ndarray) -> Any:
    return a.reshape(2, -1), a.T, a[1:, ::2], a[None, ..., 0], np.squeeze(a[:1]), np.expand_dims(a, 0), a.ravel(), a.transpose(1, 0)


@feature("concatenate, stack, split, pad", an_array)
def pieces(a: np.ndarray) -> Any:
    return np.concatenate([a, a], axis=1), np.stack([a, -a]), np.vstack([a[0], a[1]]), np.split(a, 2), np.pad(a, 1), np.tile(a, 2), np.repeat(a, 2)


@feature("where, clip, masks, indices", an_array)
def choices(a: np.ndarray) -> Any:
    return np.where(a > 0, a, 0.1 * a), np.clip(a, -1, 1), a[:, [0, 2]], a * (a > 0), np.take(a, [0, 1], axis=1)


@feature("arrays that the program makes")
def made(x: torch.Tensor) -> Any:
    grid = np.linspace(0, 1, x.shape[1], dtype=np.float32)
    table = np.zeros((2, 3)) + np.arange(3) + np.ones(3) * np.array([1, 2, 3]) + np.eye(3)[:2]
    return x * torch.from_numpy(grid), table


@feature("an array changed in place", an_array)
def changed(a: np.ndarray) -> Any:
    a += 1
    a[0] = 0
    a[:, 1] *= 3
    a[a > 2] = 2
    np.add(a, a, out=a)
    return a


@feature("the argument returned, and a view of it", an_array)
def identities(a: np.ndarray) -> Any:
    return a, a[1:], np.asarray(a), a.copy()


@feature("tensor to array and back")
def there_and_back(x: torch.Tensor) -> Any:
    a = x.detach().numpy()
    return x * torch.from_numpy(np.tanh(a)) + torch.as_tensor(a.mean(axis=0)) + torch.tensor(a[0])


@feature("preprocessing: image to tensor", an_image)
def preprocessing(image: np.ndarray) -> Any:
    a = image.astype(np.float32) / 255.0
    a = (a - np.array([0.5, 0.4, 0.3], dtype=np.float32)) / np.array([0.2, 0.2, 0.2], dtype=np.float32)
    return torch.from_numpy(a.transpose(2, 0, 1).copy())[None]


@feature("an image flipped", an_image)
def flipped(image: np.ndarray) -> Any:
    return torch.from_numpy(image[:, ::-1].copy()), torch.from_numpy(np.ascontiguousarray(image[..., ::-1])).float()


@feature("an array beside a tensor that trains", both)
def beside(a: np.ndarray, x: torch.Tensor) -> Any:
    return (x * torch.from_numpy(a)).sum() + float(a.max())


@feature("dtypes and conversions", an_array)
def types(a: np.ndarray) -> Any:
    single = a.astype(np.float32)
    whole = a.astype("int64")
    return single * 2, single * np.float64(2), whole / 2, whole // 2 + single, a.dtype == np.float64, whole.dtype.kind, np.float32(single.sum())


@feature("integers and bools", lambda: (np.arange(12).reshape(3, 4),))
def integers(a: np.ndarray) -> Any:
    return a % 3, a // 4, a & 1, a.mean(), (a > 3).sum(), a.cumsum(), np.prod(a.shape) * a, a / 0.5


@feature("dot, einsum, norms", an_array)
def algebra(a: np.ndarray) -> Any:
    return np.dot(a, a.T), np.einsum("ij,kj->ik", a, a), np.linalg.norm(a), np.outer(a[0], a[1]), np.matmul(a, a.T), np.inner(a, a)


@feature("loops over rows", an_array)
def rows(a: np.ndarray) -> Any:
    total = np.zeros(a.shape[1])
    for row in a:
        total = total + row * 2
    return total, [float(value) for value in total[:2]]


@feature("numbers of an array in tensor code", both)
def numbers(a: np.ndarray, x: torch.Tensor) -> Any:
    return x * a.mean().item() + a.shape[0], x / a.std()


@feature("scalars from shapes", an_array)
def scalars(a: np.ndarray) -> Any:
    return a * np.sqrt(a.shape[-1]), np.prod(a.shape), np.float64(3) * a.size


@feature("an array of objects left alone", lambda: (torch.randn(3), np.array([1, "two"], dtype=object)))
def objects(x: torch.Tensor, names: np.ndarray) -> Any:
    return x * 2, len(names.shape)


@feature("median, percentile, unique", an_array)
def statistics(a: np.ndarray) -> Any:
    return np.median(a), np.percentile(a, 30), np.unique(np.round(a)), a[a > 0]


@feature("linear algebra, Fourier transforms, counts", an_array)
def sciences(a: np.ndarray) -> Any:
    counts, edges = np.histogram(a, bins=5)
    return np.linalg.inv(a @ a.T), np.abs(np.fft.rfft(a, axis=1)), counts, edges, np.cov(a), np.argsort(a), np.unique(a.round(), return_counts=True)


@feature("sorting", an_array)
def sorting(a: np.ndarray) -> Any:
    return np.sort(a), np.argmax(a, axis=0), np.argsort(a, axis=1, kind="stable"), a.min(axis=0), np.ptp(a)


@feature("what NumPy raises", an_array)
def raised(a: np.ndarray) -> Any:
    try:
        return a + np.ones(5)
    except ValueError as error:
        return a.sum(), type(error).__name__

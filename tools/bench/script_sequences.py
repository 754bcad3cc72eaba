"""Training scripts on sequences and texts that need torch alone, as their authors write them: experts, streams, lattices, beams, curricula."""

from __future__ import annotations

import collections
import math
import re
import string
from typing import Any

import numpy
import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence

from tools.bench.script_way import STEPS, Trained, Way, state_of


class CaptionModel(nn.Module):
    """An image, a text, or both become one vector."""

    def __init__(self, words: int = 50, width: int = 32) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 8, stride=8)
        self.words, self.kinds = nn.Embedding(words, width, padding_idx=0), nn.Embedding(2, width)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True)
        self.encoder, self.head = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), nn.Linear(width, 3)

    def forward(self, image: torch.Tensor | None = None, text: torch.Tensor | None = None) -> dict[str, torch.Tensor]:
        parts, masks = [], []
        if image is not None:
            seen = self.patches(image).flatten(2).transpose(1, 2)
            parts.append(seen + self.kinds.weight[0])
            masks.append(torch.zeros(seen.shape[:2], dtype=torch.bool))
        if text is not None:
            parts.append(self.words(text) + self.kinds.weight[1])
            masks.append(text == 0)
        if not parts:
            raise ValueError("neither an image nor a text")
        mask = torch.cat(masks, dim=1)
        hidden = self.encoder(torch.cat(parts, dim=1), src_key_padding_mask=mask)
        pooled = hidden.masked_fill(mask.unsqueeze(-1), 0.0).sum(1) / (~mask).sum(1, keepdim=True)
        return {"logits": self.head(pooled), "pooled": F.normalize(pooled, dim=-1)}


def multimodal(way: Way) -> Trained:
    """Batches with images, with texts or with both; texts are padded to the longest of the batch."""
    raw = CaptionModel()
    optimizer = torch.optim.AdamW(raw.parameters(), lr=1e-3)
    model, random = way.model(raw), numpy.random.default_rng(0)

    def batch(index: int) -> dict[str, torch.Tensor]:
        found = {}
        if index % 3 != 1:
            found["image"] = torch.randn(4, 3, 16, 16)
        if index % 3 != 2:
            found["text"] = pad_sequence([torch.randint(1, 50, (int(n),)) for n in random.integers(3, 9, 4)], batch_first=True)
        return found

    @way.step
    def train_step(inputs: dict[str, torch.Tensor], labels: torch.Tensor) -> dict[str, float]:
        optimizer.zero_grad()
        output = model(**inputs)
        loss = F.cross_entropy(output["logits"], labels)
        if "image" in inputs and "text" in inputs:
            loss = loss + 0.1 * (output["pooled"] @ output["pooled"].T).logsumexp(-1).mean()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(raw.parameters(), 1.0)
        optimizer.step()
        return {"loss": loss.item(), "norm": norm.item(), "accuracy": (output["logits"].argmax(-1) == labels).float().mean().item()}

    return Trained([train_step(batch(step), torch.randint(0, 3, (4,))) for step in range(2 * STEPS)], state_of(raw, optimizer))


class Experts(nn.Module):
    """Each token goes to the two experts that the router likes best."""

    def __init__(self, width: int = 16, count: int = 4, best: int = 2) -> None:
        super().__init__()
        self.router, self.best = nn.Linear(width, count, bias=False), best
        self.experts = nn.ModuleList([nn.Sequential(nn.Linear(width, 32), nn.SiLU(), nn.Linear(32, width)) for _ in range(count)])
        self.register_buffer("load", torch.zeros(count))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        flat = x.reshape(-1, x.shape[-1])
        chances = self.router(flat).softmax(-1)
        weights, chosen = chances.topk(self.best, dim=-1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(flat)
        for index, expert in enumerate(self.experts):
            rows, rank = torch.where(chosen == index)
            if rows.numel() == 0:
                continue
            out.index_add_(0, rows, expert(flat[rows]) * weights[rows, rank, None])
        share = F.one_hot(chosen, len(self.experts)).float().mean((0, 1))
        if self.training:
            self.load.mul_(0.9).add_(share.detach(), alpha=0.1)
        return x + out.view_as(x), (share * chances.mean(0)).sum() * len(self.experts)


def experts(way: Way) -> Trained:
    """A mixture of experts with a loss that balances them."""
    raw = nn.ModuleList([Experts(), Experts()])
    head = nn.Linear(16, 5)
    optimizer = torch.optim.Adam([*raw.parameters(), *head.parameters()], lr=1e-2)
    layers = [way.model(layer) for layer in raw]

    @way.step
    def train_step(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        balance = torch.zeros(())
        for layer in layers:
            x, extra = layer(x)
            balance = balance + extra
        loss = F.cross_entropy(head(x).flatten(0, 1), y.flatten())
        (loss + 0.01 * balance).backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.detach(), balance.detach()

    losses = [train_step(torch.randn(3, 7, 16), torch.randint(0, 5, (3, 7))) for _ in range(STEPS)]
    return Trained(losses, state_of(raw, head, optimizer))


class Stream(nn.Module):
    """A causal convolution and a GRU that go on where the last chunk of sound has ended."""

    def __init__(self, bands: int = 8, width: int = 16, labels: int = 6) -> None:
        super().__init__()
        self.convolution, self.left = nn.Conv1d(bands, width, 5), 4
        self.gru, self.head = nn.GRU(width, width, batch_first=True), nn.Linear(width, labels)

    def forward(self, chunk: torch.Tensor, cache: dict[str, Any]) -> torch.Tensor:
        past = cache.get("past")
        if past is None:
            past = chunk.new_zeros(chunk.shape[0], chunk.shape[1], self.left)
        joined = torch.cat([past, chunk], dim=-1)
        cache["past"] = joined[..., -self.left :].detach()
        hidden, state = self.gru(F.relu(self.convolution(joined)).transpose(1, 2), cache.get("state"))
        cache["state"] = state.detach()
        cache["frames"] = cache.get("frames", 0) + chunk.shape[-1]
        return self.head(hidden).log_softmax(-1)


def speech(way: Way) -> Trained:
    """Utterances that arrive in chunks of different lengths, with truncated backpropagation; then a greedy CTC decoding of a stream."""
    raw = Stream()
    optimizer = torch.optim.SGD(raw.parameters(), lr=0.05, momentum=0.9)
    model, losses = way.model(raw), []

    @way.step
    def train_chunk(chunk: torch.Tensor, cache: dict[str, Any], labels: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        scores = model(chunk, cache)
        loss = F.nll_loss(scores.flatten(0, 1), labels.flatten())
        loss.backward()
        optimizer.step()
        return loss.detach()

    @way.step
    @torch.no_grad()
    def decode(chunks: list[torch.Tensor], blank: int = 0) -> list[int]:
        cache: dict[str, Any] = {}
        found, last = [], blank
        for chunk in chunks:
            for label in model(chunk, cache).argmax(-1)[0].tolist():
                if label not in (last, blank):
                    found.append(label)
                last = label
        return found

    for _ in range(3):
        cache: dict[str, Any] = {}
        for length in (12, 12, 7, 9):
            losses.append(train_chunk(torch.randn(2, 8, length), cache, torch.randint(0, 6, (2, length))).item())
        losses.append(cache["frames"])
    losses.append(decode([torch.randn(1, 8, length) for length in (6, 6, 5)]))
    return Trained(losses, state_of(raw, optimizer))


class Decoder(nn.Module):
    """A small causal decoder."""

    def __init__(self, words: int = 20, width: int = 16) -> None:
        super().__init__()
        self.words, self.gru, self.out = nn.Embedding(words, width), nn.GRU(width, width, batch_first=True), nn.Linear(width, words)

    def forward(self, ids: torch.Tensor, state: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        hidden, state = self.gru(self.words(ids), state)
        return self.out(hidden), state


def beams(way: Way) -> Trained:
    """A language model is trained by teacher forcing; then a beam search writes, with a penalty for length and a list of finished sentences."""
    raw = Decoder()
    optimizer = torch.optim.Adam(raw.parameters(), lr=1e-2)
    model, end = way.model(raw), 1

    @way.step
    def train_step(ids: torch.Tensor) -> torch.Tensor:
        logits, _ = model(ids[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten(), label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    @way.step
    @torch.no_grad()
    def expand(ids: torch.Tensor, scores: torch.Tensor, state: torch.Tensor | None, width: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        logits, state = model(ids if state is None else ids[:, -1:], state)
        total = scores[:, None] + logits[:, -1].log_softmax(-1)
        scores, flat = total.flatten().topk(width)
        rows, words = flat // total.shape[1], flat % total.shape[1]
        return torch.cat([ids[rows], words[:, None]], dim=1), scores, state[:, rows]

    def search(start: int, width: int = 3, longest: int = 8) -> list[tuple[float, list[int]]]:
        ids, scores, state, done = torch.tensor([[start]]), torch.zeros(1), None, []
        for _ in range(longest):
            ids, scores, state = expand(ids, scores, state, width)
            ended = ids[:, -1] == end
            for row in ended.nonzero().flatten().tolist():
                done.append((scores[row].item() / math.sqrt(ids.shape[1]), ids[row].tolist()))
            if ended.all():
                break
            ids, scores, state = ids[~ended], scores[~ended], state[:, ~ended]
        return sorted(done, reverse=True)

    losses: list[Any] = [train_step(torch.randint(0, 20, (4, 10))).item() for _ in range(STEPS)]
    return Trained([*losses, search(2), search(3)], state_of(raw, optimizer))


class Lattice(nn.Module):
    """A conditional random field over the labels of a sequence."""

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.steps, self.first, self.last = (nn.Parameter(torch.randn(*size) * 0.1) for size in ((labels, labels), (labels,), (labels,)))

    def forward(self, scores: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(len(labels))
        path, alpha = self.first[labels[:, 0]] + scores[rows, 0, labels[:, 0]], self.first + scores[:, 0]
        for t in range(1, scores.shape[1]):
            path = path + (self.steps[labels[:, t - 1], labels[:, t]] + scores[rows, t, labels[:, t]]) * mask[:, t]
            following = torch.logsumexp(alpha.unsqueeze(2) + self.steps + scores[:, t].unsqueeze(1), dim=1)
            alpha = torch.where(mask[:, t].unsqueeze(1), following, alpha)
        ends = mask.long().sum(1) - 1
        path = path + self.last[labels.gather(1, ends.unsqueeze(1)).squeeze(1)]
        return (torch.logsumexp(alpha + self.last, dim=1) - path).mean()

    @torch.no_grad()
    def decode(self, scores: torch.Tensor) -> list[list[int]]:
        best, back = self.first + scores[:, 0], []
        for t in range(1, scores.shape[1]):
            values, indices = (best.unsqueeze(2) + self.steps).max(dim=1)
            best = values + scores[:, t]
            back.append(indices)
        label = (best + self.last).argmax(-1)
        path = [label]
        for indices in reversed(back):
            label = indices.gather(1, label.unsqueeze(1)).squeeze(1)
            path.append(label)
        return torch.stack(path[::-1], dim=1).tolist()


def lattice(way: Way) -> Trained:
    """A tagger: an LSTM, a conditional random field, Viterbi's algorithm; the sentences of a batch have different lengths."""
    words, lstm, out, field = nn.Embedding(30, 12), nn.LSTM(12, 8, batch_first=True, bidirectional=True), nn.Linear(16, 4), Lattice(4)
    parts = nn.ModuleList([words, lstm, out, field])
    optimizer = torch.optim.Adam(parts.parameters(), lr=1e-2)
    scores_of = way.model(nn.Sequential(words, nn.Dropout(0.1)))

    @way.step
    def train_step(ids: torch.Tensor, labels: torch.Tensor, mask: torch.Tensor) -> float:
        optimizer.zero_grad()
        loss = field(out(lstm(scores_of(ids))[0]), labels, mask)
        loss.backward()
        optimizer.step()
        return loss.item()

    @way.step
    def tag(ids: torch.Tensor) -> list[list[int]]:
        return field.decode(out(lstm(words(ids))[0]))

    losses: list[Any] = []
    for step in range(STEPS):
        lengths = torch.randint(2, 7, (4,)) if step else torch.tensor([6, 3, 5, 2])
        lengths[0] = 6
        mask = torch.arange(6) < lengths[:, None]
        losses.append(train_step(torch.randint(0, 30, (4, 6)), torch.randint(0, 4, (4, 6)), mask))
    return Trained([*losses, tag(torch.randint(0, 30, (2, 6)))], state_of(parts, optimizer))


TEXTS = (
    "the cat sat on the mat", "a dog barks at the moon", "trees, birds & the wind", "the moon is full tonight!", "cats and dogs sleep", "where is the bird?",
    "wind moves trees", "a full moon, a cat", "dogs bark; cats don't", "the mat is wet", "sleep well", "birds sing in the trees at night",
)  # fmt: skip


class Tokeniser:
    """Words to numbers, most frequent first; rare and unknown words are spelt."""

    def __init__(self, texts: tuple[str, ...], least: int = 2) -> None:
        counts = collections.Counter(word for text in texts for word in self.split(text))
        common = [word for word, count in sorted(counts.items(), key=lambda pair: (-pair[1], pair[0])) if count >= least]
        self.ids = {word: index for index, word in enumerate(dict.fromkeys(["<pad>", "<end>", *common, *string.ascii_lowercase, "'"]))}

    @staticmethod
    def split(text: str) -> list[str]:
        return re.findall(r"[a-z']+", text.lower())

    def encode(self, text: str) -> list[int]:
        found = []
        for word in self.split(text):
            found += [self.ids[word]] if word in self.ids else [self.ids[letter] for letter in word if letter in self.ids]
        return [*found, self.ids["<end>"]]

    def __call__(self, texts: list[str], longest: int = 16) -> dict[str, torch.Tensor]:
        rows = [self.encode(text)[:longest] for text in texts]
        width = max(map(len, rows))
        ids = torch.tensor([row + [0] * (width - len(row)) for row in rows])
        return {"ids": ids, "mask": ids != 0}


def tokeniser(way: Way) -> Trained:
    """Sentences are tokenised, padded and classified inside the step."""
    tokenise = Tokeniser(TEXTS)
    raw = nn.ModuleDict({"words": nn.Embedding(len(tokenise.ids), 16), "attention": nn.Linear(16, 1), "head": nn.Linear(16, 2)})
    optimizer = torch.optim.AdamW(raw.parameters(), lr=1e-2)

    def classify(ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        vectors = raw["words"](ids)
        weights = raw["attention"](vectors).squeeze(-1).masked_fill(~mask, float("-inf")).softmax(-1)
        return raw["head"]((weights.unsqueeze(-1) * vectors).sum(1))

    model = way.model(classify)

    @way.step
    def train_step(texts: list[str], labels: list[int]) -> tuple[float, int]:
        batch = tokenise(texts)
        logits, target = model(**batch), torch.tensor(labels)
        loss = F.cross_entropy(logits, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item(), int((logits.argmax(-1) == target).sum())

    losses = []
    for _ in range(2):
        for start in range(0, len(TEXTS), 4):
            texts = list(TEXTS[start : start + 4])
            losses.append(train_step(texts, [int("cat" in text or "dog" in text) for text in texts]))
    return Trained(losses, state_of(raw, optimizer))


def curriculum(way: Way) -> Trained:
    """Sequences grow longer and batches smaller from stage to stage, and the learning rate follows."""
    raw = nn.Transformer(16, 2, 1, 1, 32, dropout=0.0, batch_first=True)
    words, head = nn.Embedding(24, 16), nn.Linear(16, 24)
    everything = nn.ModuleList([raw, words, head])
    optimizer = torch.optim.AdamW(everything.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 4) * 0.97**step)
    model, losses = way.model(raw), []

    @way.step
    def train_step(source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1] - 1)
        out = head(model(words(source), words(target[:, :-1]), tgt_mask=mask, tgt_is_causal=True))
        loss = F.cross_entropy(out.flatten(0, 1), target[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    for length, rows in ((4, 8), (6, 6), (8, 4), (12, 2)):
        for _ in range(3):
            source = torch.randint(0, 24, (rows, length))
            losses.append((train_step(source, source.flip(1)).item(), schedule.get_last_lr()[0]))
            schedule.step()
    return Trained(losses, state_of(everything, optimizer))


class Normalised(nn.Module):
    """Each series is normalised before the network and brought back after it."""

    def __init__(self, inner: nn.Module, series: int) -> None:
        super().__init__()
        self.inner, self.scale, self.shift = inner, nn.Parameter(torch.ones(series)), nn.Parameter(torch.zeros(series))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean, deviation = x.mean(1, keepdim=True).detach(), torch.sqrt(x.var(1, keepdim=True, unbiased=False) + 1e-5).detach()
        y = self.inner(((x - mean) / deviation * self.scale + self.shift).transpose(1, 2)).transpose(1, 2)
        return (y - self.shift) / (self.scale + 1e-10) * deviation + mean


def forecasting(way: Way) -> Trained:
    """Windows of several series, a loss by quantiles, a rate that falls on plateaus, early stopping and the best weights at the end."""
    data = numpy.sin(numpy.arange(120)[:, None] / numpy.array([3.0, 7.0, 11.0])) * 5 + numpy.random.randn(120, 3) * 0.1
    raw = Normalised(nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.Linear(32, 4)), 3)
    optimizer = torch.optim.Adam(raw.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.5, patience=0)
    model, best, patience, losses = way.model(raw), (math.inf, {}), 2, []

    def windows(start: int, end: int, stride: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = [data[i : i + 20] for i in range(start, end - 20, stride)]
        tensor = torch.from_numpy(numpy.stack(rows)).float()
        return tensor[:, :16], tensor[:, 16:]

    def pinball(found: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        error = wanted - found
        return torch.stack([torch.maximum(q * error, (q - 1) * error).mean() for q in (0.1, 0.5, 0.9)]).sum()

    @way.step
    def train_epoch(x: torch.Tensor, y: torch.Tensor) -> float:
        total = 0.0
        for rows in torch.randperm(len(x)).split(8):
            loss = pinball(model(x[rows]), y[rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() * len(rows)
        return total / len(x)

    for _ in range(6):
        train = train_epoch(*windows(0, 90, 2))
        with torch.no_grad():
            x, y = windows(80, 120, 4)
            valid = pinball(model(x), y).item()
        schedule.step(valid)
        losses.append((train, valid, optimizer.param_groups[0]["lr"]))
        if valid < best[0]:
            best, patience = (valid, {name: value.clone() for name, value in raw.state_dict().items()}), 2
        elif (patience := patience - 1) == 0:
            break
    raw.load_state_dict(best[1])
    return Trained(losses, state_of(raw, optimizer))

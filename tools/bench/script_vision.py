"""Training scripts on images that need torch alone, as their authors write them: diffusion, detection, distillation, features by hooks."""

from __future__ import annotations

import collections
import copy
import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tools.bench.script_way import STEPS, Trained, Way, state_of


class LoRALinear(nn.Module):
    """A frozen layer with a low-rank change."""

    def __init__(self, base: nn.Linear, rank: int = 2, alpha: float = 4.0) -> None:
        super().__init__()
        self.base, self.scaling, self.merged = base.requires_grad_(False), alpha / rank, False
        self.down, self.up = nn.Parameter(torch.randn(rank, base.in_features) / rank), nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.base(x)
        if self.merged:
            return out
        return out + F.linear(F.linear(x, self.down), self.up) * self.scaling

    def merge(self) -> None:
        self.base.weight.data += self.up.data @ self.down.data * self.scaling
        self.merged = True


class Denoiser(nn.Module):
    """A network that sees the noisy image, the time and the class, which may be left out."""

    def __init__(self, classes: int = 4, width: int = 16) -> None:
        super().__init__()
        self.width = width
        self.time = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width))
        self.kind = nn.Embedding(classes + 1, width)
        self.first, self.middle, self.last = nn.Conv2d(1, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, 1, 3, padding=1)
        self.norm = nn.GroupNorm(4, width)

    def forward(self, x: torch.Tensor, t: torch.Tensor, kind: torch.Tensor | None = None) -> torch.Tensor:
        half = self.width // 2
        angles = t[:, None].float() * torch.exp(-math.log(10000.0) * torch.arange(half) / half)
        if kind is None:
            kind = torch.full((x.shape[0],), self.kind.num_embeddings - 1)
        hint = self.time(torch.cat([angles.sin(), angles.cos()], dim=-1)) + self.kind(kind)
        h = F.silu(self.first(x))
        h = h + F.silu(self.norm(self.middle(h) + hint[:, :, None, None]))
        return self.last(h)


def diffusion(way: Way) -> Trained:
    """DDPM with classifier-free guidance, only adapters trained, a moving average of them, and DDIM sampling in the end."""
    raw = Denoiser()
    raw.requires_grad_(False)
    raw.time[0], raw.time[2] = LoRALinear(raw.time[0]), LoRALinear(raw.time[2])
    adapters = {name: p for name, p in raw.named_parameters() if p.requires_grad}
    optimizer, average = torch.optim.AdamW(adapters.values(), lr=1e-2), {name: p.detach().clone() for name, p in adapters.items()}
    kept = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 50), dim=0)
    model = way.model(raw)

    @way.step
    def train_step(images: torch.Tensor, labels: torch.Tensor) -> float:
        t, noise = torch.randint(0, 50, (len(images),)), torch.randn_like(images)
        scale = kept[t].view(-1, 1, 1, 1)
        dropped = torch.where(torch.rand(len(labels)) < 0.2, 4, labels)
        loss = F.mse_loss(model(scale.sqrt() * images + (1 - scale).sqrt() * noise, t, dropped), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for name, p in adapters.items():
                average[name].lerp_(p, 0.1)
        return loss.item()

    @way.step
    @torch.no_grad()
    def denoise(x: torch.Tensor, now: int, then: int, labels: torch.Tensor, guidance: float) -> torch.Tensor:
        t = torch.full((len(x),), now)
        noise = model(x, t, labels)
        if guidance != 1.0:
            free = model(x, t)
            noise = free + guidance * (noise - free)
        a, b = kept[now], kept[then] if then >= 0 else torch.tensor(1.0)
        clean = ((x - (1 - a).sqrt() * noise) / a.sqrt()).clamp(-1, 1)
        return b.sqrt() * clean + (1 - b).sqrt() * noise

    losses: list[Any] = [train_step(torch.randn(4, 1, 8, 8), torch.randint(0, 4, (4,))) for _ in range(STEPS)]
    for layer in (raw.time[0], raw.time[2]):
        layer.merge()
    times, x = list(range(49, -1, -10)), torch.randn(2, 1, 8, 8)
    for now, then in zip(times, [*times[1:], -1], strict=True):
        x = denoise(x, now, then, torch.tensor([0, 3]), 2.0)
    return Trained([*losses, x], [*state_of(raw, optimizer), average])


class Meter:
    """The mean of the last values, and of all."""

    def __init__(self, window: int = 4) -> None:
        self.last: collections.deque[float] = collections.deque(maxlen=window)
        self.total, self.count = 0.0, 0

    def update(self, value: float, n: int = 1) -> None:
        self.last.append(value)
        self.total += value * n
        self.count += n

    def __str__(self) -> str:
        return f"{sum(self.last) / len(self.last):.4f} ({self.total / self.count:.4f})"


class Average:
    """A moving average of a model's weights, whose decay warms up."""

    def __init__(self, model: nn.Module, decay: float = 0.99) -> None:
        self.model, self.decay, self.updates = copy.deepcopy(model).eval(), decay, 0
        for p in self.model.parameters():
            p.requires_grad_(False)

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        self.updates += 1
        decay = self.decay * (1 - math.exp(-self.updates / 10))
        state = model.state_dict()
        for name, value in self.model.state_dict().items():
            if value.dtype.is_floating_point:
                value.mul_(decay).add_(state[name].detach(), alpha=1 - decay)


def convolutional(width: int = 8, classes: int = 4) -> nn.Sequential:
    """A small network for images of three channels."""
    return nn.Sequential(
        nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, classes),
    )  # fmt: skip


def moving(way: Way) -> Trained:
    """A moving average whose decay warms up, meters, and a line of log every few steps."""
    raw, meters, lines = convolutional(), collections.defaultdict(Meter), []
    average, optimizer = Average(raw), torch.optim.SGD(raw.parameters(), lr=0.1, momentum=0.9, nesterov=True, weight_decay=1e-4)
    model = way.model(raw)

    @way.step
    def train_step(step: int, x: torch.Tensor, y: torch.Tensor) -> None:
        warm = min(1.0, (step + 1) / 5)
        for group in optimizer.param_groups:
            group["lr"] = 0.1 * warm
        out = model(x)
        loss = F.cross_entropy(out, y, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        average.update(raw)
        meters["loss"].update(loss.item(), len(x))
        for k in (1, 2):
            best = out.topk(k, dim=1).indices
            meters[f"top{k}"].update((best == y[:, None]).any(1).float().mean().item() * 100, len(x))
        if (step + 1) % 4 == 0:
            lines.append(f"step {step + 1}: " + ", ".join(f"{name} {meter}" for name, meter in meters.items()))

    model.train()
    for step in range(2 * STEPS):
        train_step(step, torch.randn(4, 3, 8, 8), torch.randint(0, 4, (4,)))
    return Trained(lines, state_of(raw, average.model, optimizer))


def overlaps(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Intersection over union of each pair of boxes."""
    low, high = torch.max(a[:, None, :2], b[None, :, :2]), torch.min(a[:, None, 2:], b[None, :, 2:])
    common = (high - low).clamp(min=0).prod(-1)
    area_a, area_b = ((boxes[:, 2:] - boxes[:, :2]).prod(-1) for boxes in (a, b))
    return common / (area_a[:, None] + area_b[None] - common + 1e-6)


def suppress(boxes: torch.Tensor, scores: torch.Tensor, limit: float = 0.5) -> torch.Tensor:
    """Boxes are kept in the order of their scores, unless they overlap one that is kept."""
    order, keep = scores.argsort(descending=True), []
    while order.numel() > 0:
        first = order[0]
        keep.append(first)
        if order.numel() == 1:
            break
        order = order[1:][overlaps(boxes[first][None], boxes[order[1:]])[0] <= limit]
    return torch.stack(keep) if keep else order


class Detector(nn.Module):
    """Each cell of a grid predicts a box, a score and a class; in evaluation, detections are a list with a dict for each image."""

    def __init__(self, classes: int = 3, cell: int = 4) -> None:
        super().__init__()
        self.cell = cell
        self.body = nn.Sequential(nn.Conv2d(3, 16, cell, stride=cell), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU())
        self.head = nn.Conv2d(16, 5 + classes, 1)

    def forward(self, images: torch.Tensor, targets: list[dict[str, torch.Tensor]] | None = None) -> Any:
        raw = self.head(self.body(images))
        height, width = raw.shape[-2:]
        ys, xs = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
        raw = raw.flatten(2).transpose(1, 2)
        centres = (torch.stack([xs, ys], dim=-1).reshape(-1, 2) + raw[..., :2].sigmoid()) * self.cell
        sizes = raw[..., 2:4].clamp(max=4).exp() * self.cell
        boxes, scores, kinds = torch.cat([centres - sizes / 2, centres + sizes / 2], dim=-1), raw[..., 4], raw[..., 5:]
        if self.training:
            assert targets is not None
            return self.losses(boxes, scores, kinds, targets)
        return [self.detect(*of_image) for of_image in zip(boxes, scores.sigmoid(), kinds, strict=True)]

    def losses(self, boxes: torch.Tensor, scores: torch.Tensor, kinds: torch.Tensor, targets: list[dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        found: dict[str, list[torch.Tensor]] = {"box": [], "score": [], "kind": []}
        for b, s, k, target in zip(boxes, scores, kinds, targets, strict=True):
            if len(target["boxes"]) == 0:
                found["score"].append(F.binary_cross_entropy_with_logits(s, torch.zeros_like(s)))
                continue
            best = overlaps(b.detach(), target["boxes"]).argmax(0)
            truth = torch.zeros_like(s)
            truth[best] = 1.0
            found["score"].append(F.binary_cross_entropy_with_logits(s, truth))
            found["box"].append(F.smooth_l1_loss(b[best], target["boxes"]))
            found["kind"].append(F.cross_entropy(k[best], target["labels"]))
        return {name: torch.stack(losses).mean() for name, losses in found.items() if losses}

    def detect(self, boxes: torch.Tensor, scores: torch.Tensor, kinds: torch.Tensor) -> dict[str, torch.Tensor]:
        likely = scores > 0.4
        boxes, scores, labels = boxes[likely], scores[likely], kinds[likely].argmax(-1)
        keep = suppress(boxes, scores)[:5]
        return {"boxes": boxes[keep], "scores": scores[keep], "labels": labels[keep]}


def detection(way: Way) -> Trained:
    """Images with different numbers of boxes, then detections with non-maximum suppression."""
    raw = Detector()
    optimizer, model = torch.optim.SGD(raw.parameters(), lr=0.01, momentum=0.9), way.model(raw)

    def target(count: int) -> dict[str, torch.Tensor]:
        corner = torch.rand(count, 2) * 10
        return {"boxes": torch.cat([corner, corner + 2 + torch.rand(count, 2) * 4], dim=1), "labels": torch.randint(0, 3, (count,))}

    @way.step
    def train_step(images: torch.Tensor, targets: list[dict[str, torch.Tensor]]) -> dict[str, float]:
        losses = model(images, targets)
        total = sum(losses.values())
        optimizer.zero_grad()
        total.backward()
        optimizer.step()
        return {name: value.item() for name, value in losses.items()}

    losses: list[Any] = []
    for step in range(STEPS):
        losses.append(train_step(torch.randn(2, 3, 16, 16), [target(1 + step % 3), target((step + 2) % 4)]))
    raw.eval()

    @way.step
    @torch.no_grad()
    def evaluate(images: torch.Tensor) -> Any:
        return model(images)

    for _ in range(3):
        losses.append([{name: value.tolist() for name, value in of_image.items()} for of_image in evaluate(torch.randn(2, 3, 16, 16))])
    return Trained(losses, state_of(raw, optimizer))


def augment(images: torch.Tensor) -> torch.Tensor:
    """Flips, crops, brightness, noise: for the whole batch at once or for each image."""
    flip = torch.rand(len(images)) < 0.5
    images = torch.where(flip[:, None, None, None], images.flip(-1), images)
    padded, moved = F.pad(images, (1, 1, 1, 1), mode="reflect"), torch.randint(0, 3, (2,))
    top, left = int(moved[0]), int(moved[1])
    images = padded[..., top : top + images.shape[-2], left : left + images.shape[-1]]
    return images * (1 + 0.2 * torch.randn(len(images), 1, 1, 1)) + 0.05 * torch.randn_like(images)


def contrastive(way: Way) -> Trained:
    """SimCLR: two views of each image, the NT-Xent loss, a temperature that is learnt, and a nearest-neighbour score."""
    raw = convolutional()
    raw[-1] = nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 8))
    temperature = nn.Parameter(torch.tensor(math.log(1 / 0.1)))
    optimizer = torch.optim.AdamW([{"params": raw.parameters()}, {"params": [temperature], "weight_decay": 0.0}], lr=1e-3)
    model = way.model(raw)

    @way.step
    def train_step(images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        views = torch.cat([augment(images), augment(images)])
        z = F.normalize(model(views), dim=1)
        likeness = z @ z.T * temperature.exp()
        likeness = likeness.masked_fill(torch.eye(len(views), dtype=torch.bool), float("-inf"))
        n = len(images)
        positives = torch.arange(2 * n).roll(n)
        loss = F.cross_entropy(likeness, positives)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            temperature.clamp_(0, math.log(100))
        return loss.detach(), (likeness.argmax(1) == positives).float().mean()

    losses: list[Any] = [train_step(torch.randn(4, 3, 8, 8)) for _ in range(STEPS)]
    raw.eval()
    with torch.no_grad():
        bank, labels = F.normalize(model(torch.randn(12, 3, 8, 8)), dim=1), torch.arange(12) % 3
        losses.append(labels[(bank @ bank.T).topk(4).indices[:, 1:]].mode(1).values.tolist())
    return Trained(losses, [*state_of(raw, optimizer), temperature.detach().clone()])


def distillation(way: Way) -> Trained:
    """A teacher that is frozen, a student that learns its logits and its features, which a hook catches."""
    teacher, student = convolutional(12).eval().requires_grad_(False), convolutional(6)
    bridge, features = nn.Conv2d(12, 24, 1), {}
    for name, net in (("teacher", teacher), ("student", student)):
        net[5].register_forward_hook(lambda module, inputs, output, name=name: features.__setitem__(name, output))
    optimizer = torch.optim.Adam([*student.parameters(), *bridge.parameters()], lr=1e-2)
    guide, model = way.model(teacher), way.model(student)

    @way.step
    def train_step(x: torch.Tensor, y: torch.Tensor, heat: float) -> dict[str, float]:
        with torch.no_grad():
            wanted = guide(x)
        found = model(x)
        soft = F.kl_div((found / heat).log_softmax(-1), (wanted / heat).softmax(-1), reduction="batchmean") * heat**2
        losses = {"soft": soft, "hard": F.cross_entropy(found, y), "hint": F.mse_loss(bridge(features["student"]), features["teacher"])}
        loss = 0.7 * losses["soft"] + 0.3 * losses["hard"] + 0.1 * losses["hint"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return {name: value.item() for name, value in losses.items()}

    losses = [train_step(torch.randn(4, 3, 8, 8), torch.randint(0, 4, (4,)), 4.0 - 0.25 * step) for step in range(STEPS)]
    return Trained(losses, state_of(student, bridge, optimizer))


def accumulation(way: Way) -> Trained:
    """Automatic mixed precision, accumulation over micro-batches with a smaller rest, and skipped steps."""
    raw = convolutional()
    optimizer, scaler = torch.optim.AdamW(raw.parameters(), lr=1e-3), torch.amp.GradScaler("cpu", init_scale=256.0, growth_interval=3)
    model, every, losses = way.model(raw), 3, []
    loader = DataLoader(TensorDataset(torch.randn(30, 3, 8, 8), torch.randint(0, 4, (30,))), batch_size=4)

    @way.step
    def micro_step(x: torch.Tensor, y: torch.Tensor, index: int, last: bool) -> float:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = F.cross_entropy(model(x), y) / every
        scaler.scale(loss).backward()
        if (index + 1) % every == 0 or last:
            scaler.unscale_(optimizer)
            norm = nn.utils.clip_grad_norm_(raw.parameters(), max_norm=1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad(set_to_none=True)
            losses.append(norm.item())
        return loss.item() * every

    for _ in range(2):
        for index, (x, y) in enumerate(loader):
            losses.append(micro_step(x, y, index, index + 1 == len(loader)))
        losses.append(scaler.get_scale())
    return Trained(losses, state_of(raw, optimizer))


class Rounded(torch.autograd.Function):
    """Rounding to some bits, with a straight-through gradient and one for the step size."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, step: torch.Tensor, low: int, high: int) -> torch.Tensor:
        ctx.save_for_backward(x, step)
        ctx.low, ctx.high = low, high
        return (x / step).round().clamp(low, high) * step

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, step = ctx.saved_tensors
        q = x / step
        inside = (q >= ctx.low) & (q <= ctx.high)
        grad_step = None
        if ctx.needs_input_grad[1]:
            rest = torch.where(inside, q.round() - q, q.clamp(ctx.low, ctx.high))
            grad_step = (grad * rest).sum().view_as(step) / math.sqrt(x.numel() * ctx.high)
        return grad * inside, grad_step, None, None


class Quantised(nn.Linear):
    """A linear layer with rounded weights and inputs; the first batch sets the step sizes."""

    def __init__(self, inputs: int, outputs: int, bits: int = 4) -> None:
        super().__init__(inputs, outputs)
        self.high = 2 ** (bits - 1) - 1
        self.weight_step, self.input_step = nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(()))
        self.register_buffer("ready", torch.tensor(False))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not self.ready:
            with torch.no_grad():
                self.weight_step.copy_(2 * self.weight.abs().mean() / math.sqrt(self.high))
                self.input_step.copy_(2 * x.abs().mean() / math.sqrt(self.high))
                self.ready.fill_(True)
        weight = Rounded.apply(self.weight, self.weight_step, -self.high - 1, self.high)
        return F.linear(Rounded.apply(x, self.input_step, -self.high - 1, self.high), weight, self.bias)


def quantisation(way: Way) -> Trained:
    """Training with rounded weights through a custom autograd.Function, with step sizes that are learnt."""
    raw = nn.Sequential(Quantised(8, 16), nn.ReLU(), Quantised(16, 4))
    optimizer = torch.optim.SGD(raw.parameters(), lr=0.05)
    model = way.model(raw)

    @way.step
    def train_step(x: torch.Tensor, y: torch.Tensor) -> float:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.item()

    return Trained([train_step(torch.randn(4, 8), torch.randint(0, 4, (4,))) for _ in range(STEPS)], state_of(raw, optimizer))


class Features:
    """Collects the results of chosen layers of a network by hooks."""

    def __init__(self, net: nn.Module, layers: list[str]) -> None:
        self.found: dict[str, torch.Tensor] = {}
        modules = dict(net.named_modules())
        self.handles = [modules[name].register_forward_hook(self.catch(name)) for name in layers]

    def catch(self, name: str) -> Any:
        def hook(module: nn.Module, inputs: Any, output: torch.Tensor) -> None:
            self.found[name] = output

        return hook

    def close(self) -> None:
        for handle in self.handles:
            handle.remove()


def style(way: Way) -> Trained:
    """The pixels of an image are optimised until features of a frozen network fit those of two others."""
    net = convolutional().eval().requires_grad_(False)
    features, model = Features(net, ["1", "5"]), way.model(net)
    image = torch.rand(1, 3, 8, 8, requires_grad=True)
    optimizer = torch.optim.Adam([image], lr=0.05)

    def gram(x: torch.Tensor) -> torch.Tensor:
        flat = x.flatten(2)
        return flat @ flat.transpose(1, 2) / flat.shape[-1]

    with torch.no_grad():
        model(torch.rand(1, 3, 8, 8))
        wanted = {"content": features.found["5"].clone(), "style": {name: gram(value) for name, value in features.found.items()}}

    @way.step
    def train_step() -> tuple[float, float]:
        optimizer.zero_grad()
        model(image)
        content = F.mse_loss(features.found["5"], wanted["content"])
        styles = sum(F.mse_loss(gram(value), wanted["style"][name]) for name, value in features.found.items())
        smooth = image.diff(dim=-1).abs().mean() + image.diff(dim=-2).abs().mean()
        (content + 10 * styles + 0.01 * smooth).backward()
        optimizer.step()
        with torch.no_grad():
            image.clamp_(0, 1)
        return content.item(), float(styles)

    losses = [train_step() for _ in range(STEPS)]
    features.close()
    return Trained([*losses, len(net[1]._forward_hooks)], [*state_of(optimizer), image.detach().clone()])


def folds(way: Way) -> Trained:
    """Cross-validation over a small grid of hyperparameters: a new model and optimizer for each fold."""
    x, y = torch.randn(24, 3, 8, 8), torch.randint(0, 4, (24,))
    losses, states = [], []

    @way.step
    def train_epoch(model: Any, optimizer: torch.optim.Optimizer, rows: torch.Tensor) -> float:
        total = 0.0
        for part in rows.split(8):
            loss = F.cross_entropy(model(x[part]), y[part])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item()
        return total

    @way.step
    def score(model: Any, rows: torch.Tensor) -> float:
        with torch.inference_mode():
            return (model(x[rows]).argmax(-1) == y[rows]).float().mean().item()

    for rate in (0.1, 0.01):
        for fold in torch.arange(24).chunk(3):
            rest = torch.tensor([row for row in range(24) if row not in fold.tolist()])
            raw = convolutional()
            model, optimizer = way.model(raw), torch.optim.SGD(raw.parameters(), lr=rate)
            raw.train()
            train = [train_epoch(model, optimizer, rest) for _ in range(2)]
            raw.eval()
            losses.append((train, score(model, fold)))
            states += state_of(raw)
    return Trained(losses, states)

"""Training scripts as their authors write them: loops and trainers of the packages that people train with, on tiny models with random weights.

Each script is a function that trains and returns the outcome; it asks its `Way` (script_way.py) which part is to be compiled.
"""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import math
import random
import tempfile
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import lr_scheduler, swa_utils
from torch.utils.data import DataLoader, Dataset, TensorDataset

from tools.bench import script_agents, script_sequences, script_vision
from tools.bench.script_way import STEPS, VOCABULARY, Trained, Way, state_of
from tools.libraries import timm, transformers

TINY: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "max_position_embeddings": 32,
}  # fmt: skip


def tokens(count: int) -> torch.Tensor:
    return torch.randint(0, VOCABULARY, (count, 16))


def llama() -> Any:
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**TINY, num_key_value_heads=2, use_cache=False))


def classifier() -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 4))


def examples(count: int = 4 * STEPS, batch: int = 4, shuffle: bool = True) -> DataLoader[Any]:
    """Batches for `classifier`."""
    return DataLoader(TensorDataset(torch.randn(count, 8), torch.randint(0, 4, (count,))), batch_size=batch, shuffle=shuffle)


class Block(nn.Module):
    """A block of a GPT."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(width, bias=False), nn.LayerNorm(width, bias=False)
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width, bias=False), nn.Linear(width, width, bias=False)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width, bias=False), nn.GELU(), nn.Linear(4 * width, width, bias=False), nn.Dropout(dropout))
        self.heads, self.width, self.dropout = heads, width, dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.size()
        parts = self.c_attn(self.ln_1(x)).split(self.width, dim=2)
        q, k, v = (part.view(rows, length, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0, is_causal=True)
        x = x + F.dropout(self.c_proj(y.transpose(1, 2).contiguous().view(rows, length, width)), self.dropout, self.training)
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    """A GPT with tied weights, after nanoGPT."""

    def __init__(self, block_size: int = 16, width: int = 32) -> None:
        super().__init__()
        self.block_size = block_size
        self.wte, self.wpe = nn.Embedding(VOCABULARY, width), nn.Embedding(block_size, width)
        self.h = nn.ModuleList([Block(width, 2, 0.1) for _ in range(2)])
        self.ln_f, self.lm_head = nn.LayerNorm(width, bias=False), nn.Linear(width, VOCABULARY, bias=False)
        self.wte.weight = self.lm_head.weight

    def forward(self, ids: torch.Tensor, targets: torch.Tensor | None = None) -> tuple[torch.Tensor, torch.Tensor | None]:
        length = ids.size(1)
        assert length <= self.block_size, f"cannot forward a sequence of length {length}, block size is only {self.block_size}"
        x = F.dropout(self.wte(ids) + self.wpe(torch.arange(0, length, device=ids.device)), 0.1, self.training)
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        if targets is None:
            return logits[:, [-1], :], None
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)


def nanogpt(way: Way) -> Trained:
    """AdamW with two groups of parameters, autocast, accumulation, a cosine schedule by hand, an evaluation now and then."""
    raw = GPT()
    wide, flat = [p for p in raw.parameters() if p.dim() >= 2], [p for p in raw.parameters() if p.dim() < 2]
    groups = [{"params": wide, "weight_decay": 0.1}, {"params": flat, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-3, betas=(0.9, 0.95))
    scaler, context = torch.amp.GradScaler("cpu", enabled=False), torch.autocast("cpu", dtype=torch.bfloat16)
    model, data, accumulation = way.model(raw), torch.randint(0, VOCABULARY, (1000,)), 2

    def get_batch() -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.randint(len(data) - 16, (4,))
        return torch.stack([data[i : i + 16] for i in places]), torch.stack([data[i + 1 : i + 17] for i in places])

    def learning_rate(step: int) -> float:
        return 1e-3 * (step + 1) / 4 if step < 3 else 1e-4 + 0.5 * (1.0 + math.cos(math.pi * (step - 3) / STEPS)) * 9e-4

    @torch.no_grad()
    def estimate_loss() -> float:
        model.eval()
        losses = torch.zeros(2)
        for k in range(2):
            x, y = get_batch()
            with context:
                _, loss = model(x, y)
            losses[k] = loss.item()
        model.train()
        return float(losses.mean())

    @way.step
    def train_step(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        for _ in range(accumulation):
            with context:
                _, loss = model(x, y)
                loss = loss / accumulation
            x, y = get_batch()
            scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(raw.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
        return x, y, loss

    losses: list[Any] = []
    x, y = get_batch()
    for step in range(STEPS):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step)
        if step % 4 == 0:
            losses.append(estimate_loss())
        x, y, loss = train_step(x, y)
        losses.append(loss.item() * accumulation)
    return Trained(losses, state_of(raw, optimizer))


def peft(way: Way) -> Trained:
    """LoRA on a small Llama, with a cosine schedule of transformers'."""
    import peft

    config = peft.LoraConfig(r=4, lora_alpha=8, lora_dropout=0.1, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    raw = peft.get_peft_model(llama(), config)
    optimizer = torch.optim.AdamW([p for p in raw.parameters() if p.requires_grad], lr=1e-3)
    schedule = transformers.get_cosine_schedule_with_warmup(optimizer, 2, STEPS)
    model = way.model(raw)
    model.train()

    @way.step
    def train_step(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        return loss.detach()

    losses = []
    for (ids,) in DataLoader(TensorDataset(tokens(4 * STEPS)), batch_size=4, shuffle=True):
        losses.append(train_step({"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}).item())
    return Trained(losses, state_of(raw, optimizer))


def accelerate(way: Way) -> Trained:
    """A loop with everything prepared: bfloat16, accumulation, clipping, a schedule."""
    import accelerate

    accelerate.state.AcceleratorState._reset_state(True)
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2, mixed_precision="bf16")
    raw = transformers.BertForSequenceClassification(transformers.BertConfig(**TINY, num_labels=3))
    optimizer = torch.optim.AdamW(raw.parameters(), lr=1e-3)
    loader = DataLoader(TensorDataset(tokens(8 * STEPS), torch.randint(0, 3, (8 * STEPS,))), batch_size=4, shuffle=True)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, 2, STEPS)
    model, optimizer, loader, schedule = accelerator.prepare(way.model(raw), optimizer, loader, schedule)

    @way.step
    def train_step(ids: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        with accelerator.accumulate(model):
            loss = model(input_ids=ids, attention_mask=torch.ones_like(ids), labels=labels).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        return loss.detach()

    model.train()
    return Trained([train_step(ids, labels).item() for ids, labels in loader], state_of(raw, optimizer.optimizer))


class Sentences(Dataset[Any]):
    """The data that a language model is trained on."""

    def __init__(self, count: int) -> None:
        self.ids = tokens(count)

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        return {"input_ids": self.ids[index], "labels": self.ids[index]}


def trainer(way: Way) -> Trained:
    """20 steps of transformers.Trainer; the step is its training_step."""
    losses: list[Any] = []

    class Log(transformers.TrainerCallback):  # type: ignore[misc, name-defined]
        def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, float], **others: Any) -> None:
            if "loss" in logs:
                losses.append([float(logs[name]) for name in ("loss", "grad_norm", "learning_rate")])

    raw = llama()
    with tempfile.TemporaryDirectory() as folder:
        arguments = transformers.TrainingArguments(
            output_dir=folder, max_steps=20, per_device_train_batch_size=4, learning_rate=1e-3, logging_steps=1, report_to=[], use_cpu=True,
            save_strategy="no", disable_tqdm=True, warmup_steps=3, lr_scheduler_type="cosine",
        )  # fmt: skip
        run = transformers.Trainer(model=way.model(raw), args=arguments, train_dataset=Sentences(80), callbacks=[Log()])
        run.remove_callback(transformers.PrinterCallback)
        run.training_step = way.step(run.training_step)
        run.train()
    return Trained(losses, state_of(raw, run.optimizer.optimizer))


def image_training(way: Way) -> Trained:
    """timm: mixup and cutmix, a moving average of the weights whose decay warms up, clipping, a schedule by step."""
    from timm.data import Mixup
    from timm.loss import SoftTargetCrossEntropy
    from timm.optim import create_optimizer_v2
    from timm.scheduler import CosineLRScheduler
    from timm.utils import AverageMeter, ModelEmaV3, dispatch_clip_grad

    raw = timm.create_model("test_resnet", num_classes=10)
    optimizer = create_optimizer_v2(raw, opt="adamw", lr=1e-3, weight_decay=0.05)
    average = ModelEmaV3(raw, decay=0.9, use_warmup=True)
    mixup = Mixup(mixup_alpha=0.8, cutmix_alpha=1.0, label_smoothing=0.1, num_classes=10)
    schedule = CosineLRScheduler(optimizer, t_initial=STEPS, warmup_t=2, warmup_lr_init=1e-5, t_in_epochs=False)
    model, loss_of, meter = way.model(raw), SoftTargetCrossEntropy(), AverageMeter()

    @way.step
    def train_step(x: torch.Tensor, y: torch.Tensor, step: int) -> torch.Tensor:
        x, y = mixup(x, y)
        loss = loss_of(model(x), y)
        loss.backward()
        dispatch_clip_grad(raw.parameters(), 1.0, mode="norm")
        optimizer.step()
        optimizer.zero_grad()
        average.update(raw, step=step)
        return loss.detach()

    model.train()
    losses: list[Any] = []
    for step in range(STEPS):
        loss = train_step(torch.randn(4, 3, 32, 32), torch.randint(0, 10, (4,)), step)
        meter.update(loss.item(), 4)
        schedule.step_update(step)
        losses.append((loss.item(), meter.avg))
    return Trained(losses, state_of(raw, average.module, optimizer))


def lightning(way: Way) -> Trained:
    """Lightning's Trainer with a metric of torchmetrics, clipping, accumulation and a validation; the step is training_step."""
    import lightning
    import torchmetrics

    losses: list[Any] = []

    class Module(lightning.LightningModule):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.net, self.accuracy = classifier(), torchmetrics.Accuracy(task="multiclass", num_classes=4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.net(x)

        def training_step(self, batch: Any, index: int) -> torch.Tensor:
            x, y = batch
            out = self(x)
            loss = F.cross_entropy(out, y)
            self.accuracy(out, y)
            self.log("loss", loss, prog_bar=True)
            self.log("accuracy", self.accuracy, on_step=True, on_epoch=True)
            return loss

        def validation_step(self, batch: Any, index: int) -> None:
            x, y = batch
            self.log("validation", F.cross_entropy(self(x), y))

        def on_train_batch_end(self, outputs: Any, batch: Any, index: int) -> None:
            losses.append((float(outputs["loss"]), float(self.trainer.callback_metrics["accuracy_step"])))

        def configure_optimizers(self) -> Any:
            optimizer = torch.optim.AdamW(self.parameters(), lr=1e-2)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": lr_scheduler.CosineAnnealingLR(optimizer, 10), "interval": "step"}}

    for name in ("lightning", "lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)
    raw = Module()
    raw.training_step = way.step(raw.training_step)  # type: ignore[method-assign]
    run = lightning.Trainer(
        accelerator="cpu", max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        gradient_clip_val=1.0, accumulate_grad_batches=2,
    )  # fmt: skip
    run.fit(way.model(raw), examples(), examples(8, shuffle=False))
    return Trained([*losses, float(run.callback_metrics["validation"])], state_of(raw, run.optimizers[0]))


def diffusers(way: Way) -> Trained:
    """A step of a UNet that learns to predict noise, with a moving average of the weights."""
    import diffusers
    from diffusers.training_utils import EMAModel

    raw = diffusers.UNet2DModel(
        sample_size=16, layers_per_block=1, block_out_channels=(16, 32), norm_num_groups=4,
        down_block_types=("DownBlock2D", "AttnDownBlock2D"), up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    )  # fmt: skip
    noise_schedule = diffusers.DDPMScheduler(num_train_timesteps=100)
    optimizer = torch.optim.AdamW(raw.parameters(), lr=1e-3)
    schedule, average = diffusers.optimization.get_cosine_schedule_with_warmup(optimizer, 2, STEPS), EMAModel(raw.parameters(), decay=0.9)
    model = way.model(raw)
    model.train()

    @way.step
    def train_step(images: torch.Tensor) -> torch.Tensor:
        noise = torch.randn(images.shape)
        times = torch.randint(0, noise_schedule.config.num_train_timesteps, (images.shape[0],), dtype=torch.int64)
        found = model(noise_schedule.add_noise(images, noise, times), times, return_dict=False)[0]
        loss = F.mse_loss(found, noise)
        loss.backward()
        nn.utils.clip_grad_norm_(raw.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        average.step(raw.parameters())
        return loss.detach()

    losses = [train_step(torch.randn(2, 3, 16, 16)).item() for _ in range(STEPS)]
    return Trained(losses, [*state_of(raw, optimizer), [p.clone() for p in average.shadow_params]])


def torchmetrics(way: Way) -> Trained:
    """Metrics of each batch and of the epoch, updated in the step."""
    import torchmetrics

    sort: dict[str, Any] = {"task": "multiclass", "num_classes": 4}
    metrics = torchmetrics.MetricCollection([torchmetrics.Accuracy(**sort), torchmetrics.F1Score(**sort, average="macro"), torchmetrics.AUROC(**sort)])
    raw, mean = classifier(), torchmetrics.MeanMetric()
    optimizer = torch.optim.SGD(raw.parameters(), lr=0.1, momentum=0.9)
    model = way.model(raw)

    @way.step
    def train_step(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        optimizer.step()
        mean.update(loss.detach())
        return loss.detach(), metrics(out.softmax(-1), y)

    losses: list[Any] = []
    for _ in range(2):
        losses += [train_step(x, y) for x, y in examples()]
        losses.append((metrics.compute(), mean.compute()))
        metrics.reset()
        mean.reset()
    return Trained(losses, state_of(raw, optimizer))


def scaler(way: Way) -> Trained:
    """GradScaler in float16, with an infinite input now and then, and clipping by value."""
    raw = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer, scaler = torch.optim.Adam(raw.parameters(), lr=1e-2), torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2)
    model = way.model(raw)

    @way.step
    def train_step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_value_(raw.parameters(), 0.5)
        scaler.step(optimizer)
        scaler.update()
        return loss.detach()

    losses: list[Any] = []
    for step in range(2 * STEPS):
        x = torch.randn(4, 8)
        x[0, 0] = math.inf if step % 5 == 3 else x[0, 0]
        losses.append((repr(train_step(x, torch.randint(0, 4, (4,))).isfinite()), scaler.get_scale()))
    return Trained(losses, [*state_of(raw, optimizer), scaler.state_dict()])


def averaging(way: Way) -> Trained:
    """torch.optim.swa_utils: two averaged models, SWALR after a cosine schedule, two groups of parameters, update_bn."""
    raw = classifier()
    groups = [{"params": raw[0].parameters(), "lr": 0.05}, {"params": [*raw[1].parameters(), *raw[4].parameters()]}]
    optimizer = torch.optim.SGD(groups, lr=0.1, momentum=0.9)
    mean, moving = swa_utils.AveragedModel(raw), swa_utils.AveragedModel(raw, multi_avg_fn=swa_utils.get_ema_multi_avg_fn(0.9))
    schedule, last = lr_scheduler.CosineAnnealingLR(optimizer, 4), swa_utils.SWALR(optimizer, swa_lr=0.05, anneal_epochs=3)
    model, loader = way.model(raw), examples()

    @way.step
    def train_step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(raw.parameters(), 1.0)
        optimizer.step()
        moving.update_parameters(raw)
        return loss.detach()

    losses = []
    for epoch in range(4):
        losses += [train_step(x, y).item() for x, y in loader]
        if epoch > 1:
            mean.update_parameters(raw)
        (last if epoch > 1 else schedule).step()
    swa_utils.update_bn(loader, mean)
    return Trained(losses, state_of(raw, mean, moving, optimizer))


def epochs(way: Way) -> Trained:
    """Functions for a whole epoch, with the loop over the DataLoader inside; a checkpoint is loaded between two epochs."""
    raw = classifier()
    optimizer = torch.optim.AdamW(raw.parameters(), lr=1e-2)
    schedule = lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=100)
    model = way.model(raw)

    @way.step
    def train_epoch(loader: DataLoader[Any]) -> float:
        model.train()
        total = 0.0
        for x, y in loader:
            optimizer.zero_grad(set_to_none=True)
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            schedule.step()
            total += loss.item()
        return total / len(loader)

    @way.step
    def evaluate(loader: DataLoader[Any]) -> float:
        model.eval()
        right = 0
        with torch.no_grad():
            for x, y in loader:
                right += (model(x).argmax(1) == y).sum().item()
        return right / len(loader.dataset)  # type: ignore[arg-type]

    losses, train, valid = [], examples(30), examples(16, batch=8, shuffle=False)
    checkpoint = [{name: value.clone() for name, value in raw.state_dict().items()}, optimizer.state_dict()]
    for epoch in range(4):
        losses.append((train_epoch(train), evaluate(valid)))
        if epoch == 2:
            raw.load_state_dict(checkpoint[0])
            optimizer.load_state_dict(checkpoint[1])
    return Trained(losses, state_of(raw, optimizer))


@dataclass(frozen=True)
class Script:
    """A script, and the packages that it needs beside torch, transformers and timm."""

    train: Callable[[Way], Trained]
    packages: Sequence[str] = ()

    def missing(self) -> list[str]:
        """The packages that aren't installed."""
        return [name for name in self.packages if importlib.util.find_spec(name) is None]

    def run(self, way: Way) -> Trained:
        """Train from the same weights, data and random streams each time. The last loss shows the state of the random streams then."""
        torch.manual_seed(0)
        numpy.random.seed(0)
        random.seed(0)
        with contextlib.redirect_stdout(None), contextlib.redirect_stderr(None):
            trained = self.train(way)
        trained.losses.append((float(torch.rand(())), float(numpy.random.rand()), random.random()))
        return trained


SCRIPTS: dict[str, Script] = {
    "nanogpt": Script(nanogpt),
    "peft": Script(peft, ("peft",)),
    "accelerate": Script(accelerate, ("accelerate",)),
    "trainer": Script(trainer, ("accelerate",)),
    "timm": Script(image_training),
    "lightning": Script(lightning, ("lightning", "torchmetrics")),
    "diffusers": Script(diffusers, ("diffusers",)),
    "torchmetrics": Script(torchmetrics, ("torchmetrics",)),
    "scaler": Script(scaler),
    "averaging": Script(averaging),
    "epochs": Script(epochs),
    "multimodal": Script(script_sequences.multimodal),
    "experts": Script(script_sequences.experts),
    "speech": Script(script_sequences.speech),
    "beams": Script(script_sequences.beams),
    "lattice": Script(script_sequences.lattice),
    "tokeniser": Script(script_sequences.tokeniser),
    "curriculum": Script(script_sequences.curriculum),
    "forecasting": Script(script_sequences.forecasting),
    "diffusion": Script(script_vision.diffusion),
    "moving": Script(script_vision.moving),
    "detection": Script(script_vision.detection),
    "contrastive": Script(script_vision.contrastive),
    "distillation": Script(script_vision.distillation),
    "accumulation": Script(script_vision.accumulation),
    "quantisation": Script(script_vision.quantisation),
    "style": Script(script_vision.style),
    "folds": Script(script_vision.folds),
    "messages": Script(script_agents.messages),
    "ppo": Script(script_agents.ppo),
    "replay": Script(script_agents.replay),
}


def select(only: str | None) -> Iterable[str]:
    """The names in a comma-separated list, or all. Raises ValueError."""
    names = [name.strip() for name in only.split(",")] if only else list(SCRIPTS)
    unknown = [name for name in names if name not in SCRIPTS]
    if unknown:
        raise ValueError(f"unknown script {', '.join(unknown)}; known: {', '.join(SCRIPTS)}")
    return names

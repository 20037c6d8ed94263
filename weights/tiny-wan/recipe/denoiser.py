"""Stage 2: train text encoder and denoiser together on latents of the finished autoencoder, small sizes first.

Rectified flow: x_s = (1-s) x + s n, the network predicts n - x at time 1000 s.
Run by train.py, alone or under torchrun.
"""
import contextlib
import dataclasses
import math
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from diffusers import WanTransformer3DModel
from transformers import UMT5Config, UMT5EncoderModel

import binding
import captions
import onepass
import world
from runtime import Average, Budget, Context, Muon, load, parser, save

LAST_LEVEL = .65             # the last three of the default's 12 steps begin below it
TEXT_ROWS = 512              # diffusers pads every prompt to so many rows, and attends to the padding


def new_denoiser(channels, layers=6, heads=6, head_dim=64, ffn=1152, text=256):
    m = WanTransformer3DModel(
        patch_size=(1, 2, 2), num_attention_heads=heads, attention_head_dim=head_dim, in_channels=channels,
        out_channels=channels, text_dim=text, freq_dim=256, ffn_dim=ffn, num_layers=layers, rope_max_seq_len=128)
    for name, p in m.named_parameters():
        if p.dim() == 2 and "table" not in name:
            nn.init.xavier_uniform_(p)
        if name.endswith("bias"):
            nn.init.zeros_(p)
    nn.init.zeros_(m.proj_out.weight)
    embedder = m.condition_embedder
    for p in (embedder.time_proj, embedder.time_embedder.linear_1, embedder.time_embedder.linear_2):
        nn.init.normal_(p.weight, std=.02)
    return m


def new_text_encoder(vocabulary, width=256, layers=2, ff=512):
    return UMT5EncoderModel(UMT5Config(
        vocab_size=vocabulary, d_model=width, d_kv=64, num_heads=width // 64, num_layers=layers, d_ff=ff,
        dropout_rate=0., feed_forward_proj="gated-gelu", pad_token_id=captions.PAD, eos_token_id=captions.EOS))


class PaddedText:
    """Attention as WanPipeline's, with its many equal padding keys taken as one key that counts for all.

    The last text row is zero and stands for the TEXT_ROWS - MAX_TOKENS rows that are always padding: its score gets
    + log(count), which is exact and 20 times cheaper. At the start of training the padding would drown the few words,
    so the bias is raised from 0 to its true value (warm = 0 to 1).
    """

    def __init__(self, device):
        self.bias = torch.zeros(1, 1, 1, captions.MAX_TOKENS + 1, device=device)

    def set_warm(self, warm):
        self.bias[..., -1] = math.log(TEXT_ROWS - captions.MAX_TOKENS) * warm

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, rotary_emb=None, **_):
        source = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        q, k, v = attn.norm_q(attn.to_q(hidden_states)), attn.norm_k(attn.to_k(source)), attn.to_v(source)
        q, k, v = (x.unflatten(2, (attn.heads, -1)) for x in (q, k, v))
        if rotary_emb is not None:
            cos, sin = rotary_emb[0][..., 0::2], rotary_emb[1][..., 1::2]

            def rotate(x):
                a, b = x.float().unflatten(-1, (-1, 2)).unbind(-1)
                return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)
            q, k = rotate(q), rotate(k)
        q, k, v = (x.transpose(1, 2).to(v.dtype) for x in (q, k, v))
        if encoder_hidden_states is None:
            out = F.scaled_dot_product_attention(q, k, v)
        else:
            score = (q @ k.mT).float() * q.shape[-1] ** -.5 + self.bias
            out = torch.softmax(score, -1).to(v.dtype) @ v
        return attn.to_out[0](out.transpose(1, 2).flatten(2))


def encode_text(encoder, ids, context):
    """ids [b, l] to [b, l + 1, width]: real tokens, zeros after </s>, and the one padding row."""
    ids = ids.to(context.device)
    mask = ids != captions.PAD
    with context.autocast():
        hidden = encoder(input_ids=ids, attention_mask=mask.long()).last_hidden_state
    return F.pad(hidden * mask[..., None], (0, 0, 0, 1))


def trained(work, context, name="denoiser.pt"):
    """The tokenizer, the denoiser and its text encoder of a work folder, for use as they are."""
    tokenizer, weights = captions.Tokenizer(work / "spiece.model"), load(work / name)
    part = lambda name: {k[len(name) + 1:]: v.float() for k, v in weights.items() if k.startswith(name + ".")}
    model = new_denoiser(weights["transformer.patch_embedding.weight"].shape[1])
    model.load_state_dict(part("transformer"))
    encoder = new_text_encoder(len(tokenizer))
    encoder.load_state_dict(part("text_encoder"))
    keys = PaddedText(context.device)
    keys.set_warm(1.)
    model.set_attn_processor(keys)
    return tokenizer, model.to(context.device), encoder.to(context.device).eval().requires_grad_(False)


class Latents:
    """Clips to normalised latents by the frozen autoencoder."""

    def __init__(self, checkpoint, context):
        self.context, self.vae = context, onepass.new_vae()
        self.vae.load_state_dict(checkpoint["weights"])
        self.vae = self.vae.to(context.device).bfloat16().eval().requires_grad_(False)
        self.mean, self.std = (checkpoint[k].to(context.device).view(1, -1, 1, 1, 1) for k in ("mean", "std"))

    @torch.no_grad()
    def encode(self, clip):
        return (onepass.encode(self.vae, clip).chunk(2, 1)[0].float() - self.mean) / self.std


class Pool:
    """Latents, token ids, attributes and object masks of one clip shape on this process; fresh clips replace the
    oldest. words makes captions of a spec; leads are the numbers of frames before a clip, one of which is taken: where
    it is not 0, the clip begins in the middle of what happens."""

    def __init__(self, latents, tokenizer, generator, rng, shape, plan, pairs, words=captions.varied, leads=(0,)):
        self.latents, self.tokenizer, self.generator, self.rng = latents, tokenizer, generator, rng
        self.shape, self.pairs, self.words, self.leads = shape, pairs, words, leads
        self.batch, self.capacity, self.chunk, self.refresh = plan.batch, plan.capacity, plan.chunk, plan.refresh
        self.made = 0
        height, width, frames = shape
        device, grid = latents.context.device, ((frames - 1) // 4 + 1, height // 8, width // 8)
        self.x = torch.empty(plan.capacity, latents.vae.config.z_dim, *grid, dtype=torch.half, device=device)
        self.mask = torch.empty(plan.capacity, 1, *grid, dtype=torch.half, device=device)
        self.ids = torch.zeros(plan.capacity, captions.MAX_TOKENS, dtype=torch.long)
        self.told = torch.zeros(plan.capacity, 2, len(binding.COUNTS), dtype=torch.long)

    @torch.no_grad()
    def add(self, count):
        height, width, frames = self.shape
        device = self.latents.context.device
        for begin in range(0, count, 8 * self.chunk):      # drawing many at once is cheaper
            n = min(8 * self.chunk, count - begin)
            spec = world.draw_spec(n, self.generator, device, pairs=self.pairs)
            lead = self.rng.choice(self.leads)
            drawn = world.render(spec, lead + frames, height, width, device, self.generator)
            clip, cover = (part[:, :, lead:] for part in drawn)
            mask = F.max_pool3d(cover.amax(1, keepdim=True).float(), (1, 8, 8))
            if frames > 1:                        # a latent frame stands for 4 frames, the first one for 1
                mask = torch.cat((mask[:, :, :1], F.max_pool3d(mask[:, :, 1:], (4, 1, 1))), 2)
            place = torch.arange(self.made, self.made + n) % self.capacity
            self.ids[place] = self.tokenizer(self.words(spec, self.rng))
            self.told[place] = binding.attributes(spec).cpu()
            place = place.to(device)
            self.x[place] = torch.cat([self.latents.encode(part).half() for part in clip.split(self.chunk)])
            self.mask[place] = mask.half()
            self.made += n

    def draw(self):
        k = torch.randint(0, min(self.made, self.capacity), (self.batch,))
        on = k.to(self.x.device)
        return self.x[on].float(), self.ids[k], self.told[k], self.mask[on].float()


@dataclasses.dataclass
class Plan:
    """How one clip shape is trained on: clips a step and process, pool size, clips encoded at once, and how many
    fresh ones come in after every sixteenth step."""
    batch: int
    capacity: int
    chunk: int
    refresh: int


def plans(args):
    """Clip shapes (height, width, frames) and their plans. SMALL, BASE and LARGE are squares of 1, 2 and 4 units."""
    u, n, wide = args.unit, args.pool, 7 * args.unit // 2
    lengths = set(args.lengths) - {33}

    def plan(divisor, clips, chunk):
        return Plan(max(args.batch // divisor, 1), max(clips, chunk), chunk, max(clips // 32, 1))

    return {
        (u, u, 33): plan(1, 12 * n, 64), (2 * u, 2 * u, 33): plan(4, 5 * n, 16),
        **{(2 * u, 2 * u, k): plan(4 if k <= 33 else 8, 68 * n // k, 16) for k in lengths},
        (4 * u, 4 * u, 33): plan(24, n // 2, 4), (2 * u, wide, 33): plan(8, n // 2, 8),
        (wide, 2 * u, 33): plan(8, n // 2, 8), (2 * u, 2 * u, 1): plan(1, 6 * n, 64),
        (2 * u, 2 * u, 65): plan(8, n // 2, 8)}


def schedule(step, progress, args):
    """Which shape a step takes: small squares first, then twice as large, then also four times; some of all others."""
    u, wide = args.unit, 7 * args.unit // 2
    small, large, still = (u, u, 33), (4 * u, 4 * u, 33), (2 * u, 2 * u, 1)
    base = 2 * u, 2 * u, args.lengths[step % len(args.lengths)]
    if step % 24 == 22:
        return still
    if progress < args.until_base:
        return small
    others = {1: (2 * u, wide, 33), 9: (wide, 2 * u, 33), 17: (2 * u, 2 * u, 65)}
    if step % 24 in others:
        return others[step % 24]
    if progress >= args.until_large and int((step + 1) * args.large) > int(step * args.large):
        return large
    return small if step % 8 == 0 else base


def noise_levels(count, shape, device, large_shift, late=0.):
    """s in (0, 1): mostly logit-normal, some uniform, then shifted: the more pixels, the more noise hides them.

    late: share of the samples that are drawn evenly from the levels of the last steps instead.
    """
    s = torch.sigmoid(torch.randn(count, device=device))
    s = torch.where(torch.rand(count, device=device) < .15, torch.rand(count, device=device), s)
    area = shape[0] * shape[1]
    shift = 1.8 if area < 40000 else 3. if area < 200000 else large_shift
    s = shift * s / (1 + (shift - 1) * s)
    return torch.where(torch.rand(count, device=device) < late, LAST_LEVEL * torch.rand(count, device=device), s)


def loss_of(parts, sample, shape, nothing, args, context):
    """The flow's loss, and what the text encoder fails to tell of who has what."""
    x, ids, told, mask = sample
    ids = torch.where(torch.rand(len(x))[:, None] < .1, nothing, ids)          # 10 % learn the empty prompt, for CFG
    s = noise_levels(len(x), shape, context.device, args.large_shift, args.late)
    level = s.view(-1, 1, 1, 1, 1)
    noise = torch.randn_like(x)
    text = encode_text(parts.text_encoder, ids, context)
    with context.autocast():
        out = parts.transformer((1 - level) * x + level * noise, s * 1000, text, return_dict=False)[0]
    weight = 1 + args.object_weight * mask * ((.8 - level) / .2).clamp(0, 1)   # near pure noise no object is to be seen
    flow = ((out.float() - (noise - x)) ** 2 * (weight / weight.mean())).mean()
    return flow, parts.binding(text, ids, told)


class Trainer:
    """Weights, optimiser and average of the denoiser, and where the training stands."""

    def __init__(self, args, context):
        self.args, self.context = args, context
        self.latents = Latents(load(args.work / "vae.pt"), context)
        self.tokenizer = captions.Tokenizer(args.work / "spiece.model")
        self.model = new_denoiser(self.latents.vae.config.z_dim, layers=args.layers)
        encoder = new_text_encoder(len(self.tokenizer))
        heads = binding.Binding(self.tokenizer, encoder.config.d_model)
        self.parts = nn.ModuleDict(dict(transformer=self.model, text_encoder=encoder, binding=heads)).to(context.device)
        start = load(args.work / "denoiser_start.pt")
        if start:
            self.parts.load_state_dict(self.parts.state_dict() | {k: v.float() for k, v in start.items()})
        self.warm_text = not start
        for frozen in (encoder, heads) if args.frozen_text else ():
            frozen.requires_grad_(False)
        self.parameters = [p for p in self.parts.parameters() if p.requires_grad]
        context.broadcast([p.data for p in self.parameters])
        named = [(name, p) for name, p in self.parts.named_parameters() if p.requires_grad]
        self.optimiser = Muon(named, args.lr, adam_lr=args.lr / 5, weight_decay=.01)
        self.average = Average(self.parameters)
        self.step, self.elapsed, self.path = 0, 0., args.work / "denoiser_training.pt"
        resumed = load(self.path)
        if resumed:
            self.parts.load_state_dict(resumed["weights"])
            self.optimiser.restore(resumed["optimiser"])
            for mine, other in zip(self.average.values, resumed["average"]):
                mine.copy_(other)
            self.step, self.elapsed = resumed["step"], resumed["elapsed"]
        self.keys = PaddedText(context.device)
        self.model.set_attn_processor(self.keys)
        # Where training is short, only the commonest shapes are worth their compilation.
        often = [(2 * args.unit, 2 * args.unit, k) for k in args.lengths if args.lengths.count(k) > 1]
        self.eager = [shape for shape in plans(args) if shape not in often] if args.frozen_text else []
        if args.compile:
            torch._dynamo.config.automatic_dynamic_shapes = False  # else the second size gets slow dynamic kernels
            torch._dynamo.config.recompile_limit = 64
            self.model.compile_repeated_blocks(fullgraph=True)

    def take(self, pool, nothing, progress):
        """One step. The rate is constant, then falls to nearly nothing over the last 40 %."""
        args = self.args
        self.keys.set_warm(min(1., self.step / 1000) if self.warm_text else 1.)
        eager = args.compile and pool.shape in self.eager
        with torch.compiler.set_stance("force_eager") if eager else contextlib.nullcontext():
            flow, unbound = loss_of(self.parts, pool.draw(), pool.shape, nothing, args, self.context)
            self.optimiser.zero_grad(set_to_none=True)
            (flow + args.binding_weight * unbound).backward()
        self.context.mean_gradients(self.parameters)
        nn.utils.clip_grad_norm_(self.parameters, 1.)
        for group in self.optimiser.param_groups:
            group["lr"] = args.lr * min(1, (self.step + 1) / 200) * min(1., (1 - progress) / .4 + .004)
        self.optimiser.step()
        if not args.frozen_text:
            binding.bound_scores(self.parts.text_encoder)
        self.step += 1
        self.average.update(args.average, self.step)
        return flow, unbound

    def save(self, elapsed):
        save(self.path, dict(weights=self.parts.state_dict(), optimiser=self.optimiser.snapshot(),
                             average=self.average.values, step=self.step, elapsed=elapsed))


def train(args, context):
    trainer = Trainer(args, context)
    seed = args.seed + 100 * context.rank + 1000 + 31 * trainer.step
    generator, rng, began = torch.Generator(context.device).manual_seed(seed), random.Random(seed), time.time()
    pools = {}
    for shape, plan in plans(args).items():
        if shape[0] < 4 * args.unit or args.until_large < 1:
            pools[shape] = Pool(trainer.latents, trainer.tokenizer, generator, rng, shape, plan, args.pairs)
            pools[shape].add(max(plan.capacity // 4, plan.chunk))
    context.sync()
    context.log(f"denoiser: {sum(p.numel() for p in trainer.parameters)} weights; "
                f"pools filled in {time.time() - began:.0f} s")
    nothing = trainer.tokenizer([""])
    budget, warm_up = Budget(context, args.seconds, trainer.elapsed), [k for k in pools for _ in range(3)]
    saved = began = time.time()
    local, last, counts = 0, trainer.step, {k: 0 for k in pools}
    while True:
        progress = budget.progress(trainer.step)
        if progress >= 1:
            break
        key = warm_up[local] if local < len(warm_up) else schedule(trainer.step, progress, args)
        if local >= len(warm_up) and counts[key] % 16 == 15:
            pools[key].add(pools[key].refresh)
        flow, unbound = trainer.take(pools[key], nothing, progress)
        local, counts[key] = local + 1, counts[key] + 1
        if local == len(warm_up):
            budget.start()
            context.log(f"denoiser: first steps (compilation) {time.time() - began:.0f} s")
            began, last = time.time(), trainer.step
        if trainer.step % 200 == 0:
            rate = (trainer.step - last) / max(time.time() - began, 1e-6)
            began, last = time.time(), trainer.step
            context.log(f"denoiser: step {trainer.step}, {budget.spent():.0f} GPU-s, {rate:.1f} a second, "
                        f"{key[1]}x{key[0]}x{key[2]}, loss {flow.item():.4f}, binding {unbound.item():.4f}")
        if context.rank == 0 and time.time() - saved > args.save_every:
            saved = time.time()
            trainer.save(budget.spent())
    trainer.average.install()
    made = ", ".join(f"{counts[k]} of {p.batch} at {k[1]}x{k[0]}x{k[2]} ({p.made} clips drawn)"
                     for k, p in pools.items())
    context.log(f"denoiser: {trainer.step} steps on {context.world} processes, {budget.spent():.0f} GPU-seconds; "
                f"a process did {made}")
    if context.rank == 0:
        kept = {k: v.bfloat16() for k, v in trainer.parts.state_dict().items() if not k.startswith("binding.")}
        save(args.work / "denoiser.pt", kept)


def main():
    args = parser(
        __doc__, seconds=(1350., "GPU-seconds of training after compilation"), layers=(6, "of the denoiser"),
        lr=(3e-3, "Muon's rate"), object_weight=(3., "extra loss weight on the object at low noise"),
        binding_weight=(.05, "of the loss on who has what"),
        average=(.995, "decay of the weights' moving average"),
        unit=(128, "smallest frame size; the others are multiples of it"), pool=(1024, "scale of the latent pools"),
        batch=(192, "clips a step and process at the smallest size"),
        until_base=(.40, "share of the time at the smallest size"),
        until_large=(.68, "share of the time before the largest size joins"),
        large=(.25, "share of the steps at the largest size from then on, less what other shapes take"),
        large_shift=(6., "how far noise levels are shifted up at the largest size"),
        pairs=(.4, "share of clips with two objects"),
        lengths=("33", "frames of clips at twice the unit, which the steps take in turn"),
        late=(0., "share of the samples at the noise levels of the last steps"),
        frozen_text=(False, "leave the text encoder as it is"),
        save_every=(120., "seconds between checkpoints")).parse_args()
    args.lengths = [int(k) for k in args.lengths.split(",")]
    if (args.work / "denoiser.pt").exists():
        return
    context = Context(args.seed)
    context.prefer_cudnn()
    train(args, context)
    context.close()


if __name__ == "__main__":
    main()

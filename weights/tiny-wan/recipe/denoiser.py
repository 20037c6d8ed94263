"""Stage 2: train text encoder and denoiser together on latents of the finished autoencoder, small sizes first.

Rectified flow: x_s = (1-s) x + s n, the network predicts n - x at time 1000 s.
Run by train.py, alone or under torchrun.
"""
import math
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from diffusers import WanTransformer3DModel
from transformers import UMT5Config, UMT5EncoderModel

import captions
import onepass
import world
from runtime import Average, Budget, Context, Muon, load, parser, save

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


def new_text_encoder(vocabulary, width=256, layers=3, ff=512):
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
    """Latents, token ids and object masks of one clip size on this process; fresh clips replace the oldest."""

    def __init__(self, latents, tokenizer, generator, rng, size, frames, batch, capacity, chunk):
        self.latents, self.tokenizer, self.generator, self.rng = latents, tokenizer, generator, rng
        self.size, self.frames, self.batch, self.chunk, self.made = size, frames, batch, chunk, 0
        device, grid = latents.context.device, ((frames - 1) // 4 + 1, size // 8, size // 8)
        self.x = torch.empty(capacity, latents.vae.config.z_dim, *grid, dtype=torch.half, device=device)
        self.mask = torch.empty(capacity, 1, *grid, dtype=torch.half, device=device)
        self.ids = torch.zeros(capacity, captions.MAX_TOKENS, dtype=torch.long)

    @torch.no_grad()
    def add(self, count):
        device = self.latents.context.device
        for begin in range(0, count, self.chunk):
            n = min(self.chunk, count - begin)
            spec = world.draw_spec(n, self.generator, device)
            clip, mask = world.render(spec, self.frames, self.size, self.size, device, self.generator)
            mask = F.max_pool3d(mask.float(), (1, 8, 8))
            if self.frames > 1:                   # a latent frame stands for 4 frames, the first one for 1
                mask = torch.cat((mask[:, :, :1], F.max_pool3d(mask[:, :, 1:], (4, 1, 1))), 2)
            place = torch.arange(self.made, self.made + n) % len(self.x)
            self.ids[place] = self.tokenizer(captions.varied(spec, self.rng))
            place = place.to(device)
            self.x[place], self.mask[place] = self.latents.encode(clip).half(), mask.half()
            self.made += n

    def draw(self):
        k = torch.randint(0, min(self.made, len(self.x)), (self.batch,))
        on = k.to(self.x.device)
        return self.x[on].float(), self.ids[k], self.mask[on].float()


def noise_levels(count, size, device):
    """s in (0, 1): mostly logit-normal, some uniform, then shifted as the sampler's (less at smaller sizes)."""
    s = torch.sigmoid(torch.randn(count, device=device))
    s = torch.where(torch.rand(count, device=device) < .15, torch.rand(count, device=device), s)
    shift = 3. if size >= 256 else 1.8
    return shift * s / (1 + (shift - 1) * s)


def loss_of(model, encoder, sample, size, nothing, args, context):
    x, ids, mask = sample
    ids = torch.where(torch.rand(len(x))[:, None] < .1, nothing, ids)          # 10 % learn the empty prompt, for CFG
    s = noise_levels(len(x), size, context.device)
    level = s.view(-1, 1, 1, 1, 1)
    noise = torch.randn_like(x)
    text = encode_text(encoder, ids, context)
    with context.autocast():
        out = model((1 - level) * x + level * noise, s * 1000, text, return_dict=False)[0]
    weight = 1 + args.object_weight * mask * ((.8 - level) / .2).clamp(0, 1)   # near pure noise no object is to be seen
    return ((out.float() - (noise - x)) ** 2 * (weight / weight.mean())).mean()


def schedule(step, progress, args):
    """Which pool (size, frames) a step takes: 128 first, then 256 with some 128 and single frames, then 512 as well."""
    small, base, large, still = (args.unit, 33), (2 * args.unit, 33), (4 * args.unit, 33), (2 * args.unit, 1)
    if step % 32 == 30:
        return still
    if progress < args.until_base:
        return small
    if progress >= args.until_large and step % 4 == 3:
        return large
    return small if step % 8 == 0 else base


def train(args, context):
    latents = Latents(load(args.work / "vae.pt"), context)
    tokenizer = captions.Tokenizer(args.work / "spiece.model")
    model = new_denoiser(latents.vae.config.z_dim, layers=args.layers).to(context.device)
    encoder = new_text_encoder(len(tokenizer)).to(context.device)
    both = nn.ModuleDict(dict(transformer=model, text_encoder=encoder))
    started_from = load(args.work / "denoiser_start.pt")
    if started_from:
        both.load_state_dict({k: v.float() for k, v in started_from.items()})
    text_keys = PaddedText(context.device)
    model.set_attn_processor(text_keys)
    parameters = list(both.parameters())
    context.broadcast([p.data for p in parameters])
    optimiser = Muon(both.named_parameters(), args.lr, adam_lr=6e-4, weight_decay=.01)
    average = Average(parameters)
    step, elapsed, checkpoint = 0, 0., args.work / "denoiser_training.pt"
    resumed = load(checkpoint)
    if resumed:
        both.load_state_dict(resumed["weights"])
        optimiser.restore(resumed["optimiser"])
        for mine, other in zip(average.values, resumed["average"]):
            mine.copy_(other)
        step, elapsed = resumed["step"], resumed["elapsed"]
    if args.compile:
        torch._dynamo.config.automatic_dynamic_shapes = False      # else the second size gets slow dynamic kernels
        torch._dynamo.config.recompile_limit = 64
        model.compile_repeated_blocks(fullgraph=True)
    seed = args.seed + 100 * context.rank + 1000 + 31 * step
    generator, rng = torch.Generator(context.device).manual_seed(seed), random.Random(seed)
    pools, u = {}, args.unit

    def add_pool(size, frames, batch, capacity, count, chunk):
        pools[size, frames] = Pool(latents, tokenizer, generator, rng, size, frames, batch, capacity, chunk)
        pools[size, frames].add(count)

    began = time.time()
    add_pool(u, 33, args.batch_small, 40 * args.pool, 8 * args.pool, 64)
    add_pool(2 * u, 33, args.batch_base, 12 * args.pool, 2 * args.pool, 16)
    add_pool(2 * u, 1, args.batch_small, 12 * args.pool, 4 * args.pool, 128)
    if args.until_large < 1:
        add_pool(4 * u, 33, args.batch_large, 2 * args.pool, args.pool // 5, 4)
    context.sync()
    context.log(f"denoiser: {sum(p.numel() for p in parameters)} weights; pools filled in {time.time() - began:.0f} s")
    refresh = {(u, 33): args.pool // 20, (2 * u, 33): args.pool // 80, (4 * u, 33): max(args.pool // 250, 1),
               (2 * u, 1): args.pool // 20}
    nothing = tokenizer([""])
    budget, warm_up = Budget(context, args.seconds, elapsed), [k for k in pools for _ in range(3)]
    saved = began = time.time()
    local, last_step, counts = 0, step, {k: 0 for k in pools}
    while True:
        progress = budget.progress(step)
        if progress >= 1:
            break
        key = warm_up[local] if local < len(warm_up) else schedule(step, progress, args)
        if local >= len(warm_up) and counts[key] % 4 == 3:
            pools[key].add(max(refresh[key], 1))
        text_keys.set_warm(1. if started_from else min(1., step / 1000))
        loss = loss_of(model, encoder, pools[key].draw(), key[0], nothing, args, context)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        context.mean_gradients(parameters)
        nn.utils.clip_grad_norm_(parameters, 1.)
        for group in optimiser.param_groups:      # constant, then falling to nearly nothing over the last 40 %
            group["lr"] = args.lr * min(1, (step + 1) / 200) * min(1., (1 - progress) / .4 + .004)
        optimiser.step()
        step, local = step + 1, local + 1
        counts[key] += 1
        average.update(.995, step)
        if local == len(warm_up):
            budget.start()
            context.log(f"denoiser: first steps (compilation) {time.time() - began:.0f} s")
            began, last_step = time.time(), step
        if step % 200 == 0:
            rate = (step - last_step) / max(time.time() - began, 1e-6)
            began, last_step = time.time(), step
            context.log(f"denoiser: step {step}, {budget.spent():.0f} s, {rate:.1f} a second, size {key[0]}, "
                        f"loss {loss.item():.4f}")
        if context.rank == 0 and time.time() - saved > args.save_every:
            saved = time.time()
            save(checkpoint, dict(weights=both.state_dict(), optimiser=optimiser.snapshot(), average=average.values,
                                  step=step, elapsed=budget.spent()))
    average.install()
    made = ", ".join(f"{counts[k]} steps of {p.batch} at {k[0]}x{k[1]} ({p.made} clips drawn)"
                     for k, p in pools.items())
    context.log(f"denoiser: {step} steps on {context.world} processes, {budget.spent():.0f} s; a process did {made}")
    if context.rank == 0:
        save(args.work / "denoiser.pt", {k: v.bfloat16() for k, v in both.state_dict().items()})


def main():
    args = parser(
        __doc__, seconds=(425., "training time after compilation"), layers=(6, "of the denoiser"),
        lr=(3e-3, "Muon's rate"), object_weight=(3., "extra loss weight on the object at low noise"),
        unit=(128, "smallest frame size; the others are 2 and 4 times it"), pool=(1024, "scale of the latent pools"),
        batch_small=(192, "clips a step and process at the smallest size"), batch_base=(48, "at twice that"),
        batch_large=(8, "at four times that"), until_base=(.42, "share of the time at the smallest size"),
        until_large=(.72, "share of the time before the largest size joins"),
        save_every=(120., "seconds between checkpoints")).parse_args()
    if (args.work / "denoiser.pt").exists():
        return
    context = Context(args.seed)
    if context.cuda:                              # cuDNN's attention is faster here than FlashAttention 2
        torch.backends.cuda.enable_flash_sdp(False)
        torch.backends.cuda.enable_mem_efficient_sdp(False)
    train(args, context)
    context.close()


if __name__ == "__main__":
    main()

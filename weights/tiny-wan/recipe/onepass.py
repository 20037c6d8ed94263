"""AutoencoderKLWan over a whole clip at once: the same modules and weights as diffusers', which works chunk by chunk.

The chunks' caches are nothing but causal padding, so for training everything runs as plain convolutions over the whole
sequence, and the number of kernel launches does not grow with the frames. For residual models (Wan 2.2's kind).
Compared with diffusers in check.py.
"""
import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLWan
from diffusers.models.autoencoders import autoencoder_kl_wan as wan


def new_vae(base=32, decoder_base=72, latents=16, multipliers=(1, 1, 1), blocks=1):
    """The tiny-wan autoencoder: stride 4 x 8 x 8, of which the 2 x 2 patches are the first 2 in space."""
    levels = len(multipliers) - 1
    return AutoencoderKLWan(
        base_dim=base, decoder_base_dim=decoder_base, z_dim=latents, dim_mult=list(multipliers), num_res_blocks=blocks,
        temperal_downsample=[False] * (levels - 2) + [True] * 2, is_residual=True, patch_size=2, in_channels=12,
        out_channels=12, scale_factor_temporal=4, scale_factor_spatial=2 ** levels * 2,
        latents_mean=[0.] * latents, latents_std=[1.] * latents)


def fold(x):
    """[b, c, t, h, w] to [b t, c, h, w]; no copy when channels are innermost in memory."""
    b, c, t, h, w = x.shape
    return x.permute(0, 2, 3, 4, 1).reshape(b * t, h, w, c).permute(0, 3, 1, 2)


def unfold(x, batch):
    n, c, h, w = x.shape
    return x.permute(0, 2, 3, 1).reshape(batch, n // batch, h, w, c).permute(0, 4, 1, 2, 3)


def causal(m, x):
    """Causal 3x3x3 convolution, as a 2-D one over three frames stacked in the channels: faster than cuDNN's 3-D."""
    if m.weight.shape[2:] == (1, 1, 1):
        return F.conv3d(x, m.weight, m.bias)
    b, c, t, h, w = x.shape
    frames = x.permute(0, 2, 3, 4, 1)
    past = F.pad(frames, (0, 0, 0, 0, 0, 0, 2, 0))
    stacked = torch.cat((past[:, :t], past[:, 1:t + 1], frames), -1).reshape(b * t, h, w, 3 * c).permute(0, 3, 1, 2)
    weight = m.weight.permute(0, 2, 1, 3, 4).flatten(1, 2).contiguous(memory_format=torch.channels_last)
    return unfold(F.conv2d(stacked, weight, m.bias, padding=1), b)


def temporal(m, x, stride):
    """(3,1,1) convolution over x that the caller has padded."""
    count = (x.shape[2] - 3) // stride + 1
    frames = x.permute(0, 2, 3, 4, 1)
    stacked = torch.cat([frames[:, k:k + stride * (count - 1) + 1:stride] for k in range(3)], -1)
    return F.linear(stacked, m.weight[..., 0, 0].permute(0, 2, 1).flatten(1), m.bias).permute(0, 4, 1, 2, 3)


def rms(m, x, silu=False):
    dtype, x = x.dtype, x.float()
    inverse = torch.rsqrt((x * x).sum(1, keepdim=True).clamp_min(1e-24)) * m.scale
    x = x * inverse * m.gamma.float().view(1, -1, *([1] * (x.dim() - 2)))
    return (F.silu(x) if silu else x).to(dtype)


def residual(m, x):
    shortcut = x if isinstance(m.conv_shortcut, torch.nn.Identity) else causal(m.conv_shortcut, x)
    x = causal(m.conv1, rms(m.norm1, x, silu=True))
    return causal(m.conv2, rms(m.norm2, x, silu=True)) + shortcut


def attention(m, x):
    y = rms(m.norm, fold(x))
    n, c, h, w = y.shape
    q, k, v = m.to_qkv(y).permute(0, 2, 3, 1).reshape(n, 1, h * w, 3 * c).chunk(3, -1)
    y = F.scaled_dot_product_attention(q, k, v).reshape(n, h, w, c).permute(0, 3, 1, 2)
    return unfold(m.proj(y), x.shape[0]) + x


def resample(m, x):
    batch = x.shape[0]
    if m.mode == "upsample3d" and x.shape[2] > 1:
        # Frame 0 passes through; the others are doubled by a convolution whose history starts at zero after it.
        first, rest = x[:, :, :1], x[:, :, 1:]
        rest = temporal(m.time_conv, F.pad(rest, (0, 0, 0, 0, 2, 0)), 1)
        b, c, t, h, w = rest.shape
        rest = rest.reshape(b, 2, c // 2, t, h, w).permute(0, 2, 3, 1, 4, 5).reshape(b, c // 2, 2 * t, h, w)
        x = torch.cat((first, rest), 2)
    y = fold(x)
    if m.mode.startswith("up"):
        y = m.resample[1](F.interpolate(y, scale_factor=2.0, mode="nearest-exact"))
    elif m.mode.startswith("down"):
        y = m.resample(y)
    x = unfold(y, batch)
    if m.mode == "downsample3d" and x.shape[2] > 1:
        # Frame 0 passes through, and is also the first frame of the stride-2 windows.
        x = torch.cat((x[:, :, :1], temporal(m.time_conv, x, 2)), 2)
    return x


def middle(m, x):
    x = residual(m.resnets[0], x)
    for attend, block in zip(m.attentions, m.resnets[1:]):
        x = residual(block, attention(attend, x))
    return x


def level(m, x):
    down = isinstance(m, wan.WanResidualDownBlock)
    y = x
    for block in m.resnets:
        y = residual(block, y)
    sampler = m.downsampler if down else m.upsampler
    if sampler is not None:
        y = resample(sampler, y)
    if down:
        return y + m.avg_shortcut(x)
    return y if m.avg_shortcut is None else y + m.avg_shortcut(x, first_chunk=True)


def encode(vae, clip):
    """Clip [b, 3, t, h, w] to mean and log variance of the latents, together [b, 2 z, (t-1)/4+1, h/8, w/8]."""
    m = vae.encoder
    x = wan.patchify(clip.to(vae.quant_conv.weight.dtype), vae.config.patch_size)
    x = causal(m.conv_in, x.contiguous(memory_format=torch.channels_last_3d))
    for block in m.down_blocks:
        x = level(block, x)
    return causal(vae.quant_conv, causal(m.conv_out, rms(m.norm_out, middle(m.mid_block, x), silu=True)))


def decode(vae, latents):
    """Latents (not normalised) to a clip, not clamped."""
    m = vae.decoder
    x = causal(m.conv_in, causal(vae.post_quant_conv, latents.contiguous(memory_format=torch.channels_last_3d)))
    x = middle(m.mid_block, x)
    for block in m.up_blocks:
        x = level(block, x)
    return wan.unpatchify(causal(m.conv_out, rms(m.norm_out, x, silu=True)), vae.config.patch_size)

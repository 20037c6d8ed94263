"""The decoder: transformers' LlamaForCausalLM with tied embeddings, written over rows of tokens.

F32 master weights under the names of the checkpoint; the products run in BF16 under autocast on a GPU, in F32 elsewhere.
"""
import json
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = dict(flash=SDPBackend.FLASH_ATTENTION, cudnn=SDPBackend.CUDNN_ATTENTION)


@dataclass
class Shape:
    vocab: int = 2048
    width: int = 192
    layers: int = 4
    heads: int = 3
    key_heads: int = 1
    head_dim: int = 64
    ffn: int = 512
    theta: float = 1e7
    longest: int = 131072
    eps: float = 1e-5

    def config(self):
        """config.json as transformers reads it."""
        return dict(architectures=["LlamaForCausalLM"], model_type="llama", attention_bias=False, attention_dropout=0.0,
                    bos_token_id=None, eos_token_id=0, hidden_act="silu", hidden_size=self.width, initializer_range=0.02,
                    intermediate_size=self.ffn, max_position_embeddings=self.longest, mlp_bias=False,
                    num_attention_heads=self.heads, num_hidden_layers=self.layers, num_key_value_heads=self.key_heads,
                    head_dim=self.head_dim, rms_norm_eps=self.eps, rope_theta=self.theta, rope_scaling=None,
                    tie_word_embeddings=True, torch_dtype="bfloat16", use_cache=True, vocab_size=self.vocab)


class Layer(nn.Module):
    def __init__(self, s):
        super().__init__()
        self.s = s
        self.input_layernorm = nn.RMSNorm(s.width, s.eps)
        self.post_attention_layernorm = nn.RMSNorm(s.width, s.eps)
        self.self_attn, self.mlp = nn.Module(), nn.Module()
        for name, rows, cols in (("q_proj", s.heads * s.head_dim, s.width), ("k_proj", s.key_heads * s.head_dim, s.width),
                                 ("v_proj", s.key_heads * s.head_dim, s.width), ("o_proj", s.width, s.heads * s.head_dim)):
            self.self_attn.add_module(name, nn.Linear(cols, rows, bias=False))
        for name, rows, cols in (("gate_proj", s.ffn, s.width), ("up_proj", s.ffn, s.width), ("down_proj", s.width, s.ffn)):
            self.mlp.add_module(name, nn.Linear(cols, rows, bias=False))

    def before(self, x, cos, sin):
        """Rows [n, width] to queries, keys and values after rotation, [batch, heads, length, head_dim]; cos and sin [length, dim/2]."""
        a, s, n = self.self_attn, self.s, self.input_layernorm(x)
        q, k, v = (p(n).view(-1, cos.shape[0], h, s.head_dim).transpose(1, 2)
                   for p, h in ((a.q_proj, s.heads), (a.k_proj, s.key_heads), (a.v_proj, s.key_heads)))

        def rotate(t):
            low, high = t.float().chunk(2, -1)
            return torch.cat((low * cos - high * sin, high * cos + low * sin), -1).to(t.dtype)
        each = s.heads // s.key_heads
        return rotate(q), rotate(k).repeat_interleave(each, 1), v.repeat_interleave(each, 1)

    def after(self, x, y):
        x = x + self.self_attn.o_proj(y.transpose(1, 2).reshape(x.shape[0], -1))
        n = self.post_attention_layernorm(x)
        return x + self.mlp.down_proj(F.silu(self.mlp.gate_proj(n)) * self.mlp.up_proj(n))


class Decoder(nn.Module):
    def __init__(self, shape=None, backend="flash"):
        super().__init__()
        s = self.shape = shape or Shape()
        self.backend = BACKENDS[backend]
        self.embed_tokens = nn.Embedding(s.vocab, s.width)
        self.layers = nn.ModuleList(Layer(s) for _ in range(s.layers))
        self.norm = nn.RMSNorm(s.width, s.eps)
        for name, p in self.named_parameters():
            if p.dim() == 2:
                deep = name.endswith(("o_proj.weight", "down_proj.weight"))
                nn.init.normal_(p, std=0 if deep else s.width ** -0.5)

    def forward(self, ids):
        """ids [batch, length] to hidden rows [batch * length, width], behind the final norm."""
        s, device = self.shape, ids.device
        frequency = s.theta ** -(torch.arange(0, s.head_dim, 2, device=device) / s.head_dim)
        angle = torch.arange(ids.shape[1], device=device)[:, None] * frequency
        cos, sin = angle.cos(), angle.sin()
        x = self.embed_tokens(ids.reshape(-1))
        for layer in self.layers:
            q, k, v = layer.before(x, cos, sin)
            with sdpa_kernel(self.backend if x.is_cuda else [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH]):
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = layer.after(x, y)
        return self.norm(x)

    def logits(self, rows):
        return F.linear(rows, self.embed_tokens.weight).float()

    def compile(self):
        """Compiles what is between the attentions; its rows are as many at every length."""
        for layer in self.layers:
            layer.before, layer.after = torch.compile(layer.before, dynamic=True), torch.compile(layer.after)

    def save(self, folder):
        """Writes model.safetensors in BF16 and config.json."""
        from safetensors.torch import save_file
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        save_file({f"model.{name}": p.detach().to("cpu", torch.bfloat16).contiguous() for name, p in self.named_parameters()},
                  str(folder / "model.safetensors"), metadata=dict(format="pt"))
        (folder / "config.json").write_text(json.dumps(self.shape.config(), indent=2) + "\n")

    @staticmethod
    def load(folder, device="cpu", backend="flash"):
        """The decoder of a folder that save() wrote."""
        from safetensors.torch import load_file
        c = json.loads((Path(folder) / "config.json").read_text())
        shape = Shape(c["vocab_size"], c["hidden_size"], c["num_hidden_layers"], c["num_attention_heads"],
                      c["num_key_value_heads"], c["head_dim"], c["intermediate_size"], c["rope_theta"],
                      c["max_position_embeddings"], c["rms_norm_eps"])
        model = Decoder(shape, backend)
        model.load_state_dict({name.removeprefix("model."): p.float()
                               for name, p in load_file(str(Path(folder) / "model.safetensors")).items()})
        return model.to(device).eval()

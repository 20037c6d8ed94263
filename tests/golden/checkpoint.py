"""Builds WanPipeline folders with random weights that make outputs vary as trained ones do."""
import io
import json
import os
import shutil

import diffusers
import sentencepiece
import torch
import transformers
from sentencepiece import sentencepiece_model_pb2

import prompts

WEIGHT_DTYPES = {"F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}
IDS = {"t5": dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1), "umt5": dict(pad_id=0, eos_id=1, bos_id=2, unk_id=3)}


def normal(g, p, std, mean=0.0):
    p.copy_(torch.randn(p.shape, generator=g, device=g.device) * std + mean)


def fan_in(p):
    return p[0].numel()


def fill_transformer(model, g):
    """Linear maps keep the size of what they see; gates and shifts vary by channel; attention is not flat."""
    for name, p in model.named_parameters():
        if "norm_q" in name or "norm_k" in name:
            normal(g, p, 0.2, 2.0 if "attn2" in name else 1.3)
        elif name.endswith("norm2.weight"):
            normal(g, p, 0.2, 1.0)
        elif "scale_shift_table" in name:
            normal(g, p, 0.4)
        elif p.ndim == 1:
            normal(g, p, 0.1)
        else:
            gain = 0.5 if "time_proj" in name else 1.4 if "ffn.net.2" in name or "linear_2" in name else 1.0
            normal(g, p, gain / fan_in(p) ** 0.5)


def fill_text(model, g):
    c = model.config
    for name, p in model.named_parameters():
        if "relative_attention_bias" in name:
            normal(g, p, 1.0)
        elif p.ndim == 1:
            normal(g, p, 0.2, 1.0)
        elif "shared" in name or "embed_tokens" in name:
            normal(g, p, 1.0)
        elif name.endswith("SelfAttention.q.weight"):
            normal(g, p, (c.d_model * c.d_kv) ** -0.5 * 1.5)
        else:
            normal(g, p, fan_in(p) ** -0.5)


def fill_vae(model, g):
    for name, p in model.named_parameters():
        if name.endswith("gamma"):
            normal(g, p, 0.2, 1.0)
        elif p.ndim == 1:
            normal(g, p, 0.1)
        else:
            gain = 1.0 if "conv_out" in name or "quant" in name or "shortcut" in name else 1.3
            normal(g, p, gain / fan_in(p) ** 0.5)


def build(make, fill, seed, device):
    torch.manual_seed(seed)
    with torch.device(device):
        model = make().eval().requires_grad_(False)
    fill(model, torch.Generator(device).manual_seed(seed))
    return model


def spread(model, total):
    """Pieces that no text has between those learnt, so that ids reach up to `total`, as in a published tokenizer."""
    m = sentencepiece_model_pb2.ModelProto.FromString(model)
    normal_type = sentencepiece_model_pb2.ModelProto.SentencePiece.NORMAL
    learnt, lowest = list(m.pieces), min(p.score for p in m.pieces)
    special = [p for p in learnt if p.type != normal_type]
    learnt = [p for p in learnt if p.type == normal_type]
    room = total - len(special)
    at = {room * (i + 1) // len(learnt) - 1: p for i, p in enumerate(learnt)}
    del m.pieces[:]
    m.pieces.extend(special)
    for i in range(room):
        if i in at:
            m.pieces.append(at[i])
        else:
            m.pieces.add(piece=chr(0xF0000 + i % 65000) + chr(0x100000 + i // 65000), score=lowest, type=normal_type)
    m.trainer_spec.vocab_size = total
    return m.SerializeToString()


def make_tokenizer(folder, spec):
    """spec: ids, pieces, below, extra_ids, bytes, rule (normalisation), json (tokenizer.json beside spiece.model),
    total (optional: as many pieces as a published one has)."""
    os.makedirs(folder)
    spiece, model = os.path.join(folder, "spiece.model"), io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(prompts.corpus(spec["below"])), model_writer=model, model_type="unigram",
        vocab_size=spec["pieces"] + (256 if spec["bytes"] else 0), character_coverage=0.985, hard_vocab_limit=False,
        normalization_rule_name=spec["rule"], byte_fallback=spec["bytes"], num_threads=1, minloglevel=2,
        pad_piece="<pad>", **IDS[spec["ids"]])
    with open(spiece, "wb") as f:
        f.write(spread(model.getvalue(), spec["total"]) if "total" in spec else model.getvalue())
    config = {"tokenizer_class": "T5Tokenizer", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>",
              "extra_ids": spec["extra_ids"], "model_max_length": 512}
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump(config, f, indent=2)
    if not spec["json"]:
        return transformers.AutoTokenizer.from_pretrained(folder)
    keep = spiece + ".keep"
    shutil.copy(spiece, keep)
    transformers.AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    os.replace(keep, spiece)
    if spec["bytes"]:
        as_bytes(folder, IDS[spec["ids"]]["unk_id"])
    return transformers.AutoTokenizer.from_pretrained(folder)


def as_bytes(folder, unk_id):
    """T5Tokenizer never falls back to bytes, so such a tokenizer is one that its tokenizer.json alone describes."""
    path = os.path.join(folder, "tokenizer.json")
    with open(path, encoding="utf-8") as f:
        t = json.load(f)
    t["model"].update(byte_fallback=True, unk_id=unk_id)
    with open(path, "w", encoding="utf-8") as f:
        json.dump(t, f, ensure_ascii=False, indent=1)
    path = os.path.join(folder, "tokenizer_config.json")
    with open(path) as f:
        c = json.load(f)
    c["tokenizer_class"] = "PreTrainedTokenizerFast"
    with open(path, "w") as f:
        json.dump(c, f, indent=2)


def make_text(spec, vocab, seed, device):
    kind = transformers.UMT5Config if spec["kind"] == "umt5" else transformers.T5Config
    config = kind(vocab_size=vocab, d_model=spec["width"], d_kv=spec["head"], d_ff=spec["ff"],
                  num_layers=spec["layers"], num_heads=spec["heads"], feed_forward_proj=spec["act"],
                  relative_attention_num_buckets=spec["buckets"], relative_attention_max_distance=spec["distance"],
                  dropout_rate=0.1, is_encoder_decoder=False,
                  use_cache=False, pad_token_id=0, eos_token_id=1)
    model = transformers.UMT5EncoderModel if spec["kind"] == "umt5" else transformers.T5EncoderModel
    return build(lambda: model(config), fill_text, seed, device)


def make_sampler(spec):
    if spec["kind"] == "unipc":
        return diffusers.UniPCMultistepScheduler(prediction_type="flow_prediction", use_flow_sigmas=True,
                                                 num_train_timesteps=1000, flow_shift=spec["shift"])
    return diffusers.FlowMatchEulerDiscreteScheduler(shift=spec["shift"])


def latent_statistics(channels, seed):
    g = torch.Generator("cpu").manual_seed(seed)
    mean = (torch.randn(channels, generator=g) * 0.7).tolist()
    std = (torch.rand(channels, generator=g) * 2 + 0.7).tolist()
    return {"latents_mean": [round(v, 4) for v in mean], "latents_std": [round(v, 4) for v in std]}


def to_dtype(model, dtype, keep):
    """As diffusers and transformers save them: float32 stays where the class asks for it."""
    for name, p in model.named_parameters():
        if not any(k in name for k in keep):
            p.data = p.data.to(dtype)


def make_checkpoint(folder, spec, device="cpu"):
    """spec: see make.CASES. Writes the whole pipeline; the folder must not exist. `device` draws the weights."""
    os.makedirs(folder)
    tokenizer = make_tokenizer(os.path.join(folder, "tokenizer"), spec["tokenizer"])
    seed, dtype = spec["seed"], WEIGHT_DTYPES[spec["dtype"]]
    vae = dict(spec["vae"])
    if spec.get("latent_statistics", True):
        vae.update(latent_statistics(vae["z_dim"], seed + 4))

    def dit(k):
        model = build(lambda: diffusers.WanTransformer3DModel(text_dim=spec["text"]["width"], **spec["dit"]),
                      fill_transformer, seed + k, device)
        to_dtype(model, dtype, model._keep_in_fp32_modules or [])
        return model
    vocab = spec["text"].get("vocab", -(-len(tokenizer) // 8) * 8)
    parts = {"text_encoder": make_text(spec["text"], vocab, seed + 1, device), "transformer": dit(2),
             "transformer_2": dit(3) if spec.get("experts") else None,
             "vae": build(lambda: diffusers.AutoencoderKLWan(**vae), fill_vae, seed + 5, device)}
    for name in ("text_encoder", "vae"):
        to_dtype(parts[name], dtype, [])
    own = os.path.join(folder, "tokenizer")
    shutil.move(own, folder + ".tokenizer")
    pipe = diffusers.WanPipeline(tokenizer=tokenizer, scheduler=make_sampler(spec["sampler"]), **parts,
                                 boundary_ratio=spec.get("boundary_ratio"),
                                 expand_timesteps=spec.get("expand_timesteps", False))
    pipe.save_pretrained(folder, safe_serialization=True, max_shard_size=spec.get("shard", "10GB"))
    shutil.rmtree(own)
    shutil.move(folder + ".tokenizer", own)

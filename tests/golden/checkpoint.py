"""Builds pipeline folders with random weights that make outputs vary as trained ones do."""
import io
import json
import os
import shutil

import sentencepiece
import transformers
from sentencepiece import sentencepiece_model_pb2

import families
import prompts
from parts import WEIGHT_DTYPES, build, by_counter, by_torch, fan_in, to_dtype

IDS = {"t5": dict(pad_id=0, eos_id=1, unk_id=2, bos_id=-1), "umt5": dict(pad_id=0, eos_id=1, bos_id=2, unk_id=3)}


def fill_text(model, draw):
    c = model.config
    for name, p in model.named_parameters():
        if "relative_attention_bias" in name:
            draw(name, p, 1.0)
        elif p.ndim == 1:
            draw(name, p, 0.2, 1.0)
        elif "shared" in name or "embed_tokens" in name:
            draw(name, p, 1.0)
        elif name.endswith("SelfAttention.q.weight"):
            draw(name, p, (c.d_model * c.d_kv) ** -0.5 * 1.5)
        else:
            draw(name, p, fan_in(p) ** -0.5)


def spread(model, total):
    """Pieces that no text has between those learnt, so that ids go up to `total`, as in a published tokenizer."""
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


def mappings(charsmap):
    """(text, what it becomes) of a precompiled map: the length of a Darts trie, the trie, strings that end with NUL."""
    end = 4 + int.from_bytes(charsmap[:4], "little")
    units, strings, found = memoryview(charsmap[4:end]).cast("I"), charsmap[end:], []

    def below(node, key):
        for byte in range(1, 256):
            at = node ^ byte
            if at >= len(units) or units[at] & 0x800000ff != byte:
                continue
            under = at ^ units[at] >> 10 << ((units[at] & 0x200) >> 6)
            if units[at] >> 8 & 1:
                value = units[under] & 0x7fffffff
                found.append((key + bytes([byte]), strings[value:strings.index(b"\0", value)]))
            below(under, key + bytes([byte]))
    below(units[0] >> 10 << ((units[0] & 0x200) >> 6), b"")
    return [(a.decode(), b.decode()) for a, b in found]


def write_narrow(path, model):
    """Of the model's mappings those whose characters stand in prompts, as sentencepiece reads them."""
    used = {c for p in prompts.prompts() for c in prompts.prompt_clean(p)}
    points = lambda text: " ".join(f"{ord(c):X}" for c in text)
    charsmap = sentencepiece_model_pb2.ModelProto.FromString(model).normalizer_spec.precompiled_charsmap
    with open(path, "w") as f:
        f.writelines(f"{points(a)}\t{points(b)}\n" for a, b in mappings(charsmap) if used.issuperset(a))


def train(spec, **rule):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(prompts.corpus(spec["below"])), model_writer=model, model_type="unigram",
        vocab_size=spec["pieces"] + (256 if spec["bytes"] else 0), character_coverage=0.985, hard_vocab_limit=False,
        byte_fallback=spec["bytes"], num_threads=1, minloglevel=2, pad_piece="<pad>", **rule, **IDS[spec["ids"]])
    return model.getvalue()


def make_tokenizer(folder, spec):
    """spec: ids, pieces, below, extra_ids, bytes, rule (normalisation), json (tokenizer.json beside spiece.model),
    narrow (optional: of the rule only what prompts need), total (optional: as many pieces as a published one has)."""
    os.makedirs(folder)
    spiece = os.path.join(folder, "spiece.model")
    model = train(spec, normalization_rule_name=spec["rule"])
    if spec.get("narrow"):
        path = os.path.join(folder, "narrow.tsv")
        write_narrow(path, model)
        m = sentencepiece_model_pb2.ModelProto.FromString(train(spec, normalization_rule_tsv=path))
        m.normalizer_spec.ClearField("normalization_rule_tsv")  # a path of this machine
        model = m.SerializeToString()
        os.remove(path)
    with open(spiece, "wb") as f:
        f.write(spread(model, spec["total"]) if "total" in spec else model)
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


def make_text(spec, vocab, draw, device):
    kind = spec["kind"].upper()
    config = getattr(transformers, f"{kind}Config")(
        vocab_size=vocab, d_model=spec["width"], d_kv=spec["head"], d_ff=spec["ff"], num_layers=spec["layers"],
        num_heads=spec["heads"], feed_forward_proj=spec["act"], relative_attention_num_buckets=spec["buckets"],
        relative_attention_max_distance=spec["distance"], dropout_rate=0.1, is_encoder_decoder=False, use_cache=False,
        pad_token_id=0, eos_token_id=1)
    model = getattr(transformers, f"{kind}EncoderModel")
    return build(lambda: model(config), fill_text, draw, device)


def t5_texts(folder, spec, draw, device):
    """T5 and its tokenizer, whose folder is made."""
    tokenizer = make_tokenizer(os.path.join(folder, "tokenizer"), spec["tokenizer"])
    vocab = spec["text"].get("vocab", -(-len(tokenizer) // 8) * 8)
    encoder = make_text(spec["text"], vocab, draw("text_encoder", 1), device)
    to_dtype(encoder, WEIGHT_DTYPES[spec["dtype"]], [])
    return {"tokenizer": tokenizer, "text_encoder": encoder}


def make_checkpoint(folder, spec, device="cpu", rules=None):
    """spec: see CASES of the families. Writes the whole pipeline; the folder must not exist. Weights are drawn on `device`;
    where `rules` is a dict they come from counter.py, under names that begin with the folder's own, and it gets their
    rules."""
    os.makedirs(folder)
    family = families.NAMED[spec.get("family", "wan")]

    def draw(part, k):
        if rules is None:
            return by_torch(spec["seed"] + k, device)
        return by_counter(f"{os.path.basename(folder)}/{part}", rules)
    texts = getattr(family, "texts", t5_texts)(folder, spec, draw, device)
    tokenizers = os.listdir(folder)
    for name in tokenizers:
        shutil.move(os.path.join(folder, name), f"{folder}.{name}")
    pipeline = family.IMAGE_PIPELINE if spec.get("request", {}).get("pictures") else family.PIPELINE
    pipe = pipeline(**texts, **family.components(spec, draw, device))
    pipe.save_pretrained(folder, safe_serialization=True, max_shard_size=spec.get("shard", "10GB"))
    for name in tokenizers:
        shutil.rmtree(os.path.join(folder, name))
        shutil.move(f"{folder}.{name}", os.path.join(folder, name))

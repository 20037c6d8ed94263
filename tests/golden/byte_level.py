"""Small byte-level tokenizers: Llama-3's tokenizer.json, CLIP's vocab.json and merges.txt. The same bytes at every run."""
import json
import os
from collections import Counter

import transformers
from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

import prompts

WORDS = "'s|'t|'re|'ve|'m|'ll|'d"
LLAMA = f"(?i:{WORDS})" + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|" + WORDS + r"|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
LLAMA_SPECIAL = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<pad>"]


def alphabet():
    """The characters of the bytes, in the published order."""
    byte = {b: chr(b) for b in [*range(33, 127), *range(161, 173), *range(174, 256)]}
    return [*byte.values(), *(chr(256 + i) for i in range(256 - len(byte)))]


def pieces(texts, split, behaviour, invert):
    cut = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(split), behaviour, invert=invert),
                                   pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    return Counter(word for t in texts for word, _ in cut.pre_tokenize_str(t))


def learn(counts, merges):
    """The most frequent pairs; of as frequent ones the first by name."""
    words, found = {tuple(w): n for w, n in counts.items()}, []
    while len(found) < merges:
        pairs = Counter()
        for word, n in words.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += n
        best = min(pairs, key=lambda p: (-pairs[p], p))
        found.append(best)
        merged = {}
        for word, n in words.items():
            out, i = [], 0
            while i < len(word):
                two = word[i:i + 2] == best
                out.append("".join(best) if two else word[i])
                i += 2 if two else 1
            merged[tuple(out)] = merged.get(tuple(out), 0) + n
        words = merged
    return found


def make_llama(folder, spec, whole):
    """spec: merges. The words of the text `whole` are tokens without a merge, by ignore_merges alone."""
    os.makedirs(folder)
    merges = learn(pieces(prompts.prompts(), LLAMA, "isolated", False), spec["merges"])
    vocabulary = {}
    for token in [*alphabet(), *("".join(m) for m in merges), *sorted(pieces([whole], LLAMA, "isolated", False))]:
        vocabulary.setdefault(token, len(vocabulary))
    t = Tokenizer(models.BPE(vocab=vocabulary, merges=merges, ignore_merges=True))
    t.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA), "isolated"),
                                               pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    t.add_special_tokens(LLAMA_SPECIAL)
    bos = LLAMA_SPECIAL[0]
    template = processors.TemplateProcessing(single=f"{bos} $A", special_tokens=[(bos, t.token_to_id(bos))])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump(json.loads(t.to_str()), f, ensure_ascii=False, separators=(",", ":"))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump({"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": bos, "eos_token": LLAMA_SPECIAL[1],
                   "pad_token": "<pad>", "model_max_length": 10**30}, f)
    return transformers.AutoTokenizer.from_pretrained(folder)


def make_clip(folder, spec):
    """spec: merges, pad (optional)."""
    os.makedirs(folder)
    counts = pieces([p.lower() for p in prompts.prompts()], CLIP, "removed", True)
    merges = learn(Counter({(*w[:-1], w[-1] + "</w>"): n for w, n in counts.items()}), spec["merges"])
    vocabulary = {}
    for token in [*alphabet(), *(c + "</w>" for c in alphabet()), *("".join(m) for m in merges), "<|startoftext|>",
                  "<|endoftext|>"]:
        vocabulary.setdefault(token, len(vocabulary))
    with open(os.path.join(folder, "vocab.json"), "w", encoding="utf-8") as f:
        json.dump(vocabulary, f, ensure_ascii=False, separators=(",", ":"))
    with open(os.path.join(folder, "merges.txt"), "w", encoding="utf-8") as f:
        f.write("#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in merges))
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump({"tokenizer_class": "CLIPTokenizer", "bos_token": "<|startoftext|>", "eos_token": "<|endoftext|>",
                   "unk_token": "<|endoftext|>", "pad_token": spec.get("pad", "<|endoftext|>"), "model_max_length": 77},
                  f)
    return transformers.AutoTokenizer.from_pretrained(folder)

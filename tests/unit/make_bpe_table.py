#!/usr/bin/env python3
"""Trains the small byte-level tokenizers of tests/unit/bpe and writes bpe_table.h: their ids, by transformers.

    python tests/unit/make_bpe_table.py > tests/unit/bpe_table.h

bpe/llama has tokenizer.json as Llama-3 has it, bpe/clip vocab.json and merges.txt as CLIP has them. test_bpe.c repeats the
files beside these. The trainer breaks ties in another way at each run: keep all files of one. Versions:
tests/golden/requirements.txt.
"""
import json
import pathlib
import tempfile

from tokenizers import AddedToken, Regex, Tokenizer, models, pre_tokenizers, processors, trainers
from transformers import AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent
PROMPTS = [json.loads(line)["prompt"] for line in open(HERE.parent / "golden/fixtures/prompts_200.txt")]
WORDS = "'s|'t|'re|'ve|'m|'ll|'d"
CLIP_REST = WORDS + r"|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
CLIP = r"<\|startoftext\|>|<\|endoftext\|>|" + CLIP_REST
GPT2 = WORDS + r"| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA = f"(?i:{WORDS})" + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
QWEN = LLAMA.replace("{1,3}", "")
SPLITS = (CLIP, GPT2, CLIP_REST, LLAMA, QWEN)
TEXTS = (
    "", " ", "a", "a  b", "  a b  ", "a\n", "\n\na", " \r\n \n x", "a !\n\n b", "\t\tx", "tabs\tand\u00a0spaces\u3000",
    "\u2028x\u0085\u001c\u180e y", "It's I'M we'RE they'Ll he'D isn'T 's 'x ' ''s", "'\u017fx \u017f", "don''t I'mx",
    "1", "1234567", "12 345 6", "\u00b2\u2167\uff11\uff12\u0664x9", "x1y22z333", "!!!", "a!b?? c...", "'\"'s", "\"Hi,\" (x) [y]\n",
    "e\u0301 \u00e9 \u1e9b\u0323 \u0301", "\u0130stanbul \u03a3\u038a\u03a3 \u1e9e \ufb01 \u01c5", "caf\u00e9 NA\u00cfVE",
    "\u4f60\u597d\uff0c\u4e16\u754c\uff01", "\u3053\u3093\u306b\u3061\u306f", "\uc548\ub155 \u1112\u1161\u11ab",
    "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0939\u093f\u0928\u094d\u0926\u0940", "\u0645\u0631\u062d\u0628\u0627 \u200f\u0661\u0662",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 \u2764\ufe0f x", "\ufeffbom \ufffd \U0010ffff", "\u0120a </w> a</w>",
    "<|endoftext|>", "a<|endoftext|>!!<|startoftext|>b", "<|ENDOFTEXT|>x <|EndOfText|>", "<|endoftext", "!<|endoftext|>!",
    "<|eot_id|>", "a <|eot_id|> b<|eot_id|>", "<|begin_of_text|>x", "x <pad> y", "x<image> \n<image>y", "<|eot_id|><|eot_id|",
    " hummingbird", "the hummingbirds are rainy", "a photo of a cat playing the piano", "zzzzzzzzzzzzzzzzzzzz", "aaaaaaa",
)
SPECIALS = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]


def train(size, split, invert, suffix):
    """A tokenizer without added tokens, and its JSON."""
    t = Tokenizer(models.BPE(end_of_word_suffix=suffix) if suffix else models.BPE(ignore_merges=True))
    steps = [pre_tokenizers.Split(Regex(split), "removed" if invert else "isolated", invert=invert),
             pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=bool(suffix))]
    t.pre_tokenizer = pre_tokenizers.Sequence(steps)
    t.train_from_iterator([p.lower() if suffix else p for p in PROMPTS], trainers.BpeTrainer(
        vocab_size=size, end_of_word_suffix=suffix, show_progress=False,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()), special_tokens=[]))
    return t, json.loads(t.to_str())


def make_llama(folder):
    """Two words have no merges, as in Llama-3: they are there by ignore_merges alone."""
    model = train(900, LLAMA, False, "")[1]
    for word in ("\u0120hummingbird", "\u0120rainy"):
        model["model"]["vocab"].setdefault(word, len(model["model"]["vocab"]))
    merges = model["model"]["merges"]
    t = Tokenizer.from_str(json.dumps(model))
    t.add_special_tokens(SPECIALS)
    t.add_tokens([AddedToken("<image>", lstrip=True, rstrip=True, normalized=False), AddedToken("<pad>")])
    bos = t.token_to_id(SPECIALS[0])
    template = processors.TemplateProcessing(single=f"{SPECIALS[0]} $A", special_tokens=[(SPECIALS[0], bos)])
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), template])
    model = json.loads(t.to_str())
    model["model"]["merges"] = [" ".join(m) for m in merges]
    (folder / "tokenizer.json").write_text(json.dumps(model, ensure_ascii=False, separators=(",", ":")))
    (folder / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": SPECIALS[0], "eos_token": SPECIALS[1],
         "pad_token": "<pad>", "model_max_length": 10**30}) + "\n")


def make_clip(folder):
    merges = train(700, CLIP, True, "</w>")[1]["model"]["merges"]
    byte = {b: chr(b) for b in [*range(33, 127), *range(161, 173), *range(174, 256)]}
    byte |= {b: chr(256 + i) for i, b in enumerate(b for b in range(256) if b not in byte)}
    vocabulary = {}
    for token in [*byte.values(), *(c + "</w>" for c in byte.values()), *("".join(m) for m in merges),
                  "<|startoftext|>", "<|endoftext|>"]:
        vocabulary.setdefault(token, len(vocabulary))
    (folder / "vocab.json").write_text(json.dumps(vocabulary, ensure_ascii=False, separators=(",", ":")) + "\n")
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(" ".join(m) + "\n" for m in merges))


def clip_config(pad):
    """As test_bpe.c writes it."""
    special = {"__type": "AddedToken", "lstrip": False, "normalized": True, "rstrip": False, "single_word": False}
    return {"tokenizer_class": "CLIPTokenizer", "bos_token": {"content": "<|startoftext|>", **special},
            "eos_token": {"content": "<|endoftext|>", **special}, "unk_token": {"content": "<|endoftext|>", **special},
            "pad_token": pad, "model_max_length": 77}


def clip_of(folder, config):
    with tempfile.TemporaryDirectory() as d:
        for name in ("vocab.json", "merges.txt"):
            (pathlib.Path(d) / name).write_bytes((folder / name).read_bytes())
        (pathlib.Path(d) / "tokenizer_config.json").write_text(json.dumps(config))
        return AutoTokenizer.from_pretrained(d)


def checksum(ids):
    h = 2166136261
    for i in ids:
        h = (h ^ i) * 16777619 % 2**32
    return h


def wrapped(values):
    lines, line = [], "   "
    for v in values:
        if line.strip() and len(line) + len(v) > 116:
            lines.append(line)
            line = "   "
        line += f" {v},"
    return "\n".join([*lines, line])


def flat(lists):
    return wrapped([str(v) for entry in lists for v in [*entry, -1]])


def literal(text):
    return '"' + "".join(f"\\{b:03o}" if b < 32 or b > 126 or chr(b) in '"\\?' else chr(b) for b in text.encode()) + '"'


def main():
    llama, clip = HERE / "bpe/llama", HERE / "bpe/clip"
    for make, folder in ((make_llama, llama), (make_clip, clip)):
        folder.mkdir(parents=True, exist_ok=True)
        make(folder)
    tokenizers = (AutoTokenizer.from_pretrained(llama), clip_of(clip, {"tokenizer_class": "CLIPTokenizer"}),
                  clip_of(clip, clip_config("<|endoftext|>")), clip_of(clip, clip_config("!")))
    print("/* bpe_table.h - made by make_bpe_table.py. Lists end with -1. */")
    print("#ifndef SG_BPE_TABLE_H\n#define SG_BPE_TABLE_H\n\n#include <stdint.h>\n")
    print(f"enum {{ TABLE_TEXTS = {len(TEXTS)}, TABLE_SPLITS = {len(SPLITS)}, TABLE_TOKENIZERS = {len(tokenizers)} }};\n")
    print("static const char *const table_texts[TABLE_TEXTS] = {\n" + wrapped(map(literal, TEXTS)) + "\n};\n")
    print("static const char *const table_regex[TABLE_SPLITS] = {\n" + wrapped(map(literal, SPLITS)) + "\n};\n")
    print("/* Bytes of the words of each text. */\nstatic const int table_words[] = {")
    for regex in SPLITS:
        split = pre_tokenizers.Split(Regex(regex), "removed", invert=True)
        print(flat([len(word.encode()) for word, _ in split.pre_tokenize_str(t)] for t in TEXTS))
    print("};\n\n/* Of each text: llama, clip, clip as its first files were, clip with \"!\" for a pad. */")
    print("static const int table_ids[] = {")
    for t in tokenizers:
        print(flat(t(text).input_ids for text in TEXTS))
    print("};\n\n/* FNV-1a of the ids of each prompt of prompts_200.txt, of at most 77. */")
    print(f"static const uint32_t table_prompts[TABLE_TOKENIZERS][{len(PROMPTS)}] = {{")
    for t in tokenizers:
        sums = [checksum(t(p, truncation=True, max_length=77).input_ids) for p in PROMPTS]
        print("    {\n" + wrapped(f"{s:#x}" for s in sums) + "\n    },")
    print("};\n\n#endif")


if __name__ == "__main__":
    main()

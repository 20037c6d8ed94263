"""Check an exported folder on a CPU: tokenizers agree, the recipe's shortcuts equal diffusers, everything is finite.

python3 check.py --folder ..
"""
import json
import random
from pathlib import Path

import sentencepiece as spm
import torch
from diffusers import WanPipeline
from transformers import AutoTokenizer

import captions
import denoiser
import heldout
import onepass
import world
from runtime import parser, psnr

ODD = [
    "", " ", "\t\n", "</s>", "a red </s> ball", "</s></s>", "<pad>", "a <unk> ball", "<extra_id_0>",
    "A RED BALL", "É", "ß", "ﬁve ﬂying ｂａｌｌｓ", "１２３ ①②③", "漢字 かな カナ ｶﾅ", "Ünïcödé naïve façade",
    "e\u0301 a\u0300", "İstanbul ıi", "ΑΒΓ αβγ ς", "Привет МИР", "שלום עולם", "مرحبا", "हिन्दी", "ไทย", "한국어",
    "🎈🎾 red ball", "👩\u200d🚀", "a\u00a0red\u2003ball", "zero\u200bwidth", "soft\u00adhyphen",
    "“quotes” ‘single’", "dash – — …", "a_b-c/d\\e", "100% $5 €5 £3", "line\nbreak", "tab\tred",
    "  many   spaces  ", "▁red▁ball", "x" * 300, "unbelievable!!!", "the quick brown fox", "don't", "ŉ ǆ ĳ",
    "½ ¾ ℃ ™ ㎏", "\ufeffred", "a\u0000b", "\u0085red", "æøå ÆØÅ",
]


def strings(count, seed=0):
    """Odd strings, training captions, and both mixed with upper case and arbitrary characters."""
    rng, out = random.Random(seed), list(ODD)
    spec = world.draw_spec(count, torch.Generator().manual_seed(seed), which="all")
    for caption in captions.varied(spec, rng)[:count - len(ODD)]:
        kind = rng.randrange(5)
        if kind == 1:
            caption = caption.title() if rng.random() < .5 else caption.upper()
        elif kind == 2:
            caption = " ".join((caption, rng.choice(captions.FILLERS), rng.choice(ODD), "!"))
        elif kind == 3:
            letters = list(caption)
            for _ in range(4):
                letters.insert(rng.randrange(len(letters) + 1), chr(rng.choice((rng.randrange(33, 0x250),
                                                                                rng.randrange(0x370, 0x2000)))))
            caption = "".join(letters)
        out.append(caption)
    return out


def check_tokenizer(folder, count):
    """spiece.model + </s> against AutoTokenizer.

    Special tokens written in the text are split out first, as a tokenizer of this folder must do. NEL is white space
    for tokenizer.json only, and is left out.
    """
    fast = AutoTokenizer.from_pretrained(folder)
    plain = spm.SentencePieceProcessor(model_file=str(folder / "spiece.model"))
    special = {"<pad>": captions.PAD, "</s>": captions.EOS, "<unk>": captions.UNK}

    def encode(text):
        ids, rest = [], text
        while rest:
            found = [(rest.find(s), s) for s in special if s in rest]
            at, name = min(found) if found else (len(rest), "")
            ids += plain.encode(rest[:at])
            if name:
                ids.append(special[name])
            rest = rest[at + len(name):]
        return ids + [captions.EOS]

    tried = [s for s in strings(count) if "\u0085" not in s]
    wrong = [s for s in tried if fast(s).input_ids != encode(s)]
    for s in wrong:
        print("  differs:", repr(s), fast(s).input_ids, encode(s))
    print(f"tokenizer: {len(tried) - len(wrong)} of {len(tried)} strings give the same ids; {len(plain)} pieces")
    assert max(max(fast(s).input_ids) for s in tried) < len(plain)
    return not wrong


def largest(a, b):
    return ((a - b).abs().max() / b.abs().max()).item()


@torch.no_grad()
def check_networks(folder, size, frames):
    pipe = WanPipeline.from_pretrained(folder, torch_dtype=torch.float32)
    generator = torch.Generator().manual_seed(1)
    spec = world.draw_spec(1, generator, which="all")
    clip = world.render(spec, frames, size, size, "cpu", generator, dtype=torch.float32)[0]
    theirs, ours = pipe.vae._encode(clip), onepass.encode(pipe.vae, clip)
    print(f"vae encode, one pass against diffusers: largest error / largest value {largest(ours, theirs):.1e}")
    z = theirs.chunk(2, 1)[0]
    theirs, ours = pipe.vae._decode(z).sample, onepass.decode(pipe.vae, z).clamp(-1, 1)
    error = ((theirs - clip) ** 2).mean().item()
    print(f"vae decode: {largest(ours, theirs):.1e}; this clip {psnr(error):.1f} dB")
    prompt = captions.canonical(spec)
    text = pipe.encode_prompt(prompt, do_classifier_free_guidance=False, max_sequence_length=512)[0]
    x, t = torch.randn(z.shape, generator=generator), torch.tensor([700.])
    theirs = pipe.transformer(x, t, text, return_dict=False)[0]

    class Alone:
        device = torch.device("cpu")
        autocast = staticmethod(lambda: torch.autocast("cpu", enabled=False))

    ids = captions.Tokenizer(folder / "tokenizer" / "spiece.model")(prompt)
    keys = denoiser.PaddedText("cpu")
    keys.set_warm(1.)
    pipe.transformer.set_attn_processor(keys)
    ours = pipe.transformer(x, t, denoiser.encode_text(pipe.text_encoder, ids, Alone), return_dict=False)[0]
    print(f"denoiser with collapsed padding: {largest(ours, theirs):.1e}")
    pipe = WanPipeline.from_pretrained(folder, torch_dtype=torch.bfloat16)
    pipe.set_progress_bar_config(disable=True)
    out = pipe(prompt[0], negative_prompt="", height=size, width=size, num_frames=frames, num_inference_steps=3,
               guidance_scale=3., generator=generator, output_type="pt").frames
    print("bf16 render finite:", bool(out.isfinite().all()))


def main():
    args = parser(__doc__, folder=("..", "the model folder"), strings=(400, "for the tokenizer"),
                  size=(64, "frame size"), frames=(9, "frames")).parse_args()
    folder = Path(args.folder)
    total = sum(f.stat().st_size for f in folder.glob("*/*") if f.parent.name != "recipe")
    total += sum(f.stat().st_size for f in folder.glob("*.json"))
    print(f"model: {total / 2 ** 20:.2f} MiB; defaults {json.loads((folder / 'sparge-gen.json').read_text())}")
    same = check_tokenizer(folder / "tokenizer", args.strings)
    for name, lines in heldout.texts().items():
        agrees = (heldout.FOLDER / name).read_text().splitlines() == lines
        print(f"prompts/{name}: {len(lines)} lines,", "as the recipe gives" if agrees else "DIFFERENT")
        same = same and agrees
    check_networks(folder, args.size, args.frames)
    raise SystemExit(0 if same else 1)


if __name__ == "__main__":
    main()

"""The language of the world: attribute vocabularies, captions, and the SentencePiece tokenizer that reads them.

A caption names size, colour, shape, motion and background of one object. The first phrase of each list is the
canonical one, which the judge's held-out prompts use; training also sees the others, so that a prompt may be short
("on green grass") or worded another way ("jumping").
"""
import io
import random

import sentencepiece
import torch
from sentencepiece import sentencepiece_model_pb2 as pb

SHAPES = ["ball", "square", "triangle", "star", "heart", "ring"]
COLOURS = ["red", "green", "blue", "yellow", "purple", "orange", "white", "pink"]
SIZES = [["small", "little", "tiny"], [""], ["large", "big", "huge"]]
MOTIONS = [
    ["bouncing", "jumping", "bouncing up and down", "bounces"],
    ["moving left", "moving to the left", "moves left"],
    ["moving right", "moving to the right", "moves right"],
    ["rising", "flying up", "floating up", "rises"],
    ["falling", "falling down", "dropping", "falls"],
    ["spinning", "rotating", "turning around", "spins"],
    ["circling", "moving in circles", "circles"],
    ["growing", "getting bigger", "grows"],
    ["shrinking", "getting smaller", "shrinks"],
    ["standing still", "resting", "not moving", "stands still"],
]
BACKGROUNDS = [
    ["on green grass under a blue sky", "on green grass", "on the grass", "on grass", "in a green meadow"],
    ["in the night sky", "at night", "under the stars", "in a starry night"],
    ["over the ocean", "over the sea", "over the water"],
    ["in the desert at sunset", "in the desert", "at sunset"],
    ["on a checkerboard floor", "on a checkerboard", "on a tiled floor"],
    ["in falling snow", "in the snow", "while snow is falling"],
    ["on a plain gray background", "on a gray background", "on a grey background", "on a plain background"],
]
# Words that say nothing about the picture. They are mixed into training captions so that a word outside the
# vocabulary is skipped over instead of derailing the text encoder.
FILLERS = """
beautiful nice cute shiny pretty simple funny bright old new happy lovely single round soft glossy wooden metal
plastic fast slowly quickly quietly gently smoothly video clip movie animation cartoon scene shot picture image
render realistic cinematic detailed high quality camera view close wide light day morning summer winter garden park
house street city forest mountain river beach island world space dog cat bird fish horse car boat train robot child
man woman people person toy flower tree cloud rain wind fire sun moon very really one lonely alone here there some
that this it its with and of by from near behind around into through over while dance dancing running walking
swimming playing sitting looking holding made make makes four k hd best amazing perfect great good style art
painting drawing photo colour color shape thing object
""".split()

PAD, EOS, UNK = 0, 1, 2
MAX_TOKENS = 32          # longest caption in tokens, </s> included


def canonical(spec):
    """The judge's wording: one fixed caption for each sample of a spec of int tensors."""
    rows = zip(*(spec[k].tolist() for k in ("size", "colour", "shape", "motion", "background")))
    nouns = [(" ".join(w for w in (SIZES[z][0], COLOURS[c], SHAPES[s]) if w), m, b) for z, c, s, m, b in rows]
    return [f"{'an' if noun[0] in 'aeiou' else 'a'} {noun} {MOTIONS[m][0]} {BACKGROUNDS[b][0]}" for noun, m, b in nouns]


def varied(spec, rng: random.Random):
    """Training captions: half canonical phrases, half synonyms; four word orders; fillers, articles and a full stop."""
    out = []
    for z, c, s, m, b in zip(*(spec[k].tolist() for k in ("size", "colour", "shape", "motion", "background"))):
        def pick(phrases):
            return phrases[0] if rng.random() < 0.5 else rng.choice(phrases)
        noun = " ".join(w for w in (pick(SIZES[z]), COLOURS[c], SHAPES[s]) if w)
        motion, place = pick(MOTIONS[m]), pick(BACKGROUNDS[b])
        if rng.random() < 0.03:
            motion = ""
        if rng.random() < 0.03:
            place = ""
        article = rng.choice(("a", "a", "a", "the", "one", ""))
        if noun[0] in "aeiou" and article == "a":
            article = rng.choice(("a", "an"))
        form = rng.random()
        if form < 0.5:
            words = [article, noun, motion, place]
        elif form < 0.65:
            words = [rng.choice(("a video of", "a clip of", "there is", "video of")), article, noun, motion, place]
        elif form < 0.8:
            words = [place + rng.choice(("", ",")) if place else "", article, noun, motion]
        elif form < 0.9:
            words = [article, noun, place, motion]
        else:
            words = [article, noun, "is", motion, place] if motion else [article, noun, place]
        text = " ".join(w for w in words if w).split()
        if rng.random() < 0.15:
            for _ in range(rng.randint(1, 2)):
                text.insert(rng.randint(0, len(text)), rng.choice(FILLERS))
        text = " ".join(text)
        out.append(text + "." if rng.random() < 0.15 else text)
    return out


def vocabulary():
    """Every word of the captions, sorted: each becomes one whole piece."""
    phrases = SHAPES + COLOURS + sum(SIZES, []) + sum(MOTIONS, []) + sum(BACKGROUNDS, [])
    phrases += ["a an the one is video clip of there"]
    return sorted(set(" ".join(phrases).split()))


def make_spiece(path, size=400, seed=0):
    """Write a Unigram spiece.model (pad 0, eos 1, unk 2): the trainer's subwords plus all words and characters.

    The trainer gives normaliser and subwords from captions and fillers; words of the vocabulary that it left in parts
    are then put in as whole pieces, with scores that make the whole word the best path.
    nmt_nfkc_cf is NFKC with case folding: "A Red Ball" and "a red ball" are the same ids.
    """
    import world                                  # here, since world imports this module
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    corpus = varied(world.draw_spec(4000, generator=generator, which="all"), rng) + FILLERS * 8
    model = io.BytesIO()
    words = vocabulary()
    characters = [chr(c) for c in range(33, 127) if not chr(c).isupper()]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=model, model_type="unigram", vocab_size=260,
        normalization_rule_name="nmt_nfkc_cf", pad_id=PAD, eos_id=EOS, unk_id=UNK, bos_id=-1, hard_vocab_limit=False,
        pad_piece="<pad>", eos_piece="</s>", unk_piece="<unk>", num_threads=1, minloglevel=2)
    proto = pb.ModelProto.FromString(model.getvalue())
    special = [(p.piece, p.score, p.type) for p in proto.pieces[:3]]
    pieces = {"▁" + w: -4.0 for w in words}
    pieces["▁"] = -3.0
    # A character costs more than any word, so that whole words win; subwords lie between.
    pieces.update({c: -14.0 for c in characters})
    for p in sorted(proto.pieces[3:], key=lambda p: -p.score):
        if len(pieces) < size - 3 and len(p.piece) > 1 and p.piece not in pieces:
            pieces[p.piece] = min(-9.0, round(p.score, 4))
    del proto.pieces[:]
    for piece, score, kind in special:
        proto.pieces.add(piece=piece, score=score, type=kind)
    for piece, score in sorted(pieces.items(), key=lambda item: (-item[1], item[0])):
        proto.pieces.add(piece=piece, score=score, type=pb.ModelProto.SentencePiece.NORMAL)
    proto.trainer_spec.vocab_size = len(proto.pieces)
    with open(path, "wb") as file:
        file.write(proto.SerializeToString())


class Tokenizer:
    """Token ids as the exported folder's tokenizer gives them: SentencePiece, then </s>, then zeros."""

    def __init__(self, path):
        self.model = sentencepiece.SentencePieceProcessor(model_file=str(path))

    def __len__(self):
        return self.model.get_piece_size()

    def __call__(self, captions):
        ids = torch.zeros(len(captions), MAX_TOKENS, dtype=torch.long)
        for row, encoded in zip(ids, self.model.encode(captions)):
            encoded = encoded[:MAX_TOKENS - 1] + [EOS]
            row[:len(encoded)] = torch.tensor(encoded)
        return ids

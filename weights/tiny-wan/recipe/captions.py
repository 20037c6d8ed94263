"""The language of the world: attribute vocabularies, captions, and the SentencePiece tokenizer that reads them.

A caption names size, colour, shape and motion of one or two objects, the background, and what the camera does. The
first phrase of each list is the canonical one, which the held-out prompts use; training also sees the others, in
several tenses and word orders, so that a prompt may be short ("on green grass") or worded another way ("will jump").
"""
import io
import random

import sentencepiece
import torch
from sentencepiece import sentencepiece_model_pb2 as pb

SHAPES = [["ball", "sphere"], ["cube", "square", "box"], ["pyramid", "triangle"], ["star"], ["heart"],
          ["ring", "donut"]]
COLOURS = [["red"], ["green"], ["blue"], ["yellow"], ["purple", "violet"], ["orange"], ["white"], ["pink"], ["black"],
           ["cyan", "turquoise"]]
SIZES = [["small", "little", "tiny"], [""], ["large", "big", "huge"]]
# A verb is its -ing form, its third person, its plain form and its past, then what follows it.
MOTIONS = [
    ["bouncing bounces bounce bounced", "bouncing bounces bounce bounced|up and down", "jumping jumps jump jumped",
     "hopping hops hop hopped"],
    ["moving moves move moved|left", "moving moves move moved|to the left", "sliding slides slide slid|left",
     "going goes go went|left", "travelling travels travel travelled|to the left"],
    ["moving moves move moved|right", "moving moves move moved|to the right", "sliding slides slide slid|right",
     "going goes go went|right", "travelling travels travel travelled|to the right"],
    ["rising rises rise rose", "floating floats float floated|up", "flying flies fly flew|up",
     "moving moves move moved|up", "climbing climbs climb climbed"],
    ["falling falls fall fell", "falling falls fall fell|down", "dropping drops drop dropped",
     "sinking sinks sink sank", "moving moves move moved|down"],
    ["spinning spins spin spun", "rotating rotates rotate rotated", "turning turns turn turned|around",
     "twirling twirls twirl twirled"],
    ["circling circles circle circled", "moving moves move moved|in circles", "flying flies fly flew|in a circle",
     "moving moves move moved|in a circle"],
    ["growing grows grow grew", "getting gets get got|bigger", "growing grows grow grew|larger",
     "expanding expands expand expanded"],
    ["shrinking shrinks shrink shrank", "getting gets get got|smaller", "becoming becomes become became|smaller"],
    ["standing stands stand stood|still", "resting rests rest rested", "staying stays stay stayed|in place",
     "waiting waits wait waited"],
]
BACKGROUNDS = [
    ["on green grass under a blue sky", "on green grass", "on the grass", "on grass", "in a green meadow",
     "in a meadow under drifting clouds"],
    ["in the night sky", "at night", "under the stars", "in a starry night", "while stars twinkle"],
    ["over the ocean", "over the sea", "over the water", "above the waves", "above the ocean"],
    ["in the desert at sunset", "in the desert", "at sunset", "among sand dunes", "in a desert while the sun sets"],
    ["on a checkerboard floor", "on a checkerboard", "on a tiled floor", "on a chessboard"],
    ["in falling snow", "in the snow", "while snow is falling", "in winter while it snows", "while it is snowing"],
    ["on a plain gray background", "on a gray background", "on a grey background", "on a plain background",
     "in a studio"],
    ["under water among bubbles", "under water", "underwater", "deep in the water", "at the bottom of the sea"],
    ["in front of misty mountains", "in the mountains", "before misty mountains", "in the mountains at dawn"],
    ["under the northern lights", "under an aurora", "beneath the northern lights", "under a green aurora"],
    ["on a wooden table", "on a table", "on a wooden desk", "on a table by a window"],
]
CAMERAS = [
    ["", "the camera is still", "static camera", "the camera does not move"],
    ["the camera pans left", "panning left", "camera pan to the left", "the camera moves left"],
    ["the camera pans right", "panning right", "camera pan to the right", "the camera moves right"],
    ["the camera zooms in", "zooming in", "slow zoom in", "the view gets closer"],
    ["the camera zooms out", "zooming out", "slow zoom out", "the view gets wider"],
]
# Pairs of attributes that no training clip shows: each is (name, value, name, value), by canonical words.
HELD_OUT = [
    ("colour", "red", "shape", "heart"), ("colour", "blue", "shape", "star"), ("colour", "yellow", "shape", "cube"),
    ("colour", "green", "shape", "ring"), ("colour", "purple", "shape", "ball"), ("colour", "black", "shape", "star"),
    ("colour", "white", "shape", "pyramid"), ("colour", "cyan", "shape", "heart"),
    ("shape", "ball", "motion", "rising"), ("shape", "cube", "motion", "circling"),
    ("shape", "star", "motion", "moving left"), ("shape", "ring", "motion", "bouncing"),
    ("colour", "orange", "background", "over the ocean"), ("colour", "pink", "background", "in the night sky"),
    ("colour", "red", "background", "on a wooden table"), ("colour", "green", "background", "in falling snow"),
    ("motion", "spinning", "background", "on green grass under a blue sky"),
    ("motion", "falling", "background", "in the desert at sunset"),
    ("motion", "growing", "background", "on a checkerboard floor"),
    ("motion", "moving right", "background", "under water among bubbles"),
]
# Words that say nothing about the picture. They are mixed into training captions, as are made-up words, so that a
# word outside the vocabulary is skipped over instead of derailing the text encoder.
FILLERS = """
beautiful nice cute shiny pretty simple funny bright old new happy lovely single round soft glossy metal
plastic fast slowly quickly quietly gently smoothly clip movie animation cartoon scene shot picture image
render realistic cinematic detailed high quality close wide light day morning summer garden park
house street city forest river beach island world space dog cat bird fish horse car boat train robot child
man woman people person toy flower tree wind fire moon very really lonely alone here there some
that this it its with of by from near behind into through over dance dancing running walking
swimming playing sitting looking holding made make makes four hd best amazing perfect great good style art
painting drawing photo colour color shape thing object one two three
""".split()
SYLLABLES = """
ba be bi bo ca ce co da de di do el en er fa fi fo ga gi go ha he in ing ka ki la le li lo ly ma me mi mo na ne
ni no ol on or pa pe po qua ra re ri ro sa se si so st ta te ti to tion un va ve vi wa wi xe ya zo
""".split()

PAD, EOS, UNK = 0, 1, 2
MAX_TOKENS = 40          # longest caption in tokens, </s> included; a longer one loses its end


def phrase_of(verb, form=0):
    """A motion's words in one form: 0 "bouncing", 1 "bounces", 2 "bounce", 3 "bounced"."""
    verb, _, rest = verb.partition("|")
    return f"{verb.split()[form]} {rest}".strip()


def names(attribute):
    """The canonical words of an attribute's values."""
    table = dict(shape=SHAPES, colour=COLOURS, size=SIZES, motion=MOTIONS, background=BACKGROUNDS, camera=CAMERAS)
    return [phrase_of(words[0]) if attribute == "motion" else words[0] for words in table[attribute]]


def rows(spec):
    """A spec of int tensors as one dict of ints a sample."""
    columns = {k: v.tolist() for k, v in spec.items()}
    return [dict(zip(columns, values)) for values in zip(*columns.values())]


def objects(row):
    """(size, colour, shape, motion) of the one or two objects of a sample."""
    first = [(row["size"], row["colour"], row["shape"], row["motion"])]
    return first + [(row["size2"], row["colour2"], row["shape2"], row["motion2"])] * row["second"]


def article(noun):
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def canonical(spec):
    """One fixed caption a sample: "a small red ball bouncing and a blue cube standing still in falling snow"."""
    out = []
    for row in rows(spec):
        nouns, verbs = [], []
        for z, c, s, m in objects(row):
            nouns.append(article(" ".join(w for w in (SIZES[z][0], COLOURS[c][0], SHAPES[s][0]) if w)))
            verbs.append(phrase_of(MOTIONS[m][0]))
        if len(set(verbs)) == 1:
            text = f"{' and '.join(nouns)} {verbs[0]}"
        else:
            text = " and ".join(f"{noun} {verb}" for noun, verb in zip(nouns, verbs))
        camera = CAMERAS[row["camera"]][0]
        out.append(f"{text} {BACKGROUNDS[row['background']][0]}" + (f", {camera}" if camera else ""))
    return out


def clause(row, rng):
    """Subject and verb of a caption: "the big blue heart is spinning", "a red ball and a pink ring both fall"."""
    def pick(phrases):
        return phrases[0] if rng.random() < .5 else rng.choice(phrases)

    def noun(z, c, s):
        words = [pick(SIZES[z]), "" if rng.random() < .02 else pick(COLOURS[c]), pick(SHAPES[s])]
        text = " ".join(w for w in words if w)
        kind = rng.random()
        return article(text) if kind < .65 else "the " + text if kind < .8 else "one " + text if kind < .87 else text

    tense = rng.choice(("", "", "", "is", "is", "s", "s", "was", "will", "past"))

    def verb(motion, many):
        words = pick(MOTIONS[motion])
        if tense == "s":
            return phrase_of(words, 2 if many else 1)
        if tense == "will":
            return "will " + phrase_of(words, 2)
        if tense == "past":
            return phrase_of(words, 3)
        auxiliary = {"": "", "is": "are" if many else "is", "was": "were" if many else "was"}[tense]
        return f"{auxiliary} {phrase_of(words)}".strip()

    parts = [(noun(z, c, s), m) for z, c, s, m in objects(row)]
    if len(parts) == 1:
        return f"{parts[0][0]} {verb(parts[0][1], False)}" if rng.random() > .03 else parts[0][0]
    (a, m), (b, n) = parts
    if m == n:
        join = rng.choice(("and", "and", "and", "with", "next to", "beside"))
        return f"{a} {join} {b} {rng.choice(('', '', 'both '))}{verb(m, True)}"
    join = rng.choice(("and", "and", "while", "as"))
    return f"{a} {verb(m, False)} {join} {b} {verb(n, False)}"


def varied(spec, rng: random.Random):
    """Training captions: half canonical phrases, half synonyms; tenses, word orders, camera, noise words."""
    out = []
    for row in rows(spec):
        phrases = BACKGROUNDS[row["background"]]
        place = phrases[0] if rng.random() < .5 else rng.choice(phrases)
        if rng.random() < .03:
            place = ""
        text, form = clause(row, rng), rng.random()
        if form < .3 and place:
            text = f"{place}{rng.choice((',', ',', ''))} {text}"
        elif form < .4 and place:
            text = f"{text}, {place}"
        else:
            text = f"{text} {place}".strip()
        if rng.random() < .12:
            text = rng.choice(("a video of", "a clip of", "there is", "video of", "we see", "a film of")) + " " + text
        if row["camera"] or rng.random() < .15:   # a moving camera is always told, so that untold means still
            words = CAMERAS[row["camera"]]
            camera = words[0] if words[0] and rng.random() < .5 else rng.choice(words)
            if camera:
                join = rng.choice((",", ",", " as", " while", "."))
                text = f"{camera}, {text}" if rng.random() < .15 else f"{text}{join} {camera}"
        words = text.split()
        if rng.random() < .15:
            for _ in range(rng.randint(1, 2)):
                odd = rng.choice(FILLERS) if rng.random() < .6 else "".join(rng.choices(SYLLABLES, k=rng.randint(1, 4)))
                words.insert(rng.randint(0, len(words)), odd)
        out.append(" ".join(words) + ("." if rng.random() < .2 else ""))
    return out


def vocabulary():
    """Every word of the captions, sorted: each becomes one whole piece."""
    phrases = sum(SHAPES + COLOURS + SIZES + BACKGROUNDS + CAMERAS, [])
    phrases += [verb.replace("|", " ") for verbs in MOTIONS for verb in verbs]
    phrases += ["a an the one is are was were will both and with next to beside while as",
                "video clip film of there we see"]
    return sorted(set(" ".join(phrases).split()))


def known():
    """The words that the program takes without a notice: the vocabulary, and the filler that counts a pair."""
    return sorted([*vocabulary(), "two"])


def world():
    """What the model draws, for people: the program says it when a prompt has other words than known()'s."""
    return (f"tiny-wan draws {len(SHAPES)} shapes in {len(COLOURS)} colours, with {len(MOTIONS)} motions and "
            f"{len(BACKGROUNDS)} backgrounds")


def make_spiece(path, size=576, seed=0):
    """Write a Unigram spiece.model (pad 0, eos 1, unk 2): the trainer's subwords plus all words and characters.

    The trainer gives normaliser and subwords from captions and fillers; words of the vocabulary that it left in parts
    are then put in as whole pieces, with scores that make the whole word the best path.
    nmt_nfkc_cf is NFKC with case folding: "A Red Ball" and "a red ball" are the same ids.
    """
    from world import draw_spec                   # here, since world imports this module
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    corpus = varied(draw_spec(4000, generator=generator, which="all"), rng) + FILLERS * 8 + SYLLABLES * 8
    model = io.BytesIO()
    words = vocabulary()
    characters = [chr(c) for c in range(33, 127) if not chr(c).isupper()]
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(corpus), model_writer=model, model_type="unigram", vocab_size=size,
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

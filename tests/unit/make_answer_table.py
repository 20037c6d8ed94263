#!/usr/bin/env python3
"""Writes answer_table.h: what the published formulas of app/language/answer_score.h say of random answers.

    python tests/unit/make_answer_table.py > tests/unit/answer_table.h

ROUGE-L comes from the package rouge 1.0.1, by LongBench's call. The other formulas are written here once more.
"""
import collections
import random
import re
import string

from rouge import Rouge

LETTERS = "ABCD"
WORDS = ("the a an A The and park Park Dolores sandwich sunny sun day. day, It's co-op x_y xy a² 12 3.5 É é ÉCOLE école Straße "
         "“the cat” «an» ’a’ don't ... . , ! a.b the.cat 日本 Ж ж ²").split()
BLANKS = [" "] * 8 + ["  ", "\n", "\t", "\u00a0", "\u2003", "\x1c", ". ", " . ", ".\n"]
CLASSES = "city,city or state,state,color,human,human group,group".split(",")
TALK = ["The correct answer is", "answer is:", "Answer:", "answer:", "option is", " ", "\n", "\n", " B", " C", "C.", "(A)", " D",
        "'B'", "AB", "BD", "Be", "tea", " tea", "\"C\"", "é", "the answer\nis", "A", "  "]

# An earlier prefix before one that stands earlier; nothing behind a prefix; a letter after several; two blanks from a mark
SPOKEN = [" option is C. answer: B", " the answer is D answer: B", " the answer:", " it is AB or B",  "- A, the answer.  is: B"]


def overlap(answer, expected):
    wanted = expected.lower().split()
    return len(set(answer.lower().split()) & set(wanted)) / len(wanted) if wanted else 0


def words_of(text):
    kept = "".join(c for c in text.lower() if c not in string.punctuation)
    return [w for w in re.sub(r"\b(?:the|an?)\b", " ", kept).split()]


def f1(answer, expected):
    have, wanted = words_of(answer), words_of(expected)
    shared = sum((collections.Counter(have) & collections.Counter(wanted)).values())
    if not shared:
        return 0
    precision, recall = shared / len(have), shared / len(wanted)
    return 2 * precision * recall / (precision + recall)


def rouge_l(answer, expected):
    try:
        return Rouge().get_scores([answer], [expected], avg=True)["rouge-l"]["f"]
    except ValueError:  # a text without a sentence
        return 0


def by_class(answer, expected, choices):
    left = [c for c in choices if c in answer]
    at = 0
    while at < len(left):  # as a loop over a list goes from which it removes
        if left[at] != expected and left[at] in expected:
            del left[at]
        at += 1
    return 1 / len(left) if expected in left else 0


def by_letter(answer, label):
    answer = answer.strip()
    if not answer or answer[0] in LETTERS:
        return bool(answer) and answer[0] in label
    if answer in label:
        return True
    text = re.sub(" +", " ", re.sub(r"[\n\"'.,?!{}]", " ", answer))
    for prefix in ("answer is:", "answer:", "answer is", "option is"):
        before, found, after = text.partition(prefix)
        if found:
            return len(after) > 0 and any(after[1:].startswith(one) for one in label)
    named = [w for w in text.split() if w in LETTERS]
    return bool(named) and named[0] in label


def score(metric, answer, expected, choices):
    if metric in ("MATCH", "MATCH_ANY"):
        found = [e.lower() in answer.lower() for e in expected]
        return sum(found) / len(found) if metric == "MATCH" else float(any(found))
    if metric == "CHOICE" and not choices:
        return float(by_letter(answer, expected))
    if metric == "CHOICE":
        return max(by_class(answer, e, choices) for e in expected)
    return max({"OVERLAP": overlap, "F1": f1, "ROUGE_L": rouge_l}[metric](answer, e) for e in expected)


def salad(r, most):
    return "".join(r.choice(WORDS) + r.choice(BLANKS) for _ in range(r.randint(0, most)))


def cases(r):
    for metric, most in (("OVERLAP", 12), ("F1", 12), ("ROUGE_L", 30)):
        for _ in range(40):
            yield metric, salad(r, most), [salad(r, most) for _ in range(r.randint(1, 2))], []
    for _ in range(40):
        choices = r.sample(CLASSES, r.randint(3, len(CLASSES)))
        yield "CHOICE", " ".join(r.choices(CLASSES + ["It is"], k=r.randint(0, 3))), r.sample(choices, r.randint(1, 2)), choices
    for _ in range(60):
        yield "CHOICE", "".join(r.choices(TALK, k=r.randint(0, 5))), [r.choice(LETTERS), r.choice(("tea", "Be", "milk"))], []
    yield "CHOICE", "city or state", ["city or state"], ["city", "state", "city or state"]  # "state" follows one left out
    for answer in SPOKEN:
        yield "CHOICE", answer, ["B", "milk"], []
    for metric in ("MATCH", "MATCH_ANY"):
        for _ in range(20):
            answer = salad(r, 8)
            at = r.randint(0, len(answer))
            inside = r.choice((str.upper, str.lower))(answer[at:at + r.randint(1, 5)]) or "x"
            yield metric, answer, [inside] + r.sample(WORDS, r.randint(0, 2)), []


def quoted(text):
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in text.encode()) + '"'


def listed(texts):
    return "{" + ", ".join(map(quoted, texts)) + "}" if texts else "{0}"


def main():
    print("/* answer_table.h - made by make_answer_table.py. */")
    print("#ifndef SG_ANSWER_TABLE_H\n#define SG_ANSWER_TABLE_H\n")
    print("typedef struct answer_case {\n    sg_answer_metric metric;\n    const char      *answer, *expected[4], *choices[8];")
    print("    double           score;\n} answer_case;\n")
    print("static const answer_case answer_cases[] = {")
    for metric, answer, expected, choices in cases(random.Random(51)):
        points = score(metric, answer, expected, choices)
        print(f"    {{SG_ANSWER_{metric}, {quoted(answer)}, {listed(expected)}, {listed(choices)}, {points:.17g}}},")
    print("};\n\n#endif")


if __name__ == "__main__":
    main()

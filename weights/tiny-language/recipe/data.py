"""Text of Debian 12's documentation, its tokenizer and its tokens: python3 data.py --work work

Downloads the packages below (apt-get download), takes the English text out of their HTML, and writes to the work folder
  tokenizer.json   byte-level BPE of 2,048 tokens, split into words as Llama 3 does;
  train.u16.xz     tokens of the training pages, little-endian 16 bits, one <|end|> between pages;
  heldout.u16.xz   tokens of the pages that training never shows, chosen by a hash of the page's name.
Needs Python, dpkg and the package tokenizers.
"""
import argparse
import gzip
import hashlib
import html.parser
import lzma
import re
import subprocess
from pathlib import Path

import numpy as np

PACKAGES = ("aptitude-doc-en", "debian-faq", "debian-handbook", "debian-policy", "debian-reference-en",
            "debmake-doc", "developers-reference", "doc-debian", "harden-doc", "installation-guide-amd64", "linux-doc-6.1",
            "maint-guide", "postgresql-doc-15", "python3.11-doc")
OTHER = re.compile(r"[._/-](ca|cs|da|de|el|es|eu|fa|fi|fr|hr|hu|id|it|ja|ko|nb|nl|nn|pl|pt|ro|ru|sk|sv|tl|tr|uk|vi|zh"
                   r"|pt-br|pt_BR|zh-cn|zh-tw|nb-NO|[a-z]{2}[-_][A-Z]{2})(?=[./])(?<!en-US)"
                   r"|_sources|translations|genindex|py-modindex|search\.html")
VOCAB, END = 2048, 0
LLAMA = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")


class Page(html.parser.HTMLParser):
    """Collects the text of a page without scripts, styles and navigation."""
    BREAKS = {"p", "div", "li", "dt", "dd", "tr", "br", "pre", "h1", "h2", "h3", "h4", "h5", "table", "ul", "ol", "dl"}
    SKIPPED = {"script", "style", "head", "nav"}

    def __init__(self):
        super().__init__()
        self.parts, self.skip, self.pre = [], 0, 0

    def handle_starttag(self, tag, attrs):
        self.skip += tag in self.SKIPPED
        self.pre += tag == "pre"
        if tag in self.BREAKS:
            self.parts.append("\n")

    def handle_endtag(self, tag):
        self.skip -= tag in self.SKIPPED and self.skip > 0
        self.pre -= tag == "pre" and self.pre > 0
        if tag in self.BREAKS:
            self.parts.append("\n")

    def handle_data(self, data):
        if not self.skip:
            self.parts.append(data if self.pre else re.sub(r"\s+", " ", data))


def text_of(path, name_in_tree):
    """The text of a page, None where it is none of English. Sources of pages are skipped: they say the same."""
    if path.is_symlink() or not path.is_file() or not path.name.endswith((".html", ".html.gz")) or OTHER.search(name_in_tree):
        return None
    raw = gzip.open(path).read() if path.name.endswith(".gz") else path.read_bytes()
    page = Page()
    page.feed(raw.decode("utf-8", "replace"))
    text = "".join(page.parts)
    text = re.sub(r"[ \t]+\n", "\n", text.replace("\r", "").replace("\xb6", ""))
    text = re.sub(r"\n{2,}", "\n\n", text).strip()
    strange = sum(ord(c) > 0x2fff or c == "\ufffd" for c in text)
    return text if len(text) > 500 and strange < len(text) // 500 else None


def pages(work):
    """(name, text) of every page, sorted by name; equal pages once."""
    debs, tree = work / "debs", work / "tree"
    if not tree.exists():
        debs.mkdir(parents=True, exist_ok=True)
        tree.mkdir()
        subprocess.run(["apt-get", "download", *PACKAGES], cwd=debs, check=True)
        for deb in sorted(debs.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", deb, tree / deb.name.split("_")[0]], check=True)
    seen = set()
    for path in sorted(tree.rglob("*")):
        name = str(path.relative_to(tree))
        text = text_of(path, name)
        digest = hashlib.sha256((text or "").encode()).digest()
        if text and digest not in seen:
            seen.add(digest)
            yield name, text


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--work", type=Path, default=Path("work"))
    p.add_argument("--train-tokens", type=int, default=9_000_000)
    p.add_argument("--heldout-tokens", type=int, default=1_200_000)
    args = p.parse_args()
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    # Pages come in the order of a hash of their names: so the first of them are a fair sample.
    order = sorted(pages(args.work), key=lambda page: hashlib.sha256(page[0].encode()).digest())
    held, train = order[:len(order) // 8], order[len(order) // 8:]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(LLAMA), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.train_from_iterator((text for _, text in train), trainers.BpeTrainer(
        vocab_size=VOCAB, special_tokens=["<|end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False))
    tokenizer.save(str(args.work / "tokenizer.json"), pretty=False)
    for name, part, limit in (("train", train, args.train_tokens), ("heldout", held, args.heldout_tokens)):
        ids, used, shown = [], 0, 0
        for _, text in part:
            if len(ids) >= limit:
                break
            ids += [END, *tokenizer.encode(text).ids]
            used, shown = used + len(text.encode()), shown + 1
        tokens = np.array(ids[:limit], "<u2")
        packed = lzma.compress(tokens.tobytes(), preset=9)
        (args.work / f"{name}.u16.xz").write_bytes(packed)
        print(f"{name}: {shown} of {len(part)} pages, {tokens.size} tokens, {used / len(ids):.2f} bytes a token, {len(packed)} bytes "
              f"packed, sha256 of the tokens {hashlib.sha256(tokens.tobytes()).hexdigest()}")


if __name__ == "__main__":
    main()

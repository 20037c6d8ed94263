"""Writes charref_table.h from the list of HTML5 character references in Python's standard library.

    python3 model/text/charref_table.py > model/text/charref_table.h
"""
import html
from html.entities import html5

HEAD = """/* charref_table.h - the character references of HTML5, sorted by name. Written by charref_table.py.
 *
 * A row is the name without its semicolon, one or two code points, whether the semicolon may be missing, and the text
 * of the name written in capitals: 0 where that stands for nothing of its own, S where it is the same text. */
/* clang-format off */
#define S same_text
static const char same_text[] = "";
static const struct charref {
    const char *name;
    int         a, b, semicolon_optional;
    const char *capital;
} charrefs[] = {"""


def c_string(text):
    """UTF-8 in octal escapes, three digits each, so that no following digit can join them."""
    return '"' + "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\?' else f"\\{b:03o}" for b in text.encode()) + '"'


def row(name):
    text, capital = html5[name], "0"
    upper = "&" + name.upper()
    if name == name.lower() and html.unescape(upper) == upper:
        capital = "S" if text.upper() == text else c_string(text.upper())
    semicolon_optional = int(name[:-1] in html5)
    points = ",".join(f"{ord(c):#x}" for c in text.ljust(2, "\0"))
    return f'{{"{name[:-1]}",{points.replace("0x0", "0")},{semicolon_optional},{capital}}},'


def main():
    print(HEAD)
    line = ""
    for name in sorted((n for n in html5 if n.endswith(";")), key=lambda n: n[:-1]):
        if len(line) + len(row(name)) > 120:
            print(line)
            line = ""
        line += row(name)
    print(line + "\n};\n#undef S\n/* clang-format on */")


assert all(n + ";" in html5 for n in html5 if not n.endswith(";"))
main()

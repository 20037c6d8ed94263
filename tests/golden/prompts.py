"""The prompt list: 200 prompts in many scripts, with what diffusers' cleaning and each tokenizer make of them.

Invisible and confusable characters are written as escapes. Mojibake is left out: the program does not repair it.
"""
import json

from diffusers.pipelines.wan.pipeline_wan import prompt_clean
from transformers import AutoTokenizer

ENGLISH = """
a red ball bouncing on green grass
A cat playing piano in a jazz club, warm light, 35mm film
two dogs running through shallow water at sunset
close-up of a hummingbird's wings in slow motion
a paper boat drifts down a rainy gutter; the city lights blur
Waves crashing against black rocks, aerial view, drone shot
Fireworks bloom above the harbour, their reflections shimmering
macro shot of dew on a spider's web
MACRO, BOKEH, 8K, HDR, ULTRA-DETAILED
the quick brown fox jumps over the lazy dog
Sphinx of black quartz, judge my vow!
children fly kites over a wide meadow while the wind bends the tall grass
"""

LATIN = """
Ein roter Ball hüpft über die grüne Wiese – größer, schöner, süß
Un ballon rouge rebondit sur l'herbe; çà et là, des œufs à la coque
Una pelota roja rebota sobre la hierba… ¿por qué no? ¡Olé!
Czerwona piłka odbija się od zielonej trawy, zażółć gęślą jaźń
Piros labda pattog a zöld fűben, árvíztűrő tükörfúrógép
Kırmızı bir top çimenlerin üzerinde zıplıyor, İstanbul'da ışık
Quả bóng đỏ nảy trên bãi cỏ xanh, Việt Nam đẹp
Rød bold hopper på grønt græs, blåbærgrød
Raudonas kamuolys šokinėja ant žolės, ąčęėįšųūž
Sarkana bumba lēkā pa zāli, ģērbts ķēniņš
Mpira mwekundu unadunda kwenye nyasi za kijani
"""

CYRILLIC_GREEK = """
Красный мяч прыгает по зелёной траве
Съешь же ещё этих мягких французских булок, да выпей чаю
Кіт грає на піаніно в джаз-клубі, їжак і ґанок
Червена топка подскача по тревата
Қызыл доп жасыл шөпте секіреді
Улаан бөмбөг ногоон зүлгэн дээр үсэрч байна
Μια κόκκινη μπάλα αναπηδά στο πράσινο γρασίδι
Ξεσκεπάζω την ψυχοφθόρα βδελυγμία
ΚΟΚΚΙΝΗ ΜΠΑΛΑ, τέλος
Ἐν ἀρχῇ ἦν ὁ λόγος
"""

EAST = """
一个红球在绿草地上弹跳
熊猫在竹林里吃竹子，镜头缓缓推近。
色调艳丽，过曝，静态，细节模糊不清，字幕，风格
夜晚的城市，霓虹灯闪烁；行人匆匆！？
赤いボールが緑の芝生の上で弾む
雪山と湖、ドローンで撮影された美しい風景
ｶﾀｶﾅ半角とカタカナ全角、ＡＢＣ１２３
桜の花びらが舞い散る「春」の京都・嵐山
빨간 공이 푸른 잔디 위에서 튀고 있다
서울의 밤하늘, 네온사인이 반짝인다
훈민정음 \u1112\u116e\u11ab
ลูกบอลสีแดงกระเด้งบนหญ้าสีเขียว
แมวเล่นเปียโนในคลับแจ๊ส น้ำ
ကြက်သွေးရောင်ဘောလုံး
បាល់ក្រហមលោតលើស្មៅបៃតង
བོད་ཡིག་དམར་པོ།
ᠮᠣᠩᠭᠣᠯ
𠮷野家で𩸽を食べる
"""

SOUTH = """
हरी घास पर उछलती लाल गेंद
एक बिल्ली पियानो बजा रही है, क्षत्रिय श्री ज्ञान
সবুজ ঘাসে লাল বল লাফাচ্ছে
பச்சை புல்லில் சிவப்பு பந்து துள்ளுகிறது
ఎర్ర బంతి పచ్చని గడ్డిపై ఎగురుతోంది
ചുവന്ന പന്ത് പച്ചപ്പുല്ലിൽ
લાલ દડો લીલા ઘાસ પર ઉછળે છે
රතු පන්දුව තණකොළ මත ශ්\u200dරී
ሰማያዊ ኳስ በሣር ላይ
"""

RIGHT_TO_LEFT = """
كرة حمراء ترتد على العشب الأخضر
قِطَّةٌ تَعْزِفُ عَلَى البِيَانُو
توپ قرمز روی چمن سبز می\u200cپرد
سرخ گیند سبز گھاس پر اچھل رہی ہے
כדור אדום קופץ על דשא ירוק
שָׁלוֹם עוֹלָם
\u200fמימין לשמאל\u200e left to right
العدد ١٢٣٤٥ و ۶۷۸۹
ﷺ ﻻ ﺍﻟﺴﻼﻡ
ܫܠܡܐ ܥܠܡܐ
"""

OTHER_SCRIPTS = """
წითელი ბურთი მწვანე ბალახზე
Կարմիր գնդակը ցատկում է խոտի վրա
ᐃᓄᒃᑎᑐᑦ ᐊᐅᐸᖅᑐᖅ
ᏣᎳᎩ ᎦᏬᏂᎯᏍᏗ
ⵜⴰⵎⴰⵣⵉⵖⵜ
𝒜 𝓼𝓬𝓻𝓲𝓹𝓽 𝕭𝖑𝖆𝖈𝖐 𝟙𝟚𝟛
𐍈𐌰𐌹𐍂𐌽 gothic
ⓐⓑⓒ ① ② ㈱ ㌔ ㎏ ㏒
Ⅷ ⅷ ½ ⅓ x² x₂ 10⁻⁶ ℃ Å Å Ω
"""

EMOJI = [
    "a cat 🐱 and a dog 🐶", "👨\u200d👩\u200d👧\u200d👦 family at the beach", "🏳\ufe0f\u200d🌈 flag in the wind",
    "👍🏽 thumbs 👩🏾\u200d🚀 astronaut", "🇯🇵🇫🇷🇺🇦", "1\ufe0f\u20e3 2\ufe0f\u20e3 #\ufe0f\u20e3",
    "❤\ufe0f vs ❤ vs ❤\ufe0e", "🌊🌊🌊🌊🌊🌊🌊🌊", "☃☄★☆✈✂✅✨", "🫠🪿🫨 new emoji", "smile :-) ;-) ¯\\_(ツ)_/¯ (╯°□°)╯︵ ┻━┻",
]

PUNCTUATION = [
    "“curly” ‘quotes’ ‚low‛ „nine‟", "it’s the dog’s ball — isn’t it?", "«guillemets» ‹single›",
    "dash - – — ― \u2212 \u2010 \u2011", "ellipsis… three dots... ‥", "prime 5′ 10″ ‵", "bullet • · ‧ ∙ ・ ･",
    "ligatures: ﬁre ﬂow ﬀ oﬃce baﬄe ﬅ ﬆ", "Ĳsselmeer ĳs ŉ ǆ Ǆ ǉ ǌ ǳ", "ＦＵＬＬ　ＷＩＤＴＨ ｔｅｘｔ，１２３！？～",
    "￠￡￢￣￤￥￦ ｟x｠ ･ ﾟ ﾞ", "「角括弧」『二重』【隅付き】〈山〉《二重山》", "100% & more: $5, €6, £7, ¥8, ₹9, ₿1", "a/b\\c|d~e`f^g_h",
    "!?#@*+=<>{}[]()", "...---... ,,, ;;; ::: !!!", "3.14159 2,718,281 1e-6 0x1F 1/2", "©®™ § ¶ † ‡ № ℗",
    "x ≤ y ≥ z ≠ w ± ∞ ∑ ∫ √ π → ← ↔ ⇒",
]

ENTITIES = [
    "cats &amp; dogs", "cats &amp;amp; dogs", "cats &amp;amp;amp; dogs", "&lt;b&gt;bold&lt;/b&gt;",
    "caf&eacute; cr&egrave;me", "&#233; &#xE9; &#x1F600;",
    "&quot;quoted&quot; &#39;single&#39; &apos;apos&apos;", "&nbsp;&nbsp;spaces&nbsp;",
    "&ampersand &copy &notit; &noSuch;", "&#0; &#128; &#150; &#xD800; &#x110000;", "AT&T R&D &c &",
    "&hellip; &mdash; &ldquo;x&rdquo;", "&amp;lt;tag&amp;gt;", "&Eacute;&CounterClockwiseContourIntegral;&nGt;",
    "&#10;line&#13;&#9;tab", "<a href=\"x\">link &amp; text</a>", "&LT;&GT;&AMP;", "&amp;eacute; &amp;#233;",
    "&frac12; &sup2; &deg;C",
]

SPACES = [
    "", " ", "\t\n\r ", "  leading and trailing  ", "many     inner      spaces", "tab\tseparated\tvalues",
    "line one\nline two\n\nline four", "windows\r\nline\r\nends", "old mac\rline\rends",
    "\ufeffbyte order mark", "in\ufeffside \ufeff mark", "no\u00a0break\u00a0space",
    "thin\u2009hair\u200afigure\u2007space", "ideographic\u3000space", "zero\u200bwidth\u200bspace",
    "zero\u200cwidth\u200djoiner", "word\u2060joiner", "next\u0085line",
    "line\u2028separator paragraph\u2029separator", "soft\u00adhyphen", "ogham\u1680space",
    "form\ffeed vertical\vtab", "unit\x1fseparator file\x1cseparator", "bell\x07 null-free \x01\x02 del\x7f",
    "\x1b[31mred ansi\x1b[0m ball", "left\u200eto\u200fright \u202aembed\u202c", "\u2066isolate\u2069 \u061c",
]

COMBINING = [
    "cafe\u0301 vs caf\u00e9", "A\u030angstro\u0308m", "e\u0301\u0323 e\u0323\u0301",
    "n\u0303 o\u0302\u0301 u\u0308\u0304", "Z\u0351\u036b\u0343a\u0327l\u0328g\u0321o\u0322",
    "\u0301 lone accent", "q\u0307\u0323", "가\u11a8 \u1100\u1161", "\u30ab\u3099 \u30cf\u309a",
    "i\u0307 I\u0307 \u0130 \u0131", "\u00c5 \u212b A\u030a", "\u1e9b\u0323",
]

ADDED = [
    "</s>", "a cat</s> and a dog", "<pad>", "<pad><pad> padded", "<extra_id_0>",
    "fill <extra_id_0> in <extra_id_1> blanks", "<extra_id_99><extra_id_100>", "<extra_id_5 >", "<unk> unknown",
    "<s> begin </s>", "a </s> b </s> c", "<EXTRA_ID_0>", "&lt;/s&gt; escaped", "<0x41><0x0A>",
    "\u2581under\u2581score", "\u2581", "x\u2581 y",
]

CODE = [
    "int main(void) { return 0; } // done", "for i in range(10): print(i * 2)",
    "https://example.org/a?b=c&d=e#f", "user.name+tag@example.co.uk", "C:\\Users\\me\\file.txt",
    "{\"key\": [1, 2.5, null, true]}", "(a:1.2), [b], ((c:0.8)) --ar 16:9",
    "snake_case camelCase kebab-case PascalCase",
]

LONG = [
    "word " * 600, "a" * 1000, "红球" * 300, "the red ball bounces and " * 40, "🎈" * 150,
    "supercalifragilisticexpialidocious " * 5, "x" * 50 + " " + "y" * 50, "Слон " * 100 + "и мышь",
]


def prompts():
    blocks = [ENGLISH, LATIN, CYRILLIC_GREEK, EAST, SOUTH, RIGHT_TO_LEFT, OTHER_SCRIPTS]
    lines = [line for b in blocks for line in b.strip("\n").split("\n")]
    for group in (EMOJI, PUNCTUATION, ENTITIES, SPACES, COMBINING, ADDED, CODE, LONG):
        lines += group
    return lines


def corpus(below):
    """What a tokenizer is trained on: three of four prompts, so that each script has pieces and some have gaps; only
    those whose characters are all under `below`."""
    lines = [prompt_clean(p)[:400] for k, p in enumerate(prompts()) if k % 4 != 3]
    return [p for p in lines if p and not p.startswith("<") and ord(max(p)) < below] * 2


def write(path, tokenizers, raw):
    """tokenizers: name to folder; raw: those of families that give the tokenizer a prompt as it is."""
    load = lambda folders: {name: AutoTokenizer.from_pretrained(folder) for name, folder in folders.items()}
    loaded, loaded_raw = load(tokenizers), load(raw)
    with open(path, "w", encoding="ascii", newline="\n") as f:
        for p in prompts():
            clean = prompt_clean(p)
            ids = {name: t(clean, max_length=512, truncation=True, add_special_tokens=True).input_ids
                   for name, t in loaded.items()}
            row = {"prompt": p, "clean": clean, "ids": ids}
            if clean != p:
                row["raw_ids"] = {name: t(p, max_length=226, truncation=True, add_special_tokens=True).input_ids
                                  for name, t in loaded_raw.items()}
            f.write(json.dumps(row, separators=(",", ":")) + "\n")
    print(f"{path}: {len(prompts())} prompts")

# Arms of one prompt: a folder with an image of each, all side by side, and a report; a table on stdout. The image of an arm is
# what a render by the same options gives.
source "$LIB"
few=(--size 512x512 --frames 1 --steps 2 --cfg-scale 1 --dense-steps 0)
sparge-gen compare "${prompt[@]}" "${few[@]}" --arms 'dense,sparge:topk=0.25:tail=off,sage:name=8 bits' --json copy.json -o out 2>log ||
    fail "$(<log)"
expect_files copy.json log out out/dense.png out/sparge-topk=0.25-tail=off.png out/8-bits.png out/side.png \
    out/report.json out/report.html
cmp copy.json out/report.json || fail "two reports"
[[ $(head -n 1 out/report.html) == "<!doctype html>" && $(tail -n 1 out/report.html) == "</script>" ]] || fail "no page"
grep -q '^<script type="application/json" id="report">{"format":"sparge-gen compare","version":3,.*}</script>$' out/report.html ||
    fail "no report in the page"
for words in '"format": "sparge-gen compare"' '"tokens": 1024' '"same_kernel": \[\]' '"name": "8 bits"' \
    '"file": "sparge-topk=0.25-tail=off.png"' '"sheet": null' '"temporal_flickering": null' '"density": 0.25' '"relative_l2": \[' '"psnr": null' '"warm_up": ' \
    '"arms": "dense,sparge:topk=0.25:tail=off,sage:name=8 bits"' '"kept": \[' '"predict": ' '"attention_error": null' '"attention_error": {' '"relative_l1": 0.0' \
    '"measured": "before compression"' '"repeat": 1' '"speedup": null' '"shared_steps": \[\]' '"rounds": \['; do
    grep -q -- "$words" copy.json || fail "no $words in the report"
done
grep -q '^1/3: dense$' log && grep -q '^sparge:topk=0.25:tail=off: sparge in the last 2 of 2 steps: top-k 0.25' log || fail "$(<log)"
[[ $(grep -c '^reading the prompt 1/1' log) == 1 ]] || fail "the prompt was read more than once"
sparge-gen info out/side.png | sed -n '/^again: /,$p'
grep -qF "\"command\": \"$(sparge-gen info out/side.png | sed -n 's/^again: //p')\"" copy.json || fail "no command in the report"
clip=out/sparge-topk=0.25-tail=off.png
again=$(sparge-gen info $clip | sed -n '/^again: /,$p')
eval "${again#again: } -q -o alone.png" || fail "$again"
cmp $clip alone.png || fail "$clip is not what a render gives"

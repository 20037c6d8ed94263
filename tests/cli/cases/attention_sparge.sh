# A sparse render says how much it left out, reports each layer and step, and the command that info prints makes it again.
source "$LIB"
large=(--size 512x512 --frames 1 --steps 2 --cfg-scale 1)
sparge-gen "${prompt[@]}" "${large[@]}" --topk 0.25 --pv 6 --dense-layers 0,4-5 --tail off --json j -v -o a.png 2>log || fail "$(<log)"
for words in '"attention": "sparge"' '"why": "step"' '"why": "layer"' '"why": "policy"' '"density": 0.25' '"mass": 0.' \
    '"pv_groups": [1-9]' '"topk": 0.25' '"dense_layers": "0,4-5"' '"predict": ' '"sparge": 3'; do
    grep -q -- "$words" j || fail "no $words in the report"
done
grep -q '^attention: sparge in the last 1 of 2 steps: top-k 0.25 by error, pv 6, tail off, order hilbert-cube, layers 0,4-5 dense$' log ||
    fail "$(<log)"
grep -q '^step  1  dense   one of the first steps$' log || fail "$(<log)"
grep -Eq '^step  2  sparge   25 % of blocks kept, [0-9]+ % of their score' log || fail "$(<log)"
grep -Eq '^attention: 75 % of blocks skipped in 1 of 2 steps \(1 dense: the first\), 3 of 6 layers dense' log || fail "$(<log)"
again=$(sparge-gen info a.png | sed -n '/^again: /,$p')
eval "${again#again: } -q -o b.png" || fail "$again"
cmp a.png b.png || fail "$again"

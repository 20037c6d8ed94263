# `tune --text`: thresholds of a language model's heads by the beginning of a text, as a table, a file and JSON; what it refuses.
source "$LIB"
language=$(readlink -f "$SPARGE_GEN_MODEL/../tiny-language")
text=("$language/recipe"/* "$language/README.md" "$0")
cat "${text[@]}" >some.txt
cat some.txt some.txt some.txt some.txt some.txt some.txt >text.txt

# 2,304 tokens; half of them with the same beginning; and in the usual place, where it is not written again over another's
tune=(tune -m "$language" --text text.txt --threads 1)
sparge-gen "${tune[@]}" --length 2304 -o found.json --json report.json --l1 0.08 --l2 0.09 >table || fail
grep -q "^layer 2  *0\.[0-9]*$" table || fail "$(<table)"
grep -q "^timesteps" table && fail "a text has no steps: $(<table)"
has found.json format="sparge-gen thresholds" rule=topk layers=4 heads=3 "buckets[0]=0" policy.order=row bound.l1=0.08
has report.json command=tune model=tiny-language text=text.txt tokens=2304 rule=topk "heads[11].layer=3" "heads[11].head=2"
[[ $(json report.json 'heads[*].l1' | awk '$1 <= 0.08' | wc -l) == 12 ]] || fail "$(json report.json 'heads[*].l1')"
[[ $(json report.json 'heads[*].density' | awk '$1 > 0 && $1 <= 1' | wc -l) == 12 ]] || fail "$(<report.json)"

# the same again is the same; a mass
sparge-gen "${tune[@]}" --length 2304 -o again.json --l1 0.08 --l2 0.09 -q >name || fail
cmp found.json again.json || fail "not the same"
[[ $(<name) == again.json ]] || fail "$(<name)"
sparge-gen "${tune[@]}" --length 1100 --rule tau -o - >tau.json || fail
has tau.json rule=tau layers=4

# beside the model, which is a copy: written by tune for this user, it is replaced
mkdir copy && cp "$language"/*.json "$language"/*.safetensors copy/
for _ in 1 2; do sparge-gen tune -m copy --text text.txt --length 1024 -q >name || fail; done
[[ $(<name) == copy/sparge-attention.json ]] || fail "$(<name)"

head -c 1000 text.txt >short.txt
printf 'a\377b%02000d' 0 >bytes.txt
: >empty.txt
refused 2 "short.txt: " tune -m "$language" --text short.txt -o x.json
refused 2 "no blocks are skipped below 1024" tune -m "$language" --text short.txt -o x.json
refused 1 "none.txt" tune -m "$language" --text none.txt -o x.json
refused 1 "empty.txt" tune -m "$language" --text empty.txt -o x.json
refused 2 "bytes.txt: " tune -m "$language" --text bytes.txt -o x.json
refused 2 "--length: '1000' is not a whole number from 1024" "${tune[@]}" --length 1000 -o x.json
refused 2 "--prompt has no effect with --text" "${tune[@]}" -p "a ball" -o x.json
refused 2 "--buckets has no effect with --text" "${tune[@]}" --buckets 2 -o x.json
refused 2 "--cache has no effect with --text" "${tune[@]}" --cache -o x.json
refused 2 "--length has no effect without --text" tune -m "$language" -p "a ball" --length 2000 -o x.json
refused 2 "--l2 0.01 is below --l1 0.08" "${tune[@]}" --l1 0.08 --l2 0.01 -o x.json
refused 1 "" tune -m "$SPARGE_GEN_MODEL" --text text.txt -o x.json

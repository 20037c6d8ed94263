# `language`: a text, a needle, answers and prefill by the embedded language model; what is there is not read again.
source "$LIB"
top=${LIB%/*}/../..
model=(-m "$top/weights/tiny-language" -t 1 -q)
cat "$top"/README.md "$top"/app/GUIDE.md | head -c 15000 >text

# every token but the first is scored once; an arm that is exact is the first one
sparge-gen language perplexity text "${model[@]}" --window 2048 --arms dense,dense:name=same,sparge:topk=0.3:sim=-1 --kl -o out >table || fail
has out/summary.json task=perplexity groups[0]=perplexity rows[1].kl.mean=0.0 rows[1].top1.mean=1.0 rows[1].perplexity.change.mean=0.0 rows[0].density.mean=1.0
awk -v d="$(json out/summary.json 'rows[2].density.mean')" -v k="$(json out/summary.json 'rows[2].kl.mean')" 'BEGIN { exit !(d < .5 && k > 0) }' ||
    fail "$(<table)"
sum() { json "$1" arm_index scored | awk '$1 == 0 { n += $2 } END { print n }'; } # of the first arm
sparge-gen language perplexity text "${model[@]}" --window 2048 --stride 700 --arms dense -o strides >/dev/null || fail
# where windows meet, the first token of the next has nothing before it
[[ $(($(sum out/results.jsonl) + $(json out/summary.json items) - 1)) == "$(sum strides/results.jsonl)" ]] || fail "$(sum out/results.jsonl), $(sum strides/results.jsonl)"
sparge-gen language perplexity text "${model[@]}" --window 2048 --stride 2049 2>log
[[ $? == 2 && $(<log) == *"--stride: 2049 is more than the 2048 tokens of a window"* ]] || fail "$(<log)"

# an interrupted run goes on: the same figures, and only what lacks is read; another set-up is refused
lines=$(wc -l <out/results.jsonl)
cp out/results.jsonl whole
head -c -100 whole >out/results.jsonl
sparge-gen language perplexity text "${model[@]}" --window 2048 --arms dense,dense:name=same,sparge:topk=0.3:sim=-1 --kl -o out >again || fail
[[ $(wc -l <out/results.jsonl) == $((lines + 2)) && $(sed '/density/d' again) == "$(sed '/density/d' table)" ]] || fail "$(<again)"
sparge-gen language perplexity text "${model[@]}" --window 1024 --arms dense,dense:name=same,sparge:topk=0.3:sim=-1 --kl -o out 2>log
[[ $? == 2 && $(<log) == *"out holds results"*"window: 2048 -> 1024"* ]] || fail "$(<log)"
echo '{"version":1}' >>out/results.jsonl
sparge-gen language perplexity text "${model[@]}" --window 2048 --arms dense,dense:name=same,sparge:topk=0.3:sim=-1 --kl -o out 2>log
[[ $? == 1 && $(<log) == *"out/results.jsonl: line $((lines + 3)): arm is missing"* ]] || fail "$(<log)"

# a needle at each length and depth, and the page
mkdir hay && cp text hay/a.txt
sparge-gen language needle --haystack hay "${model[@]}" --lengths 1000,1500 --depths 0,50,100 --max-tokens 5 --arms dense -o needle >/dev/null || fail
[[ $(json needle/results.jsonl length depth metric | tr '\n' ' ') == "1000.0 0.0 overlap 1000.0 50.0 overlap 1000.0 100.0 overlap 1500.0 0.0 overlap 1500.0 50.0 overlap 1500.0 100.0 overlap " ]] ||
    fail "$(<needle/results.jsonl)"
grep -q '"task":"needle"' needle/report.html || fail "no page"
sparge-gen language needle --haystack hay "${model[@]}" --lengths 210 2>log
[[ $? == 2 && $(<log) == *"--lengths: too short for the needle"* ]] || fail "$(<log)"

# answers: by what a line says, by tokens that are the likeliest, and by their likelihood
cat >set.jsonl <<'END'
{"context":"one two","input":"three?","answers":["no such words"],"dataset":"qa","all_classes":null}
{"input":"a","outputs":["x","y"],"metric":"match","group":"ruler"}
{"input":"a","answer":"A","options":["b","c"],"group":"choice"}
{"ids":[5,6,7,8,9],"asked":[1,2,4],"group":"recall"}

{"ids":[5,6,7,8,9],"group":"text"}
END
sparge-gen language set.jsonl "${model[@]}" --arms dense --max-tokens 4 -o set >/dev/null || fail
[[ $(json set/results.jsonl group metric tokens | awk 'NR != 1 && NR != 2 && NR != 3' | tr '\n' ' ') == "recall - 5 text - 5 " ]] || fail "$(<set/results.jsonl)"
[[ $(json set/results.jsonl metric | tr '\n' ' ') == "f1 match choice " && $(json set/results.jsonl right) == [01][01] ]] || fail "$(<set/results.jsonl)"
sparge-gen language set.jsonl "${model[@]}" --arms dense --max-tokens 4 --window 8 -o short >/dev/null || fail
json short/results.jsonl cut | grep -q '^[1-9]' || fail "no prompt was cut"
# the letter of InfiniteBench's choices counts as the answer, and of some of LongBench's sets the first line alone
b='"input":"B\nB\nB\nB\nB\nB\nB\nB\nB\n"'
printf '{%s,%s}\n' "$b" '"answer":["zzz"],"options":["y","zzz"]' "$b" '"answer":["y"],"options":["y","zzz"]' "$b" '"answer":["B"],"dataset":"trec"' \
    "$b" '"answer":["B"]' >letters.jsonl
sparge-gen language letters.jsonl "${model[@]}" --arms dense --max-tokens 8 -o letters >/dev/null || fail
[[ $(json letters/results.jsonl score | head -n 3 | tr '\n' ' ') == "1.0 0.0 1.0 " ]] || fail "$(<letters/results.jsonl)"
grep -q '"group":"trec".*"answer":"B"}' letters/results.jsonl || fail "$(<letters/results.jsonl)"
grep -q '"answer":"B\\nB' letters/results.jsonl || fail "$(<letters/results.jsonl)"
refused() { # LINE MESSAGE
    printf '{"input":"a","answers":["b"]}\n%s\n' "$1" >bad.jsonl
    sparge-gen language bad.jsonl "${model[@]}" 2>log
    [[ $? == 1 && $(<log) == *"bad.jsonl: line 2: $2"* ]] || fail "$(<log)"
}
refused '{"input":"a"' "column 12: not valid JSON"
refused '[1]' "should be a JSON object"
refused '{"context":"a"}' "has neither input, a string, nor ids"
refused '{"ids":[1,"2"]}' "ids should be whole numbers"
refused '{"ids":[1,2],"asked":[2]}' "asked should be places in ids"
refused '{"input":"a","answers":[""]}' "an answer is empty"
refused '{"input":"a"}' "has no answers"
echo '{"ids":[1,99999]}' >bad.jsonl
sparge-gen language bad.jsonl "${model[@]}" 2>log
[[ $? == 1 && $(<log) == *"99999"* ]] || fail "$(<log)"

# how long prefill takes
sparge-gen language prefill "${model[@]}" --lengths 300,1200 --arms dense,sage --repeat 2 --json prefill.json >/dev/null || fail
has prefill.json task=prefill lengths[1].tokens=1200 lengths[1].arms[1].name=sage lengths[1].measured.runs=2
sparge-gen language prefill "${model[@]}" --arms dense --repeat 1 | grep -q "^8192 tokens, dense: " || fail "the usual length"

# what is asked for in vain
refuse() { # MESSAGE ARGUMENT...
    sparge-gen language "${@:2}" 2>log
    [[ $? == 2 && $(<log) == *"$1"* ]] || fail "$(<log)"
}
refuse "language needs a task" -m x
refuse "not 'perplexty'" perplexty -m x
refuse "language perplexity needs a file" perplexity -m x
refuse "language needs a model" perplexity text
refuse "language needle needs a folder of texts" needle -m x
refuse "--depths has no effect on perplexity" perplexity text -m x --depths 1
refuse "steps has no effect on a text" perplexity text -m x --arms dense:steps=3
refuse "--lengths: '5,x' is not a list" prefill -m x --lengths 5,x

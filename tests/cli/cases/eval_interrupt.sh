# Ctrl-C ends at the next step, exit code 130; the same command goes on.
source "$LIB"
printf 'a\nb\n' >set.txt
command=(eval --prompts set.txt --size 32x32 --frames 5 --cfg-scale 1 --steps 300 --arms dense -t 1)
in_background "${command[@]}" --out out
wait_for test -s out/results.jsonl
kill -INT $!
wait $!
[[ $? == 130 && $(tail -n 1 log) == "sparge-gen: interrupted" ]] || fail "$(<log)"
[[ $(ls -A out/dense | wc -l) == 1 ]] || fail "$(ls -A out/dense)"
sparge-gen "${command[@]}" --out out -q || fail
[[ $(wc -l <out/results.jsonl) == 2 ]] || fail

# What comes from files and arguments cannot steer a terminal, wherever it is printed; JSON has it as it is.
source "$LIB"
steer=$'\e]0;x\a\e[31m\xc2\x9b2J'
model=model$steer
own_model "$model" '{"negative_prompt": "no\u001b[31m\u009b2J"}'
rm "$model/sparge-attention.json"
sed 's/^/a ball/' <<<"$steer"$'\n'"$steer" >"prompts$steer"
sed 's/^/a ball/; s/$/ '"$steer"'/' <<<"$steer"$'\n'"$steer" >eval.txt
one=(-m "$model" --size 32x32 --frames 1 --steps 1)
run() { sparge-gen "$@" >>log 2>&1 || fail "$* $(cat -v log)"; }
run info "${one[@]}"
run "${one[@]}" --prompt-file "prompts$steer" -v -o "out$steer.y4m"
run eval "${one[@]}" --prompts eval.txt --arms dense,dense:cfg-scale=0.5:name=b -o "eval$steer"
run tune -m "$model" --size 256x256 --frames 13 --steps 1 --buckets 1 --prompt-file "prompts$steer"
sparge-gen "${one[@]}" --prompt-file "no$steer" >>log 2>&1 && fail "no such file"
grep -q 'negative prompt: no\\x1b\[31m\\xc2\\x9b2J' log || fail "info: $(grep negative log | cat -v)"
for line in '1/2: a ball?]0;x??\[31m??2J' 'model?]0;x??\[31m??2J in ' 'out?]0;x??\[31m??2J-0001.y4m: ' '/sparge-attention.json: '; do
    grep -q "$line" log || fail "no $line in $(cat -v log)"
done
LC_ALL=C grep -n $'[\x01-\x09\x0b-\x1f\x7f]\|\xc2[\x80-\x9f]' log | cat -v | grep . && fail "a control character is printed"
sparge-gen info --json - "${one[@]}" >j || fail
[[ $(<j) == *'"negative_prompt": "no\u001B[31m'$'\xc2\x9b2J"'* ]] || fail "$(grep negative j | cat -v)"

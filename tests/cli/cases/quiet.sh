# --quiet: stdout has the names of the files, a line each, or a report; stderr has errors and a drawn seed. Without it a warning that is
# a screen of lines away is said again at the end.
source "$LIB"
has_stderr() { [[ $(<log) == "$1" ]] || fail "stderr: $(<log)"; }
# what it draws, for as many steps as it was not made for, of words that it does not know: all that is warned of
warned=(-p "a cat" "${small[@]}" --frames 1 --negative-prompt cube --lora "$SPARGE_GEN_MODEL/fast.safetensors")
[[ $(sparge-gen "${warned[@]}" -q -o a.png --json r.json 2>log) == a.png ]] || fail "stdout"
has_stderr ""
sparge-gen "${warned[@]}" -q -o b.png --json - >report 2>log || fail
has_stderr "" && has report output=b.png || fail "stdout is not a report"
sparge-gen "${warned[@]}" -q -o - >c.y4m 2>log && sparge-gen "${warned[@]}" -q -o d.y4m >names && cmp c.y4m d.y4m || fail "stdout is not the clip"
[[ $(<names) == d.y4m ]] || fail "$(<names)"
[[ $(sparge-gen "${warned[@]}" -q --batch 2 --seed -1 -o e.png --grid g.png 2>log | tr '\n' ' ') == "e-0001.png e-0002.png g.png " ]] ||
    fail "stdout"
[[ $(<log) =~ ^"sparge-gen: seeds "[0-9]+" to "[0-9]+$ ]] || fail "$(<log)"
sparge-gen "${warned[@]}" -q -o none/a.png >names 2>log
[[ $? == 1 && ! -s names && $(wc -l <log) == 1 ]] || fail "$(<log)"
rm -- *
printf 'a red ball\n' >set.txt
few=("${small[@]}" --frames 5 --arms dense,dense:steps=3:name=three -q)
[[ $(sparge-gen compare -p ball "${few[@]}" -o folder 2>log) == folder && ! -s log ]] || fail "compare: $(<log)"
[[ $(sparge-gen eval --prompts set.txt "${few[@]}" -o results 2>log) == results && ! -s log ]] || fail "eval: $(<log)"
[[ $(sparge-gen check --size 16x16 --frames 1 --steps 1 -q 2>log) == "every operation agrees"* && ! -s log ]] || fail "check: $(<log)"

sparge-gen -p "a cat" "${small[@]}" --frames 1 --batch 2 -o few.png 2>log || fail
[[ $(grep -c "never seen" log) == 1 ]] || fail "$(<log)"
sparge-gen -p "a cat" "${small[@]}" --frames 1 --batch 12 -o many.png 2>log || fail
[[ $(grep -c "never seen" log) == 2 && $(tail -n 2 log | head -n 1) == "warnings, once more:" ]] || fail "$(<log)"

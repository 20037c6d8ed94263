# --batch N makes N clips of each prompt, with consecutive seeds, numbered as those of a prompt file; each is what its seed alone
# gives. After the last seed comes 0, and a drawn one is told.
source "$LIB"
one=("${small[@]}" --frames 1)
sparge-gen "${prompt[@]}" "${one[@]}" --batch 2 --seed 7 -o a.png --json a.json 2>log || fail "$(<log)"
[[ $(grep -c 'reading the prompt' log) == 1 ]] || fail "the prompt was read for each clip"
for i in 1 2; do has a-000$i.json seed=$((6 + i)) settings.seed=$((6 + i)); done
sparge-gen "${prompt[@]}" "${one[@]}" --seed 8 -o b.png -q || fail
cmp a-0002.png b.png || fail "not the clip of seed 8"
printf '# two\na red ball\na blue cube\n' >set.txt
sparge-gen --prompt-file set.txt "${one[@]}" --batch_count 2 -o c.png --json - >reports 2>log || fail "$(<log)"
[[ $(json reports settings.seed | tr -d '\n') == 0101 ]] || fail "$(<reports)"
[[ $(json reports settings.prompt | uniq -c | tr -s ' \n' ' ') == " 2 a red ball 2 a blue cube " ]] || fail "$(<reports)"
expect_files a-0001.{png,json} a-0002.{png,json} b.png c-000{1,2,3,4}.png reports set.txt log
sparge-gen "${prompt[@]}" "${one[@]}" --batch 2 --seed -1 -q -o d.png 2>log || fail
read -r first last < <(tr -cd '0-9 \n' <log)
((last == first + 1)) || fail "$(<log)"
sparge-gen "${prompt[@]}" "${one[@]}" --batch 2 --seed 9223372036854775807 -q -o d.png --json - | json - seed | tr '\n' ' ' >seeds
[[ $(<seeds) == "9223372036854775807 0 " ]] || fail "$(<seeds)"

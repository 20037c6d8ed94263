# Numbers begin with 1, for clips as for frames. The clips of a prompt file and of --batch have one, even a single clip: all of a prompt
# before those of the next. In name-%04d.png an image takes its clip's number; of several frames the clip's comes first. Prompts may
# come from stdin.
source "$LIB"
one=("${small[@]}" --frames 1 -q)
echo "a red ball" >one.txt
sparge-gen --prompt-file one.txt "${one[@]}" -o file.png --json file.json >/dev/null || fail
sparge-gen "${prompt[@]}" "${one[@]}" --batch 1 -o batch.png --preview seen.png >/dev/null || fail
expect_files one.txt file-0001.{png,json} batch-0001.png seen-0001.png
rm -- *
printf 'a red ball\n# no prompt\na blue cube\n' | sparge-gen --prompt-file - "${one[@]}" --batch 2 --seed 5 -o i%d.png --json - >reports || fail
[[ $(json reports output settings.prompt settings.seed) == "i1.png a red ball 5
i2.png a red ball 6
i3.png a blue cube 5
i4.png a blue cube 6" ]] || fail "$(<reports)"
expect_files i{1,2,3,4}.png reports
rm -- *
printf 'a red ball\na blue cube' | sparge-gen --prompt-file - "${small[@]}" --frames 5 -q -o f-%02d.png >names || fail
printf '%s\n' f-000{1,2}-0{1,2,3,4,5}.png >wanted
cmp names wanted || fail "$(<names)"
# shellcheck disable=SC2046
expect_files names wanted $(<names)
sparge-gen -p "a blue cube" "${small[@]}" --frames 5 -q -o g-%02d.png >/dev/null || fail
for i in 1 5; do cmp f-0002-0$i.png g-0$i.png || fail "not the frames of the second prompt"; done
refused 2 "--prompt-file: -: has no prompt in it" --prompt-file - "${one[@]}" </dev/null

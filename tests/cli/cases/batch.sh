# --batch N makes N clips of each prompt, with consecutive seeds, which are printed, numbered as those of a prompt file; each is what
# its seed alone gives.
source "$LIB"
one=("${small[@]}" --frames 1)
sparge-gen "${prompt[@]}" "${one[@]}" --batch 2 --seed 7 -o a.png --json a.json 2>log || fail "$(<log)"
grep -o '^[12]/2: .*' log
grep -h '"seed"' a-0001.json a-0002.json
sparge-gen "${prompt[@]}" "${one[@]}" --seed 8 -o b.png -q || fail
cmp a-0002.png b.png || fail "not the clip of seed 8"
grep -c 'reading the prompt' log # of both clips
printf '# two\na red ball\na blue cube\n' >set.txt
sparge-gen --prompt-file set.txt "${one[@]}" --batch_count 2 -o c.png --json - 2>log | grep '^    "\(prompt\|seed\)"'
grep -o '^\(./4\|set.txt\): .*' log
expect_files a-0001.{png,json} a-0002.{png,json} b.png c-000{1,2,3,4}.png set.txt log
sparge-gen "${prompt[@]}" "${one[@]}" --batch 2 --seed -1 -q -o d.png 2>&1 | sed 's/[0-9]\+/N/g'
sparge-gen "${prompt[@]}" "${one[@]}" --batch 2 --seed 9223372036854775807 -o d.png 2>&1 | grep -o 'seed [0-9]*:'
try "${prompt[@]}" --batch 2 --latents l.safetensors
try "${prompt[@]}" --batch 2 -o -
try "${prompt[@]}" --batch 2 --capture-qkv 0:0:q.safetensors
try "${prompt[@]}" --batch 0
yes ball | head -n 200 >many.txt
try --prompt-file many.txt --batch 10000

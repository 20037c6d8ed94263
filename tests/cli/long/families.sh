# Models whose text stands in one sequence with the video's tokens: before them, and behind, of another length in each pass.
# What the commands say of their attention, save and measure; the peak is as planned.
source "$LIB"
[[ -d $FIXTURES/mochi_hd64 ]] || skip "no mini checkpoints beside the program"
export OMP_NUM_THREADS=1

# Of a process of 20 MiB the libraries' own memory is more than a twentieth.
within_a_twentieth() {
    local -i measured planned off
    measured=$(($(sed -n 's/^  "peak_bytes": \([0-9]*\).*/\1/p' "$1") / 1024))
    planned=$(($(sed -n 's/^    "peak_bytes": \([0-9]*\).*/\1/p' "$1") / 1024))
    off=$((measured - planned))
    ((20 * ${off#-} <= measured || ${off#-} <= 4096)) || fail "$1: $measured KiB measured, $planned KiB planned"
}

# family NAME LAYERS FRAMES TEXT, as the captured file has it
family() {
    local clip=(-m "$FIXTURES/$1" --size 256x256 --frames "$3" --steps 2 --threads 1 -p "a red ball")
    sparge-gen "${clip[@]}" --topk 0.3 --capture-qkv 1:1:q.safetensors --json r.json -o "$1.y4m" 2>log || fail "$(<log)"
    grep -Eq '^attention: [1-9][0-9] % of blocks skipped in 1 of 2 steps' log || fail "$1: $(<log)"
    within_a_twentieth r.json
    head -c 300 q.safetensors | grep -aqE "\"grid\":\"[0-9],(16,16|32,32)\",$4," || fail "$1: $(head -c 300 q.safetensors)"
    sparge-gen tune "${clip[@]}" -q -o t.json --json tune.json >/dev/null || fail "tune $1"
    grep -q "\"layers\": $2" t.json || fail "$1: $(<t.json)"
    sparge-gen info "$FIXTURES/$1" --size 256x256 --frames "$3" --sparse-config t.json |
        grep -q '^attention  sparge in the last .* steps: tuned thresholds' || fail "info $1"
    # every chunk of the decoder has its time, whatever frames it makes, and a schedule of two steps is warmed up
    sparge-gen compare "${clip[@]}" --size 64x64 --steps 3 --arms dense,dense:steps=2 -o "c_$1" >/dev/null 2>log || fail "$(<log)"
    ! grep -A9 '"decode": \[' "c_$1/report.json" | grep -q ' 0.0,\?$' || fail "$1: a chunk without a time"
    rm -r "c_$1" "$1.y4m"
}
# Of two denoisers each has figures in its own steps alone.
sparge-gen tune -m "$FIXTURES/wan22_a14b" --size 256x256 --frames 17 --steps 4 --buckets 2 -p "a cat" -q -o two.json >table ||
    fail "tune wan22_a14b"
grep -Eq '^layer 0  +0\.[0-9]{4}  +-$' table && grep -Eq '^layer 1  +-  +0\.[0-9]{4}$' table || fail "$(<table)"
rm two.json table

family cogvideox_2b 2 17 '"text_prefix":"24","text_suffix":"0"'
family mochi_hd64 2 19 '"text_prefix":"0","text_suffix":"[1-9]"'
family hunyuan_hd16 4 17 '"text_prefix":"0","text_suffix":"[1-9]"'
family flux_dev 4 1 '"text_prefix":"512","text_suffix":"0"'

# A shift by the tokens is told, and it is not an option of the command that renders again; a shift that is named is.
sparge-gen info "$FIXTURES/flux_dev" --size 64x64 | grep -q "flow shift 1.596 by the picture's tokens" || fail
sparge-gen -m "$FIXTURES/flux_dev" -p x --size 32x32 --steps 1 -q -o tokens.png || fail
sparge-gen -m "$FIXTURES/flux_dev" -p x --size 32x32 --steps 1 -q --flow-shift 3 -o named.png || fail
! sparge-gen info tokens.png | grep -q -- '--flow-shift' || fail
sparge-gen info named.png | grep -q -- '--flow-shift 3 ' || fail

# Arms with an embedded guidance of their own do not count as the same; a folder of an evaluation keeps it.
embedded=(-m "$FIXTURES/hunyuan_hd16" --size 32x32 --frames 1 --steps 2)
sparge-gen compare "${embedded[@]}" -p "a red ball" --arms dense,dense:guidance=2 -o arms >/dev/null 2>log || fail "$(<log)"
tr -d ' \n' <arms/report.json | grep -q '"name":"dense:guidance=2",.*"guidance":2' || fail "the arm's guidance"
echo "a ball" >set.txt
sparge-gen eval --prompts set.txt "${embedded[@]}" --arms dense,dense:guidance=2:name=b -o runs -q || fail "eval"
sparge-gen eval --prompts set.txt "${embedded[@]}" --arms dense,dense:guidance=3:name=b -o runs -q 2>log && fail "another guidance"
grep -qF 'attention[1].guidance: 2.0 -> 3.0' log || fail "$(<log)"
try compare --prompt ball "${small[@]}" --frames 1 --arms dense,dense:guidance=2

# One product of attention and feed-forward: a part of what it reads is written at a time.
sparge-gen check -m "$FIXTURES/hunyuan_hd16" -p "a red ball" --size 32x32 --frames 1 --steps 1 >/dev/null 2>log || fail "$(<log)"

# What SpargeAttn's own tuning saved is for another number of layers and heads.
cp -r "$FIXTURES/cogvideox_2b" .
cp "${LIB%/*}/../fuzz/corpus/thresholds/spargeattn" .
try info cogvideox_2b --sparse-config spargeattn

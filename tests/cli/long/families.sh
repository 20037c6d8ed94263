# Models whose text stands in one sequence with the video's tokens: before them, and behind, of another length in each pass.
# What the commands say of their attention, save and measure; the peak is as planned.
source "$LIB"
minis wan22_a14b cogvideox_2b mochi_hd64 hunyuan_hd16 opensora_hd96 flux_dev

# Of a process of 20 MiB the libraries' own memory is more than a twentieth.
within_a_twentieth() {
    local -i measured planned off
    measured=$(($(json "$1" peak_bytes) / 1024))
    planned=$(($(json "$1" plan.peak_bytes) / 1024))
    off=$((measured - planned))
    ((20 * ${off#-} <= measured || ${off#-} <= 4096)) || fail "$1: $measured KiB measured, $planned KiB planned"
}

# family NAME LAYERS FRAMES TEXT, as the captured file has it
family() {
    local clip=(-m "$1" --size 256x256 --frames "$3" --steps 2 --threads 1 -p "a red ball")
    sparge-gen "${clip[@]}" --topk 0.3 --capture-qkv 1:1:q.safetensors --json r.json -o "clip_$1.y4m" 2>log || fail "$(<log)"
    has r.json attention.totals.density=0.[1-8]*
    within_a_twentieth r.json
    head -c 300 q.safetensors | grep -aqE "\"grid\":\"[0-9]+,(16,16|32,32)\",$4," || fail "$1: $(head -c 300 q.safetensors)"
    sparge-gen tune "${clip[@]}" -q -o t.json --json tune.json >/dev/null || fail "tune $1"
    has t.json layers="$2"
    sparge-gen info "$1" --size 256x256 --frames "$3" --sparse-config t.json --json - >j || fail "info $1"
    has j attention.policy.attention=sparge attention.policy.tuned.layers="$2"
    # every chunk of the decoder has its time, whatever frames it makes, and a schedule of two steps is warmed up
    sparge-gen compare "${clip[@]}" --repeat 1 --size 64x64 --steps 3 --arms dense,dense:steps=2 -o "c_$1" >/dev/null 2>log || fail "$(<log)"
    ! json "c_$1/report.json" 'arms[*].seconds.rounds[*].decode[*]' | grep -qx 0.0 || fail "$1: a chunk without a time"
    rm -r "c_$1" "clip_$1.y4m"
}
# Of two denoisers each has figures in its own steps alone.
sparge-gen tune -m wan22_a14b --size 256x256 --frames 17 --steps 4 --buckets 2 -p "a cat" -o two.json >table ||
    fail "tune wan22_a14b"
grep -Eq '^layer 0  +0\.[0-9]{4}  +-$' table && grep -Eq '^layer 1  +-  +0\.[0-9]{4}$' table || fail "$(<table)"
rm two.json table

family cogvideox_2b 2 17 '"text_prefix":"24","text_suffix":"0"'
family mochi_hd64 2 19 '"text_prefix":"0","text_suffix":"[1-9]"'
family hunyuan_hd16 4 17 '"text_prefix":"0","text_suffix":"[1-9]"'
# Layers with groups are too short for skipping at first, then not: 1,280 and 4,096 tokens in four groups.
family opensora_hd96 4 17 '"text_prefix":"0","text_suffix":"0"'
family opensora_hd96 4 61 '"text_prefix":"0","text_suffix":"0"'
family flux_dev 4 1 '"text_prefix":"512","text_suffix":"0"'

# A shift by the tokens is told, and it is not an option of the command that renders again; a shift that is named is.
sparge-gen info flux_dev --size 64x64 | grep -q "flow shift 1.596 by the picture's tokens" || fail
sparge-gen -m flux_dev -p x --size 32x32 --steps 1 -q -o tokens.png || fail
sparge-gen -m flux_dev -p x --size 32x32 --steps 1 -q --flow-shift 3 -o named.png || fail
! sparge-gen info tokens.png | grep -q -- '--flow-shift' || fail
sparge-gen info named.png | grep -q -- '--flow-shift 3 ' || fail

# Arms with an embedded guidance of their own do not count as the same; a folder of an evaluation keeps it.
embedded=(-m hunyuan_hd16 --size 32x32 --frames 1 --steps 2)
sparge-gen compare "${embedded[@]}" --repeat 1 -p "a red ball" --arms dense,dense:guidance=2 -o arms >/dev/null 2>log || fail "$(<log)"
has arms/report.json 'arms[1].name=dense:guidance=2' 'arms[1].settings.guidance=2.0'
echo "a ball" >set.txt
sparge-gen eval --prompts set.txt "${embedded[@]}" --arms dense,dense:guidance=2:name=b -o runs -q || fail "eval"
refused 2 'arm_settings[1].guidance: 2.0 -> 3.0' eval --prompts set.txt "${embedded[@]}" --arms dense,dense:guidance=3:name=b -o runs -q

# One product of attention and feed-forward: a part of what it reads is written at a time.
sparge-gen check -m hunyuan_hd16 -p "a red ball" --size 32x32 --frames 1 --steps 1 >/dev/null 2>log || fail "$(<log)"

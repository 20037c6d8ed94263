# Every --png-level keeps the pixels, and is kept in the settings. One frame that cannot be written fails the clip, by its
# name, and no other frame stays.
source "$LIB"
mkdir usual full
sparge-gen "${prompt[@]}" "${small[@]}" --frames 9 -q --latents l.safetensors -o usual/%d.png || fail
for level in {0..9}; do
    mkdir "$level"
    sparge-gen --latents l.safetensors -q --png-level "$level" -o "$level/%d.png" || fail "level $level"
    sparge-gen compare usual "$level" --json j >/dev/null && has j identical=9 || fail
    [[ $(sparge-gen info "$level/8.png") == *" --png-level $level"* ]] || fail "level $level: $(sparge-gen info "$level/8.png")"
done
cmp <(tail -c 300 usual/3.png) <(tail -c 300 1/3.png) || fail "the usual level is not 1"
for level in {1..9}; do
    (($(stat -c %s $level/1.png) < $(stat -c %s 0/1.png))) || fail "level $level compresses nothing"
done

[[ ! -c /dev/full ]] || ln -s /dev/full full/f-4.png
if [[ -c full/f-4.png ]]; then
    sparge-gen --latents l.safetensors -q -o full/f-%d.png 2>log
    (($? == 1)) || fail "$(<log)"
    [[ $(<log) == "sparge-gen: full/f-4.png: "*"No space left on device" ]] || fail "$(<log)"
    [[ $(ls -A full) == f-4.png ]] || fail "the folder holds $(ls -A full)"
fi

# A WebP repeats without end, has all frames, or is one picture, and the same bytes again; the settings are those of the PNG.
source "$LIB"
[[ $(sparge-gen --version) == *.webp* ]] || skip "a build without FFmpeg"
clip=("${prompt[@]}" "${small[@]}" --size 48x32 --fps 12 -q)
sparge-gen "${clip[@]}" --frames 1 -o one.webp 2>log || { grep -q 'has no libwebp encoder' log && skip "no libwebp"; fail "$(<log)"; }
sparge-gen "${clip[@]}" --frames 1 -o one.png || fail
for name in clip again; do sparge-gen "${clip[@]}" --frames 9 -o $name.webp || fail; done
cmp clip.webp again.webp || fail "the same command gives another file"
u32() { od -An -t u4 -j "$2" -N 4 --endian=little "$1" | tr -d ' '; }
for name in one clip; do
    (($(u32 $name.webp 4) == $(stat -c %s $name.webp) - 8)) || fail "$name.webp: the head says another size"
done
[[ $(tail -c +31 clip.webp | head -c 4) == ANIM ]] || fail "no animation"
(($(od -An -t u2 -j 42 -N 2 clip.webp) == 0)) || fail "it does not repeat without end"
(($(grep -aob ANMF clip.webp | wc -l) == 9)) || fail "not 9 frames"
! grep -aq ANMF one.webp || fail "one picture is an animation"
for name in one.webp one.png; do sparge-gen info $name >$name.txt || fail "$name"; done
cmp one.webp.txt one.png.txt || fail "other settings"

size=$(stat -c %s clip.webp)
for kept in 12 16 25 $((size - 100)); do
    head -c "$kept" clip.webp >cut.webp
    sparge-gen info cut.webp >/dev/null 2>log
    (($? == 1)) || fail "cut to $kept: $(<log)"
    grep -q '^sparge-gen: cut.webp: ' log || fail "cut to $kept: $(<log)"
done
printf 'RIFF\xff\xff\xff\xffWEBPsgen\xff\xff\xff\xff{}' >lies.webp
printf 'RIFF\x10\0\0\0WEBPsgen\x04\0\0\0{\0a}' >zero.webp
printf 'RIFF\xff\xff\xff\xffWEBPsgen\0\0\0\xf0' >huge.webp
truncate -s 4G huge.webp
for name in lies zero huge; do try info $name.webp; done
try "${prompt[@]}" --crf 20 -o a.webp
try "${prompt[@]}" --png-level 2 -o a.webp

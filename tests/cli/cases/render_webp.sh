# A WebP repeats without end, has all frames, or is one picture, and the same bytes again; the settings are those of the PNG.
source "$LIB"
has_mp4 || skip "a build without FFmpeg"
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
cmp <(settings_of one.webp) <(settings_of one.png) || fail "other settings"

size=$(stat -c %s clip.webp)
for kept in 12 16 25 $((size - 100)); do
    head -c "$kept" clip.webp >cut.webp
    refused 1 "cut.webp: " info cut.webp
done

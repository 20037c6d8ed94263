# All settings are kept in MP4 and PNG, whatever the prompt holds, and the command that info prints makes the same clip.
source "$LIB"
odd=$'it\'s "quoted" \\ <&> ; $(id)\t\xe7\x8c\xab \xf0\x9f\x90\xb1\nsecond line'
options=(--prompt "$odd" --negative-prompt "" --size 32x32 --steps 2 --frames 1 --fps 9 --cfg-scale 1.25 --flow-shift 2.5
    --sampler euler --seed 12345678901 --dtype f32 -q)
sparge-gen "${options[@]}" -o a.png || fail
has_mp4 && { sparge-gen "${options[@]}" -o a.mp4 || fail; }
for clip in a.*; do sparge-gen info --json "$clip" >"$clip.json" || fail "$clip"; done
has_mp4 && { cmp a.png.json a.mp4.json || fail; }
again=$(sparge-gen info a.png | sed -n '/^again: /,$p')
eval "${again#again: } -q -o b.png" || fail "$again"
cmp a.png b.png || fail
options=("${prompt[@]}" "${small[@]}" --frames 1 --sched-compat old -q)
sparge-gen "${options[@]}" -o c.png || fail
again=$(sparge-gen info c.png | sed -n '/^again: /,$p')
[[ $again == *" --sched-compat old "* && $again != *negative* ]] || fail "$again"
eval "${again#again: } -q -o b.png" || fail "$again"
cmp c.png b.png || fail
sparge-gen --prompt=--steps "${small[@]}" --frames 1 -q -o d.png || fail
again=$(sparge-gen info d.png | sed -n '/^again: /,$p')
eval "${again#again: } -q -o b.png" || fail "$again"
cmp d.png b.png || fail
cat a.png.json

# All settings are kept in MP4 and PNG, whatever the prompt holds and however long it is, and the command that info prints makes
# the same clip.
source "$LIB"
odd=$'it\'s "quoted" \\ <&> ; $(id)\t\xe7\x8c\xab \xf0\x9f\x90\xb1\nsecond line'
options=(--prompt "$odd" --negative-prompt "" --size 32x32 --steps 2 --frames 1 --fps 9 --cfg-scale 1.25 --flow-shift 2.5
    --sampler euler --seed 12345678901 --dtype f32 -q)
sparge-gen "${options[@]}" -o a.png || fail
has_mp4 && { sparge-gen "${options[@]}" -o a.mp4 || fail; }
sparge-gen info --json a.png.json a.png >/dev/null || fail
has_mp4 && { cmp <(settings_of a.png) <(settings_of a.mp4) || fail; }
has a.png.json file=a.png settings.{program="sparge-gen *",model.file=tiny-wan,negative_prompt=,width=32,height=32,frames=1,fps=9,steps=2} \
    settings.{cfg_scale=1.25,flow_shift=2.5,sampler=euler,sched_compat=new,seed=12345678901,dtype=f32,device='?*',attention=dense}
[[ $(json a.png.json settings.prompt) == 'it'\''s \"quoted\" \\ <&> ; $(id)\t猫 🐱\nsecond line' ]] || fail "$(<a.png.json)"
makes_again a.png
sparge-gen "${prompt[@]}" "${small[@]}" --frames 1 --sched-compat old -q -o c.png || fail
makes_again c.png
[[ $again == *" --sched-compat old "* && $again != *negative* ]] || fail "$again"
sparge-gen --prompt=--steps "${small[@]}" --frames 1 -q -o d.png || fail
makes_again d.png
# 100,000 bytes
long=$(printf 'red ball %.0s' {1..11000})
for clip in e.png $(has_mp4 && echo e.mp4); do
    sparge-gen --prompt "$long" "${small[@]}" --frames 1 -q -o $clip || fail "$clip"
    sparge-gen info --json - $clip | grep -qF "\"prompt\": \"$long\"" || fail "$clip"
done

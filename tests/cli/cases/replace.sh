# An existing clip is replaced and keeps its permissions; behind a symbolic link that is the target, there or not yet, for
# latents and reports too; names may begin with a dash or look like protocols.
source "$LIB"
has_mp4 || skip "a build without FFmpeg"
umask 022
run() { sparge-gen "${prompt[@]}" "${small[@]}" --frames 1 -q "$@"; }
mkdir there
for name in clip.mp4 l.safetensors r.json; do ln -s there/$name $name; done
echo old | tee there/clip.mp4 >there/r.json
chmod 600 there/clip.mp4
run -o clip.mp4 --latents l.safetensors --json r.json || fail
for name in clip.mp4 l.safetensors r.json; do
    [[ -L $name && $(stat -c %s there/$name) -gt 100 ]] || fail "the link $name was replaced"
done
[[ $(stat -c %a there/clip.mp4) == 600 ]] || fail "permissions $(stat -c %a there/clip.mp4)"
[[ $(stat -c %a there/l.safetensors) == 644 ]] || fail "permissions $(stat -c %a there/l.safetensors)"
run -o concat:a.mp4 --json /dev/null || fail
[[ -c /dev/null ]] || fail "a device was replaced"
ln -s nowhere/a.mp4 lost.mp4
ln -s loop.mp4 loop.mp4
for name in lost loop; do run -o $name.mp4 2>/dev/null && fail "$name.mp4"; done
rm lost.mp4 loop.mp4
run -o -dash.mp4 || fail
run -o 'a  b'\''$(id).mp4' || fail
[[ $(stat -c %a concat:a.mp4) == 644 ]] || fail "permissions $(stat -c %a concat:a.mp4)"
expect_files there there/{clip.mp4,l.safetensors,r.json} clip.mp4 l.safetensors r.json concat:a.mp4 -dash.mp4 'a  b'\''$(id).mp4'

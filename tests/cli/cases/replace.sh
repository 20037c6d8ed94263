# An existing clip is replaced, behind a symbolic link the target; names may begin with a dash or look like protocols.
source "$LIB"
has_mp4 || skip "a build without FFmpeg"
umask 022
run() { sparge-gen "${prompt[@]}" "${small[@]}" --frames 1 -q "$@" || fail "$*"; }
mkdir there
echo old >there/clip.mp4
ln -s there/clip.mp4 link.mp4
run -o link.mp4
[[ -L link.mp4 && $(stat -c %s there/clip.mp4) -gt 100 ]] || fail "the link was replaced"
run -o concat:a.mp4
run -o -dash.mp4
run -o 'a  b'\''$(id).mp4'
[[ $(stat -c %a concat:a.mp4) == 644 ]] || fail "permissions $(stat -c %a concat:a.mp4)"
expect_files there there/clip.mp4 link.mp4 concat:a.mp4 -dash.mp4 'a  b'\''$(id).mp4'

# A kill that cannot be caught, at any time of a render, leaves no file under the clip's name, and none under another where the
# file system knows files without a name; where it knows none the hidden neighbour stays.
source "$LIB"
has_mp4 && mp4=clip.mp4 mkv=clip.mkv
kill_at() { # CONDITION NAME OPTION...
    sparge-gen "${prompt[@]}" "${small[@]}" -o "$2" "${@:3}" 2>/dev/null &
    wait_for $1 $!
    hidden=$(compgen -G '.*.part')
    kill -KILL $!
    wait $! 2>/dev/null
    [[ ! -e clip.y4m && ! -e clip.mp4 && ! -e clip.mkv ]] && ! compgen -G 'f-*.png' || fail "$*"
}
some() { writes "$1" 1000; }
one_done() { compgen -G ".f-1.png.*.part" >/dev/null; }
long=(--steps 1 --size 96x96 --frames 81)
kill_at writes clip.y4m --steps 1000
kill_at some clip.y4m "${long[@]}"
[[ -n $hidden ]] || expect_files
for name in ${mp4-} ${mkv-}; do
    kill_at writes $name "${long[@]}"
    [[ -n $hidden ]] || expect_files
done
kill_at one_done f-%d.png "${long[@]}"
[[ -n ${NO_TMPFILE-} ]] || skip "no library to preload"
rm -f .*.part
export LD_PRELOAD=$NO_TMPFILE
kill_at writes clip.y4m --steps 1000
compgen -G '.clip.y4m.????????.part' >/dev/null || fail "$(ls -A)"

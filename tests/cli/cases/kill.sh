# A kill that cannot be caught leaves no file under the clip's name; on a file system that knows no files without a name
# the hidden neighbour stays.
source "$LIB"
kill_it() {
    sparge-gen "${prompt[@]}" "${small[@]}" --steps 1000 -o clip.y4m 2>/dev/null &
    wait_for writes $!
    kill -KILL $!
    wait $! 2>/dev/null
    [[ ! -e clip.y4m ]] || fail
}
kill_it
[[ -n ${NO_TMPFILE-} ]] || skip "no library to preload"
rm -f .clip.y4m.*.part
export LD_PRELOAD=$NO_TMPFILE
kill_it
compgen -G '.clip.y4m.????????.part' >/dev/null || fail "$(ls -A)"

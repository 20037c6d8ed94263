# A kill that cannot be caught leaves no file under the clip's name.
source "$LIB"
sparge-gen "${prompt[@]}" "${small[@]}" --steps 1000 -o clip.y4m 2>/dev/null &
wait_for has_part clip.y4m
kill -KILL $!
wait $! 2>/dev/null
[[ ! -e clip.y4m ]] || fail

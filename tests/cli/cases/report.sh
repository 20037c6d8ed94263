# --json reports settings, times, memory and tokens; on stdout it is alone there.
source "$LIB"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -o a.y4m --json - 2>log || fail "$(<log)"

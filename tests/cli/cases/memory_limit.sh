# What cannot fit is refused with figures before the work.
source "$LIB"
sparge-gen "${prompt[@]}" "${small[@]}" --memory-limit 100K -o a.y4m

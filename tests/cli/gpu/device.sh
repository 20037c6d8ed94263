# Each GPU renders the same clip, the ranks of a host take them in turn, and a GPU that is not there is refused in one line.
source "$LIB"

count=0
while ((count < 64)); do
    code=0
    sparge-gen "${prompt[@]}" --steps 1 --device $count -o $count.y4m 2>log || code=$?
    ((code == 0)) || break
    ((count == 0)) || grep -q ", device $count" log || fail "device $count: $(<log)"
    count=$((count + 1))
done
((code == 2 && count > 0)) || fail "device $count: exit $code: $(<log)"
[[ $(<log) == "sparge-gen: --device: "*" $count: "* ]] || fail "$(<log)"
for ((rank = 0; rank <= count; rank++)); do
    OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=$((count + 1)) OMPI_COMM_WORLD_LOCAL_RANK=$rank \
        OMPI_COMM_WORLD_LOCAL_SIZE=$((count + 1)) sparge-gen "${prompt[@]}" --steps 1 -o rank.y4m 2>log || fail "$(<log)"
    ((count == 1)) || grep -q ", device $((rank % count))" log || fail "rank $rank: $(<log)"
    rm -f rank.y4m
done
rm -f log ./*.y4m
expect_files

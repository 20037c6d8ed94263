# What is too short for sparse attention runs dense, which the report tells.
source "$LIB"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 1 --attention sparge -q --json j -o a.png || fail
sparge-gen "${prompt[@]}" "${small[@]}" --frames 1 -q -o b.png || fail
cmp a.png b.png || fail "settings or picture differ"
[[ $(json j 'attention.layers[*].why' | sort -u) == short ]] || fail "$(<j)"

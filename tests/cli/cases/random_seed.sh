# A negative seed is drawn, said even by --quiet, and renders the same when given.
source "$LIB"
seed=$(sparge-gen "${prompt[@]}" "${small[@]}" --frames 1 --seed -1 -q -o a.png 2>&1 >/dev/null) || fail "$seed"
[[ $seed =~ ^"sparge-gen: seed "([0-9]+)$ ]] || fail "$seed"
sparge-gen "${prompt[@]}" "${small[@]}" --frames 1 --seed="${BASH_REMATCH[1]}" -q -o b.png || fail
cmp a.png b.png

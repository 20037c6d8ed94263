# Where no name is asked for, nothing is replaced: the next free name is taken and told, of several clips for all of them, and also when
# another process takes the name during the render. --quiet prints the names, unless a report goes to stdout.
source "$LIB"
run() { sparge-gen -p "a red ball" "${small[@]}" --frames 1 "$@"; }
echo old >out.png
run --json r.json 2>log || fail "$(<log)"
grep -qx "out.png is there: this becomes out-1.png" log && tail -n 1 log | grep -q "^out-1.png: " && has r.json output=out-1.png || fail "$(<log)"
ln -s nowhere out-2.png
[[ $(run -q) == out-3.png && $(run -q --json - | json - output) == out-4.png ]] || fail "not the next"
[[ $(<out.png) == old && ! -e nowhere ]] || fail "something was replaced"
[[ $(run -q -o out.png) == out.png && $(wc -c <out.png) -gt 100 ]] || fail "what is named was not replaced"
rm -- *
: >out-0002.png
[[ $(run -q --batch 2 --grid g.png) == "out-1-0001.png
out-1-0002.png
g.png" ]] || fail "$(ls)"
run --batch 2 --grid g.png 2>&1 | grep -qx "names like out.png are taken: out-2.png" || fail "not told"
[[ ! -s out-0002.png ]] || fail "a number was replaced"
rm -- *
for i in 1 2 3; do run -q -s $i >name.$i & done
wait
[[ $(sort name.* | tr '\n' ' ') == "out-1.png out-2.png out.png " ]] || fail "$(cat name.*)"
for i in 1 2 3; do sparge-gen info "$(<name.$i)" | grep -q "^again: .* --seed $i " || fail "$i"; done

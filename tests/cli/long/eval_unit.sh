# Killed among the arms of a clip: those done are not made again, and the others are compared with the same frames, which are
# kept; where these are missing or damaged the first arm is rendered once more, and neither its clip nor its line changes.
source "$LIB"
echo 'a red ball' >set.txt
command=(eval --prompts set.txt --size 512x512 --frames 1 --steps 1 --cfg-scale 1 --dense-steps 0 -t 1
    --arms 'dense,sparge:topk=0.3')
timeless() { sed 's/"seconds":{[^}]*}//' "$1/results.jsonl"; }
sparge-gen "${command[@]}" --out part 2>log &
wait_for test -s part/results.jsonl
kill -KILL $! 2>/dev/null
wait $! 2>/dev/null
[[ $(wc -l <part/results.jsonl) == 1 && -e part/.frames-0-0 ]] || skip "it was too fast: $(ls -A part)"
for state in there missing damaged; do
    cp -r part $state
    case $state in
        missing) rm missing/.frames-0-0 ;;
        damaged) printf xy | dd of=damaged/.frames-0-0 bs=1 seek=3000 conv=notrunc status=none ;;
    esac
    sparge-gen "${command[@]}" --out $state 2>log || fail "$(<log)"
    if [[ $state == there ]]; then
        grep -q 'rendered again' log && fail "$(<log)"
    else
        grep -q "^$state/.frames-0-0: .*; dense/a red ball-0\..* is rendered again" log || fail "$(<log)"
    fi
    [[ $(head -n 1 $state/results.jsonl) == "$(<part/results.jsonl)" && ! -e $state/.frames-0-0 ]] || fail "$state"
    diff <(timeless $state) <(timeless there) || fail "$state: other lines"
    diff -r -x 'results*' -x 'summary.*' -x report.html $state there || fail "$state: other files"
done
[[ $(json there/results.jsonl density psnr.mean | tail -n 1) == "0.25 "[1-9]* ]] || fail "$(<there/results.jsonl)"

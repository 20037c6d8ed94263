# Killed among the arms of a clip, before or after the first arm, which the others are compared with: what waits is not made
# again; where it is missing or damaged its arm is rendered once more, and of a first arm whose line is there neither clip nor
# line changes.
source "$LIB"
printf 'a red ball\na blue box\n' >set.txt
command=(eval --prompts set.txt --size 512x512 --frames 1 --steps 1 --cfg-scale 1 --dense-steps 0 -t 1
    --arms 'dense,sparge:topk=0.3,sparge:topk=0.5') # in the order 0 2 1, then 2 0 1
timeless() { sed 's/"seconds":{[^}]*}//' "$1/results.jsonl"; }
seconds() { grep -aho '"seconds":{[^}]*}' "$@"; }
sparge-gen "${command[@]}" --out whole -q || fail

killed() { # NAME FILE: by the time that FILE is there
    sparge-gen "${command[@]}" --out "$1" 2>log &
    wait_for test -e "$1/$2"
    kill -KILL $! 2>/dev/null
    wait $! 2>/dev/null
}
as_whole() { # NAME
    diff <(timeless "$1") <(timeless whole) || fail "$1: other lines"
    diff -r -x 'results*' -x 'summary.*' -x report.html "$1" whole || fail "$1: other files"
}
for at in .frames-0-0-0 .frames-0-0-2 .frames-0-0-1 .frames-1-0-2 .frames-1-0-0; do
    killed part $at
    if [[ ! -e part/$at ]]; then # it was too fast
        rm -r part
        continue
    fi
    for state in there missing damaged; do
        [[ $state == there || $at == .frames-0-0-0 || $at == .frames-1-0-2 ]] || continue
        cp -r part $state
        case $state in
            missing) rm $state/$at ;;
            damaged) printf xy | dd of=$state/$at bs=1 seek=3000 conv=notrunc status=none ;;
        esac
        sparge-gen "${command[@]}" --out $state 2>log || fail "$(<log)"
        if [[ $state == there ]]; then
            grep -q 'rendered again' log && fail "$(<log)"
            [[ $(seconds part/$at) == $(seconds $state/results.jsonl | grep -Fx "$(seconds part/$at)") ]] || fail "$at: other seconds"
        elif [[ $state == damaged ]]; then
            grep -q "^$state/$at: .* is rendered again" log || fail "$(<log)"
        fi
        as_whole $state
        rm -r $state
    done
    rm -r part
done

# The first arm's line is there, its frames are not: they are made again, to be compared with.
killed part .frames-1-0-0
if [[ -e part/.frames-1-0-0 && $(wc -l <part/results.jsonl) == 3 ]]; then
    rm part/.frames-1-0-0
    sed -n 4p whole/results.jsonl >>part/results.jsonl
    sparge-gen "${command[@]}" --out part 2>log || fail "$(<log)"
    grep -q '; dense/a blue box-0\..* is rendered again, to be compared with' log || fail "$(<log)"
    [[ $(sed -n 4p part/results.jsonl) == "$(sed -n 4p whole/results.jsonl)" ]] || fail "another line"
    as_whole part
fi
[[ $(json whole/results.jsonl density psnr.mean | sed -n 2p) == "0.25 "[1-9]* ]] || fail "$(<whole/results.jsonl)"

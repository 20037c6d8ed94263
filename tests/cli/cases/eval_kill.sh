# Killed at any moment, the same command goes on where it stopped and repeats nothing: in the end all is as if nothing had
# happened. In the first unit b is before dense, which it is compared with: its frames and its seconds wait for it.
source "$LIB"
ending=$(ending)
printf 'a red ball\na blue box\n' >set.txt
command=(eval --prompts set.txt --size 32x32 --frames 5 --steps 40 --cfg-scale 1 -t 1 --seed 1 --arms dense,dense:cfg-scale=0.5:name=b
    --per-prompt 2)
sparge-gen "${command[@]}" --out whole -q || fail
has_lines() { [[ $(wc -l <out/results.jsonl) -ge $1 ]]; }
timeless() { sed 's/"seconds":{[^}]*}//' "$1/results.jsonl" | sort; }

for moment in 0 m f 1 2 4 5; do
    sparge-gen "${command[@]}" --out out -q 2>log &
    case $moment in
        0) ;;
        m) wait_for test -e out/manifest.json ;;
        f) wait_for test -e out/.frames-0-0-1 ;;
        *) wait_for has_lines "$moment" ;;
    esac
    kill -KILL $! 2>/dev/null
    wait $! 2>/dev/null
    [[ $moment != f || ! -e out/.frames-0-0-1 ]] || grep -aho '"seconds":{[^}]*}' out/.frames-* >seconds
done
[[ -s seconds ]] || echo '"seconds"' >seconds # it was too fast
sparge-gen "${command[@]}" --out out -q || fail
diff <(timeless out) <(timeless whole) || fail "other lines"
[[ $(grep -c . seconds) == $(grep -oFf seconds out/results.jsonl | sort -u | grep -c .) ]] || fail "other seconds: $(<seconds)"
diff -r -x 'results*' -x 'summary.*' -x report.html out whole || fail "other files"

# A line that was cut short does not count, and a clip that has gone is made again.
tail -c 40 whole/results.jsonl | head -c 30 >>out/results.jsonl
rm "out/b/a red ball-0.$ending"
sparge-gen "${command[@]}" --out out 2>log || fail "$(<log)"
grep -q '^out/results.jsonl: ' log && [[ $(wc -l <out/results.jsonl) == 9 ]] || fail "$(<log)"
cmp {out,whole}/"b/a red ball-0.$ending" || fail

# What a kill leaves of a clip on a file system that knows no files without a name goes with the next run.
mkdir -p left/b && cp out/manifest.json left
touch 'left/b/.a red ball-0.'$ending.0123abcd.part left/.frames-0-0-1 left/..frames-1-0-0.0123abcd.part
sparge-gen "${command[@]}" --out left -q || fail
[[ $(ls -A left/b | wc -l) == 4 && $(ls -A left) != *.frames* ]] || fail "$(ls -A left left/b)"

# Two at once would make everything twice.
exec 9>>out/results.jsonl
flock 9 || skip "no locks here"
refused 1 "out/results.jsonl: another process" "${command[@]}" --out out

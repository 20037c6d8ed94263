# Ranks share a set: each writes its own results, the last makes the report, and any number of ranks goes on with it.
source "$LIB"
printf 'a\nb\nc\n' >set.txt
command=(eval --prompts set.txt "${small[@]}" --frames 5 --arms dense,dense:cfg-scale=0.5:name=b --per-prompt 2 -t 1)
timeless() { cat "$1"/results*.jsonl | sed 's/"seconds":{[^}]*}//' | sort; }
as_whole() {
    diff <(timeless out) <(timeless whole) || fail "$1: other lines"
    diff -r -x 'results*' -x 'summary.*' -x report.html out whole || fail "$1: other files"
    [[ -e out/report.html ]] || fail "$1: no report"
    rm -r out
}
sparge-gen "${command[@]}" --out whole -q || fail

sparge-gen "${command[@]}" --out out --shard 2/2 2>log || fail "$(<log)"
grep -q '^6 clips of other ranks' log && [[ ! -e out/report.html && ! -e out/results.jsonl ]] || fail "$(<log)"
sparge-gen "${command[@]}" --out out --shard 1/2 -q || fail
[[ $(wc -l <out/results-0.jsonl) == 6 && $(wc -l <out/results-1.jsonl) == 6 ]] || fail
as_whole shards

for rank in 2 0; do
    SLURM_JOB_ID=1 SLURM_STEP_ID=0 SLURM_PROCID=$rank SLURM_NTASKS=3 sparge-gen "${command[@]}" --out out -q || fail
done
[[ $(wc -l <out/results-2.jsonl) == 4 && ! -e out/results-1.jsonl && ! -e out/report.html ]] || fail
sparge-gen "${command[@]}" --out out 2>log || fail "$(<log)" # goes on alone
[[ $(wc -l <out/results.jsonl) == 4 ]] || fail "$(<log)"
as_whole slurm

command -v mpirun >/dev/null || skip "no mpirun"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpirun --oversubscribe -n 2 sparge-gen "${command[@]}" --out out 2>log || fail "$(<log)"
[[ $(wc -l <out/results-0.jsonl) == 6 && $(wc -l <out/results-1.jsonl) == 6 ]] || fail "$(<log)"
as_whole mpirun

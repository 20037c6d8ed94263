# Thresholds of a model, found in a render, written beside it, and used by the next. They are the same from any number of
# threads; nothing is written by halves.
source "$LIB"
own_model model
rm -f model/sparge-attention.json
export SPARGE_GEN_MODEL=$PWD/model
tiny=(--size 256x256 --frames 17 --steps 2 --cfg-scale 1)
sparge-gen tune "${prompt[@]}" "${tiny[@]}" --buckets 2 --threads 2 --json report.json >table || fail
for row in timesteps "layer 0" "layer 5" all largest "with filter" "left out"; do
    grep -Eq "^$row( +(>=)? *[0-9.]+){2}$" table || fail "no $row of two buckets in $(<table)"
done
sparge-gen tune "${prompt[@]}" "${tiny[@]}" --buckets 2 --threads 1 -o again.json >again.txt
sed -z 's/,\n  "written": "[-0-9]*T[:0-9]*\.[0-9]*Z"//' model/sparge-attention.json | cmp - again.json ||
    fail "threads change the thresholds"
has model/sparge-attention.json written='?*'
has again.json rule=topk bound.l1=0.05
has report.json command=tune 'heads[0].l1_checked=[0-9]*'

sparge-gen tune "${prompt[@]}" "${tiny[@]}" --rule tau --l1 0.2 --l2 0.3 --tail off --score mean -o - >tau.json
has tau.json rule=tau
sparge-gen "${prompt[@]}" "${tiny[@]}" --attention sparge --dense-steps 0 -o tuned.y4m --json render.json
has render.json attention.policy.tuned.layers=6
sparge-gen "${prompt[@]}" "${tiny[@]}" --sparse-config tau.json --dense-steps 0 -o tau.y4m
cmp -s tuned.y4m tau.y4m && fail "both files do the same"

# What it wrote itself it would write again, which so short a sequence ends; not once another hand changed it.
short() { sparge-gen tune "${prompt[@]}" --size 32x32 --frames 1 --steps 1 "$@" 2>&1; }
[[ $(short) == *"no blocks are skipped"* ]] || fail "its own file: $(short)"
cp model/sparge-attention.json kept
echo >>model/sparge-attention.json
[[ $(short) == *"is there, and not as tune wrote it for you: --force"* ]] || fail "a changed file: $(short)"
cp kept model/sparge-attention.json
[[ $(short) == *"is there, and not as tune wrote it for you: --force"* ]] || fail "a copy: $(short)"
[[ $(short --force) == *"no blocks are skipped"* ]] || fail "forced: $(short --force)"
cmp kept model/sparge-attention.json || fail

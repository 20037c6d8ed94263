# Thresholds of a model, found in a render, written beside it, and used by the next. They are the same from any number of
# threads; nothing is written by halves.
source "$LIB"
cp -rs "$(readlink -f "$SPARGE_GEN_MODEL")" model
rm -f model/sparge-attention.json
export SPARGE_GEN_MODEL=$PWD/model
tiny=(--size 256x256 --frames 17 --steps 2 --cfg-scale 1 --quiet)
sparge-gen tune "${prompt[@]}" "${tiny[@]}" --buckets 2 --threads 2 --json report.json
sparge-gen tune "${prompt[@]}" "${tiny[@]}" --buckets 2 --threads 1 -o again.json >again.txt
sed -z 's/,\n  "written": "[-0-9]*T[:0-9]*\.[0-9]*Z"//' model/sparge-attention.json | cmp - again.json ||
    fail "threads change the thresholds"
grep -q '"written"' model/sparge-attention.json || fail "not dated"
grep -q '"rule": "topk"' again.json && grep -q '"l1": 0.05' again.json || fail "another rule or bound"
grep -q '"l1_checked"' report.json || fail "no errors in the report"

sparge-gen tune "${prompt[@]}" "${tiny[@]}" --rule tau --l1 0.2 --l2 0.3 --tail off --score mean -o - >tau.json
grep -q '"rule": "tau"' tau.json || fail "not by mass"
sparge-gen "${prompt[@]}" "${tiny[@]}" --attention sparge --dense-steps 0 -o tuned.y4m --json render.json
grep -q '"tuned"' render.json || fail "the render is not tuned"
grep -q '"tuned": null' render.json && fail "the render is not tuned"
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
rm -r model kept
expect_files report.json again.json again.txt tau.json tuned.y4m tau.y4m render.json

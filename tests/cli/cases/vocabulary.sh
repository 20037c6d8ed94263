# A model's owner may say which words it was trained with: a line names others in a prompt, which is rendered. The list of
# tiny-wan is that of its recipe.
source "$LIB"
one=(--size 32x32 --frames 1 --steps 1 --cfg-scale 1)
sparge-gen --prompt "a Cat, on the Grass: BALL's" "${one[@]}" -o a.png 2>&1 | grep 'never seen'
sparge-gen --prompt "A red ball." "${one[@]}" -o a.png 2>&1 | grep 'never seen' && fail
sparge-gen --prompt cat "${one[@]}" -o a.png -q 2>&1 || fail
[[ -s a.png ]] || fail "no clip"
printf 'a cat\na red ball\ntwo dogs\n' >set.txt
sparge-gen --prompt-file set.txt "${one[@]}" -o a.png 2>&1 | grep 'never seen'
sparge-gen eval --prompts set.txt "${one[@]}" --arms dense -o out 2>&1 | grep 'never seen'
sparge-gen compare --prompt "a cat" "${one[@]}" --size 512x512 --frames 1 --dense-steps 0 --arms dense,sage -o sides 2>&1 | grep 'never seen'
sparge-gen info | grep -A1 '^tiny-wan draws'

cp -rs "$(readlink -f "$SPARGE_GEN_MODEL")" model
rm model/sparge-gen.json
echo '{"vocabulary": ["ball"]}' >model/sparge-gen.json
sparge-gen -m model --prompt "ball cat dog hat mat" "${one[@]}" -o a.png 2>&1 | grep 'never seen'
sparge-gen -m model info 2>&1 | grep -c draws

python3 -c '' 2>/dev/null || skip "no python3"
[[ -e $SPARGE_GEN_MODEL/recipe/captions.py ]] || exit 0
sparge-gen info --json >info.json || fail
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$SPARGE_GEN_MODEL/recipe python3 - <<'EOF' || fail "sparge-gen.json is not as the recipe has it"
import json
import sys
import types

for name in ("torch", "sentencepiece"):  # what the lists do not need
    sys.modules[name] = types.ModuleType(name)
sys.modules["sentencepiece"].sentencepiece_model_pb2 = None
import captions

info = json.load(open("info.json", encoding="utf-8"))
assert info["vocabulary"] == captions.vocabulary(), set(info["vocabulary"]) ^ set(captions.vocabulary())
assert info["world"] == captions.world(), info["world"]
EOF

# The list of words that tiny-wan was trained with is that of its recipe; another folder has its own, or none. ../messages has the
# notices of words that were never seen.
source "$LIB"
sparge-gen info --json - >info.json || fail
[[ $(json info.json 'vocabulary[*]' | wc -l) == 249 ]] || fail "$(json info.json 'vocabulary[*]')"
own_model model '{"vocabulary": ["ball"]}'
[[ $(sparge-gen info -m model --json - | json - 'vocabulary[*]') == ball ]] || fail "not its own"
python3 -c '' 2>/dev/null || skip "no python3"
[[ -e $SPARGE_GEN_MODEL/recipe/captions.py ]] || exit 0
PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$SPARGE_GEN_MODEL/recipe python3 - <<'EOF' || fail "sparge-gen.json is not as the recipe has it"
import json
import sys
import types

for name in ("torch", "sentencepiece"):  # what the lists do not need
    sys.modules[name] = types.ModuleType(name)
sys.modules["sentencepiece"].sentencepiece_model_pb2 = None
import captions

info = json.load(open("info.json", encoding="utf-8"))
assert info["vocabulary"] == captions.known(), set(info["vocabulary"]) ^ set(captions.known())
assert info["world"] == captions.world(), info["world"]
EOF

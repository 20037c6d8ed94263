# What is in a model, what it renders unless told otherwise, and what that takes.
source "$LIB"
sparge-gen info --json - --size 32x32 --frames 5 >j || fail
has j family=wan defaults.{width=32,height=32,frames=5,steps=[1-9]*} plan.peak_bytes=[1-9]* size_multiple=16 image=optional
[[ $(json j 'components[*].parameters' | grep -c '^[1-9]') == 3 ]] || fail "$(json j 'components[*].parameters')"
sparge-gen info "$SPARGE_GEN_MODEL" --size 32x32 --frames 5 >text || fail
for line in tiny-wan: component render attention picture device denoising decoding peak; do grep -q "^$line " text || fail "no $line"; done

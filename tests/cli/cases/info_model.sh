# What is in a model, what it renders unless told otherwise, and what that takes.
source "$LIB"
sparge-gen info --json --size 32x32 --frames 5 >j || fail
for key in family components defaults plan peak_bytes parameters size_multiple; do grep -q "\"$key\"" j || fail "$key"; done
sparge-gen info "$SPARGE_GEN_MODEL" --size 32x32 --frames 5

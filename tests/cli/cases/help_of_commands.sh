# Each command explains itself, by its own options only.
source "$LIB"
sparge-gen info --help | grep -q -- --json || fail
sparge-gen info --help | grep -q -- --sampler && exit 1
sparge-gen bench step --help | grep -q -- --shape && exit 1
sparge-gen bench attention -h | grep -q -- --shape || fail
sparge-gen bench attention -h | grep -q "wan14b-480p, tiny-wan" || fail "no shapes of the families"
sparge-gen bench attention -h | grep -q "flux-1024, flux-2048, sd35-1024" || fail "no shapes of other models"
sparge-gen bench --help | grep -q "bench attention" || fail
sparge-gen check -h | grep -q -- --output && exit 1
sparge-gen check -h

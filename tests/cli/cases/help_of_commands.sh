# Each command explains itself, by its own options only.
sparge-gen info --help | grep -q -- --json || fail
sparge-gen info --help | grep -q -- --sampler && exit 1
sparge-gen check -h | grep -q -- --output && exit 1
sparge-gen check -h

# Nothing asked for: help, but on stderr, and not counted as success.
sparge-gen

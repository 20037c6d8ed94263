# Whoever reads a table or a help text and goes away has read enough, whether it is written at once or in pieces.
source "$LIB"
exec 3> >(exec true)
wait $!
quietly() {
    sparge-gen "$@" >&3 2>log || fail "$*: exit $?"
    [[ ! -s log ]] || fail "$*: $(<log)"
}
quietly help all # longer than a stream's buffer
quietly --version
quietly bench step --size 32x32 --frames 5 --repeat 1 --threads 1 -q
quietly info

# Threads that wait spin for a bounded time by default; what the user sets goes first.
source "$LIB"
# spins NAME=VALUE...: how often libgomp spins in that environment
spins() {
    env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT OMP_DISPLAY_ENV=verbose "$@" sparge-gen --version 2>&1 |
        sed -n "s/.*GOMP_SPINCOUNT = '\([0-9]*\)'.*/\1/p"
}
[[ -n $(spins A=1) ]] || skip "OpenMP is not libgomp"
count=$(spins A=1)
((count >= 1 && count <= 20000)) || fail "spins $count times" # libgomp's own default is 300000
[[ $(spins OMP_WAIT_POLICY=passive) == 0 ]] || fail "OMP_WAIT_POLICY=passive is overruled"
(($(spins OMP_WAIT_POLICY=active) > 1000000)) || fail "OMP_WAIT_POLICY=active is overruled"
[[ $(spins GOMP_SPINCOUNT=7) == 7 ]] || fail "GOMP_SPINCOUNT is overruled"

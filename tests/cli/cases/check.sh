# Every operation of a small render agrees with the oracle; the size is the nearest that the model makes.
source "$LIB"
sparge-gen check --size 32x31 --frames 5 --steps 1 --cfg-scale 2 >said 2>log || fail "$(<log)"
[[ $(wc -l <said) == 1 ]] && grep -q -- '--size 32x31: 32x32' log || fail "$(<said)"

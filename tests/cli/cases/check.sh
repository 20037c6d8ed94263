# Every operation of a small render agrees with the oracle.
source "$LIB"
sparge-gen check --size 32x32 --frames 5 --steps 1 --cfg-scale 2 --quiet >said && [[ $(wc -l <said) == 1 ]]

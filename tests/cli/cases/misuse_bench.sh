# What `bench` is to measure comes first and decides which options there are; nothing is measured before all is read.
source "$LIB"
export SPARGE_GEN_MODEL=/nowhere
try bench
try bench --threads 1 step
try bench stap
try bench tensor
try bench step attention
try bench step --shape mochi
try bench step --steps 3
try bench step --repeat 0
try bench attention --size 64x64
try bench attention --shape mochy
try bench attention --shape 1,2,3
try bench attention --shape 1,2,3,4,5
try bench attention --shape 1,0,3,4
try bench attention --shape 1,2,99999999999999999999,4
try bench attention --dtype f16
try bench attention --json no/such/folder.json
try bench step
expect_files

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
try bench attention --shape 1,2,3x0x3,4
try bench attention --shape 1,2,3x3,4
try bench attention --dtype f16
try bench attention --attention spares
try bench attention --attention dense,,sage
try bench attention --topk 0.5,0
try bench attention --topk 0.5:0.3
try bench attention --topk 1,.9,.8,.7,.6,.5,.4,.3,.2,.1
try bench attention --topk 0.5 --tau 0.9
try bench attention --topk 0.5 --attention dense,sage
try bench attention --order hilbret
try bench attention --heads 0
huge=(--backend cpu --shape 1,200,4000000,1000)
without_figure() { sed 's/takes [0-9.]* GiB/takes N GiB/'; } # which depends on the processor
try bench attention "${huge[@]}" | without_figure
SPARGE_GEN_CPUMASK=avx3 try bench attention --cpumask base "${huge[@]}" | without_figure
SPARGE_GEN_CPUMASK=avx3 try bench attention --backend cpu
try bench attention --json no/such/folder.json
try bench step
expect_files

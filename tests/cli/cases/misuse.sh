# A wrong command line names the option, the value and what would be right; exit code 2, before anything is opened.
source "$LIB"
export SPARGE_GEN_MODEL=/nowhere
try --promt x
try --guidance-scal 3
try --neg x
try --bogus-option
try -z
try inof
try render
try "a red ball"
try --prompt x stray
try info a b
try --prompt
try --prompt --steps 4
try --steps 0 --prompt x
try --steps 5x --prompt x
try --steps 99999999999999999999 --prompt x
try --seed 1.5 --prompt x
try --cfg-scale nan --prompt x
try --flow-shift 0 --prompt x
try --size 64 --prompt x
try --size 64x --prompt x
try --size 0x64 --prompt x
try --size 640000x640000 --prompt x
try --sampler unipx --prompt x
try --dtype f16 --prompt x
try --memory-limit lots --prompt x
try --memory-limit -1G --prompt x
try --offload maybe --prompt x
try --offload on --backend cpu --prompt x
try bench step --offload on --backend ref
try --gpumask sm70 --prompt x
try --gpumask sm80 --backend cpu --prompt x
try --device 0 --backend cpu --prompt x
try bench attention --device 1 --backend ref
try --device -1 --prompt x
try check --device 0
try bench step --gpumask sm90 --backend ref
try tune --offload on --prompt x
try --quiet=3 --prompt x
try -qv --prompt x
try --quiet --verbose --prompt x
try --frames 5 --seconds 1 --prompt x
try --prompt x --prompt-file y
try --json - --output - --prompt x
try --sampler euler --sched-compat old --prompt x
try --sampler dpm --flow-shift 3 --prompt x
try --steps 4
expect_files

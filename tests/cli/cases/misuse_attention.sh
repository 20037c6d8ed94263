# Options of self-attention that exclude each other, do nothing together or make no sense are refused before anything is
# opened.
source "$LIB"
export SPARGE_GEN_MODEL=/nowhere
try --attention spare -p x
try --attention sprage -p x
try --tial on -p x
try --topk 1.5 -p x
try --topk nan -p x
try --tau -0.1 -p x
try --sim 2 -p x
try --pv -3 -p x
try --sink many -p x
try --score best -p x
try --tail yes -p x
try --tail-bias full -p x
try --pv-dtype fp4 -p x
try --budget head -p x
try --order hilber -p x
try --preset papers -p x
try --dense-steps 2 -p x
try --dense-layers 3-1 -p x
try --dense-layers "" -p x
try --topk 0.5 --tau 0.9 -p x
try --attention dense --topk 0.3 -p x
try --attention dense --order row -p x
try --attention dense --pv-dtype fp8 -p x
try --attention dense --preset paper -p x
try --attention dense --sparse-config f.json -p x
try --attention sage --tail on -p x
try --attention sage --block-mask m.safetensors -p x
try --tail off --tail-bias half -p x
try --preset paper --tail-bias half -p x
try --budget heads --tau 0.5 -p x
try --block-mask m.safetensors --score mean -p x
try --block-mask m.safetensors --topk 0.3 -p x
try --sparse-config f.json --topk 0.3 -p x
try --sparse-config f.json --pv 3 -p x
try --capture-qkv 1:2 -p x
try --capture-qkv 1:2:x.bin -p x
try --capture-qkv=-1:2:x.safetensors -p x
try --capture-qkv 1:2:x.safetensors --prompt-file x
try --top-k 0.5 -p x
try info --capture-qkv 1:2:x.safetensors
try tune --topk 0.5
try tune --l1 0.1 --l2 0.05
try tune --rule top
try tune --buckets 0
try tnue
expect_files

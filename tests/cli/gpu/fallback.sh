# What the best kernel does not serve is told of, with its calls, steps that are replayed as a graph among them: the PV filter
# on level sm90.
source "$LIB"

for pv in 0 20; do
    if ! sparge-gen "${prompt[@]}" --size 256x256 --frames 33 --steps 20 --cfg-scale 1 --dense-steps 0 --backend cuda \
        --gpumask sm90 --attention sparge --pv $pv --verbose -o $pv.y4m 2>$pv.log; then
        [[ $(<$pv.log) == "sparge-gen: --gpumask LEVEL: "*sm90 ]] && skip "no level sm90"
        fail "$(<$pv.log)"
    fi
done
layers=$(json "$SPARGE_GEN_MODEL/transformer/config.json" num_layers)
grep -qF "attend_blocks by mma.sync, not wgmma: a PV filter ($((20 * layers)) calls)" 20.log || fail "$(<20.log)"
! grep -q "not wgmma" 0.log || fail "$(<0.log)"
rm {0,20}.y4m {0,20}.log
expect_files

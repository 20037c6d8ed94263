# A full disk under the latents or the report: a message that names the file, and nothing of it.
source "$LIB"
mkdir disk
mount -t tmpfs -o size=4k tmpfs disk 2>/dev/null || skip "mounting is not allowed"
trap 'umount disk' EXIT
head -c 4096 /dev/zero >disk/full
sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -q -o a.y4m --latents disk/l.safetensors 2>log
(($? == 1)) || fail "$(<log)"
grep -q '^sparge-gen: disk/l.safetensors: cannot be written: No space left on device' log || fail "$(<log)"
expect_files disk disk/full log
sparge-gen "${prompt[@]}" "${small[@]}" --frames 5 -q -o a.y4m --json disk/r.json 2>log
(($? == 1)) || fail "$(<log)"
grep -q '^sparge-gen: disk/r.json: cannot be written: No space left on device' log || fail "$(<log)"
expect_files a.y4m disk disk/full log

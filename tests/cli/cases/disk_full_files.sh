# The same with a small file system of its own, for every format.
source "$LIB"
mkdir disk
mount -t tmpfs -o size=4k tmpfs disk 2>/dev/null || skip "mounting is not allowed"
trap 'umount disk' EXIT
head -c 4096 /dev/zero >disk/full
has_mp4 && mp4="a.mp4 a.webp"
for name in a.y4m ${mp4-} a-%d.png; do
    sparge-gen "${prompt[@]}" "${small[@]}" --frames 33 -q -o "disk/$name" 2>log
    (($? == 1)) || fail "$name: $(<log)"
    grep -q 'No space left on device' log || fail "$name: $(<log)"
    [[ $(ls -A disk) == full ]] || fail "$name leaves $(ls -A disk)"
done

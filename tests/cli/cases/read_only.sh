# A file system that is read-only is told before the work.
source "$LIB"
mkdir disk
mount -t tmpfs -o ro tmpfs disk 2>/dev/null || skip "mounting is not allowed"
trap 'umount disk' EXIT
try "${prompt[@]}" -o disk/a.y4m

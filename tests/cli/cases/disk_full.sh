# A full disk, or one that may only be read: a message that names the file, in every format, and nothing of it is left; the clip
# stays where only its report does not fit.
source "$LIB"
clip=("${prompt[@]}" "${small[@]}" -q)
if [[ -c /dev/full ]]; then
    sparge-gen "${clip[@]}" --frames 5 -o - >/dev/full 2>log
    [[ $? == 1 && $(<log) == *"stdout: "*"No space left on device" ]] || fail "$(<log)"
    rm log
fi
full_disk 4k
has_mp4 && mp4="a.mp4 a.webp"
for name in a.y4m ${mp4-} a-%d.png; do refused 1 "No space left on device" "${clip[@]}" --frames 33 -o "disk/$name"; done
refused 1 "disk/l.safetensors: cannot be written: No space" "${clip[@]}" --frames 5 -o a.y4m --latents disk/l.safetensors
sparge-gen "${clip[@]}" --frames 5 -o a.y4m --json disk/r.json 2>log
[[ $? == 1 && $(<log) == *"disk/r.json: "*"No space left on device"* ]] || fail "$(<log)"
expect_files a.y4m disk disk/full log
mount -o remount,ro disk
refused 1 disk/a.y4m "${clip[@]}" --frames 5 -o disk/a.y4m

# What does not fit on the device, or into the limit that stands for it, is refused before anything is computed: one
# message, exit 1, never the CPU instead.
source "$LIB"

refused 1 GiB "${prompt[@]}" --backend cuda --size 512x512 --memory-limit 100M -o a.y4m

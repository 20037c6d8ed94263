# A denoiser that does not fit into a GPU with all its tokens works on fewer at a time, where that takes less memory, before
# any of its blocks stay on the host.
source "$LIB"
minis hunyuan_hd16
plan() { # LIMIT: of info
    sparge-gen info hunyuan_hd16 --backend cuda --memory-limit "$1" --size 1280x720 --frames 129 --json j || fail "$1"
}
need() { echo $(($(json j plan.denoise.weight_bytes) + $(json j plan.denoise.work_bytes) + $(json j plan.staging_bytes))); }

whole=$(plan 80G) all=$(need)
exact=$(plan "$all")
! grep "^denoising  tokens in pieces" <<<"$whole$exact" || fail "it fits"
pieces=$(plan $((all - 1))) fewer=$(need)
grep -qx "denoising  tokens in pieces, since all at once would not fit" <<<"$pieces" || fail "$pieces"
((fewer < all)) || fail "$fewer of $all"
! grep "^offload .* of the denoiser" <<<"$pieces" || fail "$pieces"
plan $((fewer - 1)) | grep -q "^offload .* of the denoiser" || fail "$((fewer - 1))"

# The three formats show the same picture: MP4 and Y4M, taken for BT.709 in limited range, have the colours of the PNG.
source "$LIB"
has_mp4 || skip "a build without FFmpeg"
command -v ffmpeg >/dev/null || skip "no ffmpeg"
for name in a.mp4 a.y4m a-%d.png; do
    sparge-gen "${prompt[@]}" "${small[@]}" --size 64x64 --frames 5 -q -o "$name" || fail "$name"
done

# The mean red, green and blue of every frame, as numbers.
means() {
    ffmpeg -v error -i "$1" -vf "scale=1:1:$2flags=area+accurate_rnd+full_chroma_int" -f rawvideo -pix_fmt rgb24 - |
        od -An -v -tu1
}
read -r -a exact -d '' < <(means a-%d.png "")
((${#exact[@]} == 15)) || fail "${#exact[@]} numbers"
for clip in a.mp4 a.y4m; do
    read -r -a got -d '' < <(means $clip in_color_matrix=bt709:in_range=tv:)
    for i in "${!exact[@]}"; do
        difference=$((got[i] - exact[i]))
        ((${difference#-} <= 4)) || fail "$clip: ${got[*]}; exact: ${exact[*]}"
    done
done

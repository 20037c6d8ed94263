# The three formats show the same picture: MP4, taken for BT.709 in limited range, has the colours of the PNG, and so has Y4M
# without a word of its matrix, which the format cannot tell.
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
read -r -a got -d '' < <(means a.mp4 in_color_matrix=bt709:in_range=tv:)
for i in "${!exact[@]}"; do
    difference=$((got[i] - exact[i]))
    ((${difference#-} <= 4)) || fail "a.mp4: ${got[*]}; exact: ${exact[*]}"
done
mkdir exact taken
mv a-*.png exact
ffmpeg -v error -nostdin -i a.y4m -start_number 1 taken/a-%d.png || fail "ffmpeg"
psnr taken exact 50

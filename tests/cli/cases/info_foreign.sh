# Files that keep no settings of ours.
source "$LIB"
printf '\0\0\0\x18ftypisom' >cut.mp4
sparge-gen info cut.mp4 2>/dev/null
(($? == 1)) || fail cut.mp4
sparge-gen info /dev/zero 2>/dev/null
(($? == 1)) || fail /dev/zero

# A picture whose settings have too many values for a tree.
bytes() { printf '%b' "$(sed 's/../\\x&/g' <<<"$1")"; }
chunk() {
    bytes "$(printf %08x "$(stat -c %s data)")"
    { printf %s "$1"; cat data; } | tee body
    bytes "$(gzip -c body | tail -c 8 | od -A n -t x1 -N 4 | awk '{print $4 $3 $2 $1}')"
}
{
    printf '\x89PNG\r\n\x1a\n'
    bytes 00000001000000010802000000 >data
    chunk IHDR
    { printf 'sparge-gen\0\0\0\0\0{"program": "sparge-gen 0.1.0", "list": ['; yes 0, | head -n 70000; echo '0]}'; } >data
    chunk iTXt
    bytes 00000001 && printf IDAT
} >many.png
refused 1 "many.png: its settings have more than 65536" info many.png

# Settings that would be commands to a shell.
{
    printf '\x89PNG\r\n\x1a\n'
    bytes 00000001000000010802000000 >data
    chunk IHDR
    printf '%s' 'sparge-gen00000{"program": "sparge-gen 0.1.0", "model": "m", "prompt": "p", "seed": 1, "fit": ["$(x)"], "image": {"file": {"a": "`x`"}}}' |
        sed 's/00000/\x00\x00\x00\x00\x00/' >data
    chunk iTXt
    bytes 00000001 && printf IDAT
} >shell.png
[[ $(sparge-gen info shell.png | sed -n 's/^again: //p') == "sparge-gen --model m --prompt p --cache off --seed 1 -o again.png" ]] || fail "$(sparge-gen info shell.png)"

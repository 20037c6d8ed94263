# One clip a line: byte-order mark, CRLF and blank lines do not matter; each is what its prompt alone gives.
# Reports are numbered as clips are, but follow each other where they go to stdout or a device.
source "$LIB"
printf '\xef\xbb\xbfa red ball\r\n\r\n   \na blue square' >prompts.txt
sparge-gen --prompt-file prompts.txt "${small[@]}" --frames 1 -q -o a.b.png --json r.json || fail
sparge-gen --prompt "a blue square" "${small[@]}" --frames 1 -q -o alone.png || fail
expect_files prompts.txt a.b-0001.png a.b-0002.png r-0001.json r-0002.json alone.png
cmp a.b-0002.png alone.png || fail
sparge-gen --prompt-file prompts.txt "${small[@]}" --frames 1 -q -o c.png --json - >reports || fail
sparge-gen --prompt-file prompts.txt "${small[@]}" --frames 1 -q -o c.png --json /dev/null || fail
[[ $(json reports settings.prompt output) == "a red ball c-0001.png"$'\n'"a blue square c-0002.png" ]] || fail "$(<reports)"
rm c-0001.png c-0002.png reports
expect_files prompts.txt a.b-0001.png a.b-0002.png r-0001.json r-0002.json alone.png
[[ $(sparge-gen info a.b-0001.png --json - | json - settings.prompt) == "a red ball" ]] || fail "$(sparge-gen info a.b-0001.png)"

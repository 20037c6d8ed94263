# Files that keep no settings of ours.
source "$LIB"
head -c 100 /dev/zero >zeros
printf '\x89PNG\r\n\x1a\n' >cut.png
printf '\0\0\0\x18ftypisom' >cut.mp4
: >empty
for file in zeros cut.png empty; do try info "$file"; done
sparge-gen info cut.mp4 2>/dev/null
(($? == 1)) || fail cut.mp4
sparge-gen info /dev/zero 2>/dev/null
(($? == 1)) || fail /dev/zero

# Prompts that are no text.
source "$LIB"
export SPARGE_GEN_MODEL=/nowhere
try --prompt $'a b\xff'
try --prompt $'\xc0\xafx'
try --prompt $'\xed\xa0\x80'
try --prompt x --negative-prompt $'ok\xe2\x82'
printf 'fine\n\nbad \x80\n' >bad.txt
printf ' \n\r\n\t\n' >blank.txt
printf 'a\0b\n' >zero.txt
head -c 1100000 /dev/zero | tr '\0' x >large.txt
mkdir folder
for file in bad.txt blank.txt zero.txt large.txt folder missing.txt; do try --prompt-file "$file"; done

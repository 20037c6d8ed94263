# A folder or file that may not be written is found before the work.
source "$LIB"
((EUID != 0)) || skip "root may write everywhere"
mkdir shut
chmod a-w shut
echo old >old.y4m
chmod a-w old.y4m
try "${prompt[@]}" -o shut/a.mp4
try "${prompt[@]}" -o old.y4m

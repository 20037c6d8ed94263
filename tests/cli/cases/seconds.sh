# --seconds takes the nearest count of frames that the model makes.
source "$LIB"
sparge-gen info --json --size 64x64 --seconds 0.5 --fps 16 | grep '"frames"'
sparge-gen info --json --size 64x64 --seconds 0.001 | grep '"frames"'

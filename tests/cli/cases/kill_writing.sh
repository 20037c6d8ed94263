# A kill that cannot be caught, while frames are written: no file under the clip's name, and none under another where
# the file system knows files without a name.
source "$LIB"
has_mp4 && mp4=clip.mp4 mkv=clip.mkv
kill_at() { # CONDITION NAME OPTION...
    sparge-gen "${prompt[@]}" "${small[@]}" --steps 1 --size 96x96 --frames 81 -o "$2" "${@:3}" 2>/dev/null &
    wait_for $1 $!
    hidden=$(compgen -G '.*.part')
    kill -KILL $!
    wait $! 2>/dev/null
    [[ ! -e clip.y4m && ! -e clip.mp4 && ! -e clip.mkv ]] && ! compgen -G 'f-*.png' || fail "$*"
}
some() { writes "$1" 1000; }
one_done() { compgen -G ".f-1.png.*.part" >/dev/null; }
kill_at some clip.y4m
[[ -n $hidden ]] || expect_files
kill_at writes ${mp4-clip.y4m}
[[ -n $hidden ]] || expect_files
kill_at writes ${mkv-clip.y4m}
[[ -n $hidden ]] || expect_files
kill_at one_done f-%d.png

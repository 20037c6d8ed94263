# SIGTERM and SIGHUP end a render as Ctrl-C does, in every phase and format, and leave nothing.
source "$LIB"
has_mp4 && mp4=clip.mp4
denoising() { grep -q '^reading the prompt 1/1' log; }
decoding() { grep -q '^denoising 1/1' log; }
end_in() { # PHASE SIGNAL NAME OPTION...
    sparge-gen "${prompt[@]}" "${small[@]}" -o "$3" "${@:4}" 2>log &
    wait_for "$1"
    ends_by "$2" 130
    [[ $(tail -n 1 log) == "sparge-gen: interrupted" ]] || fail "$*: $(<log)"
    rm log
}
for name in clip.y4m ${mp4-} f-%d.png; do
    end_in denoising TERM "$name" --steps 1000
    end_in decoding TERM "$name" --steps 1 --size 96x96 --frames 81
done
end_in denoising HUP clip.y4m --steps 1000

# shellcheck disable=SC2034
# What the cases share. Sourced by each.
# shellcheck shell=bash

small=(--size 32x32 --steps 2 --cfg-scale 1) # with --frames it makes a render of under a second
prompt=(--prompt "a red ball bouncing on green grass")
corpus=${LIB%/*}/../fuzz/corpus
pictures=${LIB%/*}/../unit/pictures

fail() { echo "not so: $*" >&2; exit 1; }
skip() { echo "$*"; exit 77; }

# Does this build write MP4?
has_mp4() { [[ $(sparge-gen --version) == *.mp4* ]]; }

# Does its encoder of MP4 know --crf?
has_crf() { [[ $(sparge-gen --version) == *" by "@(libx264|libsvtav1|libaom-av1)* ]]; }

# The ending of clips in folders of compare and eval.
ending() { has_mp4 && echo mp4 || echo y4m; }

# Links mini checkpoints to the folder, each of its name, or skips the case. Their renders gain nothing from threads.
minis() {
    [[ -d $FIXTURES/$1 ]] || skip "no mini checkpoints beside the program"
    ln -s "${@/#/$FIXTURES/}" .
    export OMP_NUM_THREADS=1
}

# The embedded model as a folder of its own, NAME, with another sparge-gen.json if JSON is given.
own_model() { # NAME [JSON]
    rm -rf "$1"
    cp -rs "$(readlink -f "$SPARGE_GEN_MODEL")" "$1"
    [[ -z ${2-} ]] || { rm "$1/sparge-gen.json" && printf '%s\n' "$2" >"$1/sparge-gen.json"; }
}

# A safetensors file of a header and of what comes from stdin.
safetensors() { # NAME HEADER
    local size
    printf -v size '\\x%02x' $((${#2} & 255)) $((${#2} >> 8 & 255)) $((${#2} >> 16)) 0 0 0 0 0
    { printf '%b%s' "$size" "$2" && cat; } >"$1"
}

# A file system of SIZE that is full, in the folder disk, which holds a file `full`.
full_disk() { # SIZE
    mkdir disk
    mount -t tmpfs -o "size=$1" tmpfs disk 2>/dev/null || skip "mounting is not allowed"
    trap 'umount disk' EXIT
    head -c "$1" /dev/zero >disk/full
}

# Runs a command on a pseudo-terminal, whose output it prints.
on_terminal() { TERM=xterm script -qec "$1" /dev/null; }
needs_terminal() { script -qec true /dev/null &>/dev/null || skip "no pseudo-terminal"; }

# The values at a path of a JSON file or of stdin (-), a line each: `json r.json settings.seed`, `json r.json 'arms[*].name'`, where
# * is any index or key. With several paths a line for each value of the file, as of JSON lines, with - for what it lacks.
json() { # FILE PATH...
    local copy tokens='"([^"\\]|\\.)*"|[][{}:,]|[^][{}:,"[:space:]]+' wanted=${*:2}
    wanted=${wanted//./\\.} wanted=${wanted//\[/\\[} wanted=${wanted//\]/\\]}
    copy=$(mktemp "$REPORTS/XXXXXX") && cat -- "$1" >"$copy" # which run.sh validates
    grep -oE "$tokens" "$copy" | wanted=${wanted//\*/[^].[]*} awk '
        BEGIN { n = split(ENVIRON["wanted"], want, " ") }
        function line(    k) {
            if (n == 1) return
            for (k = 1; k <= n; k++) printf "%s%s", k in got ? got[k] : "-", k < n ? " " : "\n"
            split("", got)
        }
        function leaf(value,    path, i, k) {
            for (i = 1; i <= depth; i++) path = path (kind[i] == "[" ? "[" at[i] "]" : (i > 1 ? "." : "") key[i])
            for (k = 1; k <= n; k++)
                if (path ~ ("^(" want[k] ")$")) {
                    if (n == 1) print value
                    got[k] = value
                }
        }
        /^[[{]$/ { kind[++depth] = $0; at[depth] = 0; named = 0; next }
        /^[]}]$/ { if (--depth == 0) line(); next }
        $0 == "," { at[depth]++; named = 0; next }
        $0 == ":" { next }
        kind[depth] == "{" && !named { key[depth] = substr($0, 2, length($0) - 2); named = 1; next }
        { leaf($0 ~ /^"/ ? substr($0, 2, length($0) - 2) : $0) }'
}

# Ends unless a JSON file has these values, which are shell patterns: `has r.json settings.seed=7 seconds.load=[0-9]*`.
has() { # FILE PATH=PATTERN...
    local pair value
    for pair in "${@:2}"; do
        value=$(json "$1" "${pair%%=*}")
        # shellcheck disable=SC2053
        [[ $value == ${pair#*=} ]] || fail "$1: ${pair%%=*} is '$value', not ${pair#*=}"
    done
}

# What info reports of a file, but for its name.
settings_of() { sparge-gen info --json - "$1" | grep -v '^  "file": '; }

# What is in the folder, with sizes and times.
files() { find . -printf '%P %s %T@ %l\n'; }

# Ends unless the folder holds exactly these names, hidden ones included.
expect_files() {
    local there
    there=$(find . -mindepth 1 -printf '%P\n' | sort | tr '\n' ' ')
    [[ $there == "$(printf '%s\n' "$@" | sort | tr '\n' ' ')" || ($# == 0 && -z $there) ]] || fail "the folder holds: $there"
}

# Ends unless the command ends with CODE and a message that holds TEXT, and leaves the folder as it is.
refused() { # CODE TEXT ARGUMENT...
    local before code=0 message
    before=$(files)
    message=$(sparge-gen "${@:3}" 2>&1) || code=$?
    [[ $code == "$1" && $message == *"sparge-gen: "*"$2"* ]] || fail "${*:3}: exit $code: $message"
    [[ $(files) == "$before" ]] || fail "${*:3}: leaves $(files | diff - <(echo "$before"))"
}

# Ends unless the command that `info` prints for a clip makes it again, to the byte; it is in $again.
makes_again() { # FILE [OPTION...]
    local more=("${@:2}")
    again=$(sparge-gen info "$1" | sed -n '/^again: /,$p')
    again=${again#again: }
    eval "$again ${more[*]@Q} -q -o again.${1##*.}" || fail "$again"
    cmp "$1" "again.${1##*.}" || fail "$again"
    rm "again.${1##*.}"
}

# Ends unless a result is as near as so many decibels to another.
psnr() { # A B LEAST
    local report mean identical frames
    report=$(sparge-gen compare "$1" "$2" --json - 2>/dev/null) || fail "$1 and $2 are not compared"
    read -r mean identical frames < <(json - psnr.mean identical frames <<<"$report")
    [[ $identical == "$frames" || ${mean%.*} -ge $3 ]] || fail "$1 and $2 are $mean dB apart"
}

# A checksum of what a safetensors file holds behind its header, which has the settings.
tensors() { tail -c +$((9 + $(od -An -tu8 -N8 "$1"))) "$1" | cksum; }

# Runs the command in the background, as $!, where Ctrl-C reaches it: a job of its own would ignore SIGINT.
in_background() { env --default-signal=INT sparge-gen "$@" 2>log & }

# Ends the command in the background by a signal; ends unless it exits with CODE and leaves these files beside the log.
ends_by() { # SIGNAL CODE FILE...
    local code=0
    kill -s "$1" $!
    wait $! || code=$?
    ((code == $2)) || fail "exit $code: $(<log)"
    expect_files log "${@:3}"
}

# Waits until a command is true; at most a minute.
wait_for() {
    for ((i = 0; i < 1200; i++)); do
        "$@" 2>/dev/null && return
        sleep 0.05
    done
    fail "waited in vain for: $*"
}

# Does the process write a file in this folder, with more than so many bytes so far? It may have no name yet.
writes() {
    local fd
    for fd in /proc/"$1"/fd/*; do
        [[ ${fd##*/} -gt 2 && $(readlink "$fd") == "$PWD"/* && $(stat -Lc %s "$fd") -ge ${2-0} ]] && return
    done
    return 1
}

# A checkpoint of the shapes that published/NAME has, as a folder NAME. Its weights are holes: `info` reads headers alone.
published() { # NAME
    local kind path rest list=${LIB%/*}/published/$1
    while read -r kind path rest; do
        mkdir -p "$1/$(dirname "$path")"
        case $kind in
        json) echo "$rest" >"$1/$path" ;;
        tokenizer) ln -s "$FIXTURES/$rest/$path" "$1/$path" ;;
        pieces) # of a text encoder's table; those that the mini's tokenizer lacks are no text's
            mkdir "$1/$path"
            cp "$FIXTURES"/wan22_hd128/tokenizer/tokenizer_config.json "$1/$path"
            LC_ALL=C awk -v "rows=$rest" 'BEGIN {
                for (i = 1000; i < rows; i++) printf "\n\017\n\010zz%06d\025\241\241\241\301", i
            }' | cat "$FIXTURES"/wan22_hd128/tokenizer/spiece.model - >"$1/$path/spiece.model"
            ;;
        file)
            rest=$(awk -v "file=$path" '
                $1 == "file" { mine = $2 == file }
                !mine || NF != 3 || $2 !~ /^B?F[0-9]+$/ { next }
                {
                    head = $1; tail = ""; from = to = 0
                    if (match($1, /\{[0-9]+-[0-9]+\}/)) {
                        split(substr($1, RSTART + 1, RLENGTH - 2), range, "-")
                        head = substr($1, 1, RSTART - 1); tail = substr($1, RSTART + RLENGTH)
                        from = range[1] + 0; to = range[2] + 0
                    }
                    bytes = $2 == "F32" ? 4 : 2
                    for (i = split($3, d, ","); i > 0; i--) bytes *= d[i]
                    for (i = from; i <= to; i++) {
                        printf "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[%s],\"data_offsets\":[%.0f,%.0f]}", comma,
                            tail == "" ? head : head i tail, $2, $3, at, at + bytes
                        at += bytes; comma = ","
                    }
                }
                END { printf " %.0f", at }' "$list")
            safetensors "$1/$path" "{${rest% *}}" </dev/null
            truncate -s "+${rest##* }" "$1/$path"
            ;;
        esac
    done < <(grep -E '^(json|tokenizer|pieces|file) ' "$list")
}

# The names, types and shapes of safetensors files' tensors, as published/ has them.
shapes_of() { # FILE...
    local file
    for file; do
        head -c $((8 + $(od -An -tu8 -N8 "$file"))) "$file" | tail -c +9 |
            grep -aoE '"[^"]+": *\{"dtype": *"[A-Z0-9_]+", *"shape": *\[[0-9, ]*' | sed -E 's/[][" {]//g; s/:dtype:|,shape:/ /g'
    done
}

# A part of published/NAME, or of LIST, transformer or text_encoder, as a GGUF, NAME-PART-TYPE.gguf: of TYPE where rows have whole
# blocks, other matrices BF16, the rest F32. Its weights are holes.
published_gguf() { # NAME PART TYPE [LIST]
    local head bytes file=$1-$2-$3.gguf
    read -r bytes head < <(awk -v part="$2/" -v type="$3" -v family="${1%%-*}" '
        BEGIN {
            number["F32"] = 0; block["F32"] = 1; size["F32"] = 4
            number["BF16"] = 30; block["BF16"] = 1; size["BF16"] = 2
            number["Q8_0"] = 8; block["Q8_0"] = 32; size["Q8_0"] = 34
            number["Q4_K"] = 12; block["Q4_K"] = 256; size["Q4_K"] = 144
        }
        function u(n, bytes,    s) {
            for (s = ""; bytes-- > 0; n = int(n / 256)) s = s sprintf("\\x%02x", n % 256)
            return s
        }
        function text(t) { return u(length(t), 8) t }
        function tensor(name, shape,    d, n, i, kind, all) {
            n = split(shape, d, ",")
            if (n == 5) { d[2] *= d[1]; for (i = 1; i < 5; i++) d[i] = d[i + 1]; n = 4 }
            kind = n != 2 ? "F32" : d[2] % block[type] ? "BF16" : type
            infos = infos text(name) u(n, 4)
            for (all = 1; n > 0; n--) { infos = infos u(d[n], 8); all *= d[n] }
            infos = infos u(number[kind], 4) u(at, 8)
            at += int((all / block[kind] * size[kind] + 31) / 32) * 32
            count++
        }
        $1 == "file" { mine = index($2, part) == 1 }
        !mine || NF != 3 || $2 !~ /^B?F[0-9]+$/ { next }
        match($1, /\{[0-9]+-[0-9]+\}/) {
            split(substr($1, RSTART + 1, RLENGTH - 2), range, "-")
            head = substr($1, 1, RSTART - 1); tail = substr($1, RSTART + RLENGTH)
            for (i = range[1] + 0; i <= range[2] + 0; i++) tensor(head i tail, $3)
            next
        }
        { tensor($1, $3) }
        END {
            printf "%.0f GGUF%s%s%s%s%s%s%s\n", at, u(3, 4), u(count, 8), u(1, 8), text("general.architecture"), u(8, 4),
                text(family), infos
        }' "${4-${LIB%/*}/published/$1}")
    printf '%b' "$head" >"$file"
    truncate -s %32 "$file"
    truncate -s "+$bytes" "$file"
}

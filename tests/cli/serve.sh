# shellcheck shell=bash
# Starts a server and sends it requests. Sourced by cases after lib.sh.

sparge-gen --version | grep -q '^libmicrohttpd for' || skip "this build has no server"
command -v curl >/dev/null || skip "no curl"
export OMP_NUM_THREADS=1

# Starts a server at a free port, with its log in the file log. $url becomes its address, $server its process.
start() { # OPTION...
    rm -f log
    sparge-gen serve --port 0 --backend cpu "$@" 2>log &
    server=$!
    trap 'kill -9 $server 2>/dev/null' EXIT
    wait_for grep -q '^serving' log
    url=$(sed -n 's,^serving .* at \(http://.*\)/;.*,\1,p' log)
}

stop() { # [SIGNAL]
    kill -s "${1:-TERM}" "$server"
    wait "$server"
}

# Sends a request and expects this status. The answer is then in the file answer, its head in the file head.
call() { # STATUS PATH CURL-OPTION...
    local got
    got=$(curl -s -g -m 100 -o answer -D head -w '%{http_code}' "$url$2" "${@:3}") || fail "curl $2: exit $?: $(<log)"
    [[ $got == "$1" ]] || fail "$2: $got: $(<answer)"
}

post() { # STATUS PATH JSON CURL-OPTION...
    call "$1" "$2" -H 'Content-Type: application/json' -d "$3" "${@:4}"
}

# Makes a job; $id becomes its id.
submit() { # JSON
    post 202 /jobs "$1"
    id=$(json answer id)
}

# Waits for the end of a job, and expects this status.
expect_job() { # STATUS [ID]
    call 200 "/jobs/${2-$id}/events"
    call 200 "/jobs/${2-$id}"
    [[ $(json answer status) == "$1" ]] || fail "$(<answer)"
}

# Sets $python to a Python with the package openai: that of the system, or of a virtual environment beside the fixtures,
# made once from PyPI.
find_openai() {
    local version=3.51.0 folder=${FIXTURES%/*}/openai base=${PYTHON:-python3}
    has_openai() { "$python" -c "import openai; exit(openai.__version__ != '$version')" 2>/dev/null; }
    python=$base
    has_openai && return
    python=$folder/bin/python
    (
        flock 9 && ! has_openai && "$base" -m venv --clear "$folder" &&
            "$python" -m pip install --quiet --disable-pip-version-check --timeout 10 --retries 1 "openai==$version"
    ) 9>"$folder.lock" &>/dev/null
    has_openai
}

#!/usr/bin/env bash
# app/run on machines that are not here: its folder, the files of the system that it reads and all commands that it calls are
# stand-ins. Each case compares the commands and the lines that people see. usage: run.sh [CASE-PATTERN]
set -uo pipefail
unset CUDACXX CUDAHOSTCXX SG_FETCH
pattern=${1:-*}
source=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0 passed=0

# ---- the commands: each writes what it is called with into the log ----

command_of() { # NAME: the rest of its script is read from the standard input
    { printf '#!/bin/bash\n'; cat; } >"$work/stand-ins/$1"
    chmod +x "$work/stand-ins/$1"
}
mkdir "$work/stand-ins"
command_of installed <<'END'
grep -qxF -- "$1" "$M/installed" 2>/dev/null
END
command_of add <<'END'
for name; do
    [[ " ${NOT_PACKAGED-} " != *" $name "* ]] || { echo "there is no $name"; exit 1; }
done
printf '%s\n' "$@" >>"$M/installed"
END
command_of apt-get <<'END'
echo "apt-get $*" >>"$M/log"
[[ $1 == update ]] || add "${@:4}"
END
command_of dpkg-query <<'END'
for name in "${@:3}"; do installed "$name" && echo "$name installed"; done; exit 1
END
command_of dnf <<'END'
echo "dnf $*" >>"$M/log"; add "${@:3}"
END
command_of rpm <<'END'
for name in "${@:3}"; do
    if installed "$name"; then echo "$name-1.fc44"
    elif [[ $name == /* ]]; then echo "error: file $name: No such file or directory" >&2
    else echo "no package provides $name"
    fi
done
exit 1
END
command_of pacman <<'END'
[[ $1 != -T ]] || { for name in "${@:2}"; do installed "$name" || echo "$name"; done; exit 127; }
echo "pacman $*" >>"$M/log"; add "${@:4}"
END
command_of sudo <<'END'
echo "sudo" >>"$M/log"; exec "$@"
END
command_of id <<'END'
echo "${USER_ID-0}"
END
command_of cmake <<'END'
echo "cmake ${*//$M/M}" >>"$M/log"
[[ -z ${NO_LIBRARY-} ]] || { echo "libpng is not found" >&2; exit 1; }
touch "$M/tree/build/release/build.ninja"
echo "-- Configuring done"
echo "sparge-gen: built without something"
END
command_of ninja <<'END'
echo ninja >>"$M/log"
printf '#!/bin/bash\necho "sparge-gen $*" >>"$M/log"\n' >"$M/tree/build/release/sparge-gen"
chmod +x "$M/tree/build/release/sparge-gen"
END
command_of nvidia-smi <<'END'
case $1 in
    *driver_version*) [[ ${SMI_DRIVER-} ]] && echo "$SMI_DRIVER" || { echo "NVIDIA-SMI has failed"; exit 9; } ;;
    *compute_cap*) echo "${CARDS-9.0}" ;;
esac
END
command_of ldconfig <<'END'
[[ -z ${CUDNN-} ]] || echo "	libcudnn.so.9 (libc6,x86-64) => /usr/lib/libcudnn.so.9"
END
command_of python3 <<'END'
args=("$@")
echo "python3 ${*//$M/M}" >>"$M/log"
while [[ $1 != -r ]]; do shift; done
sed 's/==.*sha256:[0-9a-f]\{64\}$/ by hash/' "$2" >>"$M/log"
[[ -z ${NO_NETWORK-} ]] || exit 1
make_nvcc "$M/tree/build/toolkit.part/nvidia/cu13/bin" 13.5 "${WHEELS_COMPILE-yes}"
mkdir -p "$M/tree/build/toolkit.part/nvidia/cu13/lib"
END
command_of make_nvcc <<'END'
mkdir -p "$1"
cat >"$1/nvcc" <<SCRIPT
#!/bin/bash
[[ \$1 != --version ]] || { echo "Cuda compilation tools, release $2, V$2.1"; exit; }
echo "nvcc $2 tries" >>"\$M/log"
[[ $3 == yes ]]
SCRIPT
chmod +x "$1/nvcc"
END

# ---- machines ----

mapfile -t system_commands < <(type -P bash cat chmod grep sed mkdir rm mv ln touch flock readlink dirname mktemp stat paste env)

# machine NAME ID [ID_LIKE]: a fresh one, called M in what is compared
machine() {
    name=$1
    export M=$work/$1 SG_ROOT=$work/$1/root
    local manager=()
    mkdir -p "$M"/{bin,root/etc,tree/app,tree/build}
    cp "$source"/app/{run,packages,toolkit} "$M/tree/app"
    printf 'ID=%s\nID_LIKE="%s"\nVERSION_ID=1\nNAME="A machine"\n' "$2" "${3-}" >"$SG_ROOT/etc/os-release"
    case "$2 ${3-}" in
        *debian* | *ubuntu*) manager=(apt-get dpkg-query) ;;
        *fedora*) manager=(dnf rpm) ;;
        *arch*) manager=(pacman) ;;
    esac
    manager+=(installed add id sudo cmake ninja ldconfig python3 make_nvcc)
    ln -s "${system_commands[@]}" "${manager[@]/#/$work/stand-ins/}" "$M/bin"
}
driver() { # VERSION: as the kernel tells it
    ln -sf "$work/stand-ins/nvidia-smi" "$M/bin"
    mkdir -p "$SG_ROOT/proc/driver/nvidia/gpus/0000:01:00.0"
    printf 'NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  %s  Release Build  (root@host)\nGCC version:  gcc version 14.2.0\n' \
        "$1" >"$SG_ROOT/proc/driver/nvidia/version"
    printf 'Model: \t\t NVIDIA %s\nIRQ:   \t\t 41\n' "${2-A100}" >"$SG_ROOT/proc/driver/nvidia/gpus/0000:01:00.0/information"
}
nvcc() { "$work/stand-ins/make_nvcc" "$SG_ROOT/usr/local/cuda/bin" "$@"; } # VERSION, yes or no: compiles
app_run() {
    : >"$M/log"
    PATH=$M/bin "$M/tree/app/run" "$@" >"$M/said" 2>&1 </dev/null
}
on_terminal() { # ANSWER ARGUMENT...
    : >"$M/log"
    printf '%s\n' "$1" | PATH=$M/bin "$(type -P script)" -qec "$M/tree/app/run ${*:2}" /dev/null >"$M/said" 2>&1
}

# expect WHAT FILE: the file holds the lines of the standard input
expect() {
    local got
    got=$(sed "s|$M|M|g; s/\r$//" "$2")
    if diff -u <(cat) <(printf '%s\n' "$got") >"$work/diff"; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        { echo "FAIL $name: $1"; tail -n +3 "$work/diff"; echo "--- said"; cat "$M/said"; } >&2
    fi
}
commands() { expect "${1-commands}" "$M/log"; }
said() { grep -E "$1" "$M/said" >"$M/chosen"; expect "lines for people" "$M/chosen"; }

# ---- distributions ----

debian_names="gcc cmake ninja-build pkgconf libjansson-dev libutf8proc-dev libpng-dev libjpeg-dev libstb-dev libdnnl-dev libavformat-dev libavcodec-dev libswscale-dev libavutil-dev libmicrohttpd-dev"

case_debian_likes() {
    for like in debian ubuntu "linuxmint ubuntu debian" "pop ubuntu debian"; do
        # shellcheck disable=SC2086
        machine "${like%% *}" ${like%% *} "${like#* }"
        app_run --prompt "a ball"
        commands <<END
apt-get update
apt-get install -y --no-install-recommends $debian_names
cmake --preset release -DSG_CUDA=OFF
ninja
sparge-gen --prompt a ball
END
        app_run --yes --version
        commands "a second start" <<END
ninja
sparge-gen --version
END
    done
}
case_fedora() {
    machine fedora fedora
    USER_ID=1000 app_run
    commands <<END
sudo
dnf install -y gcc cmake ninja-build pkgconf-pkg-config jansson-devel utf8proc-devel libpng-devel libjpeg-turbo-devel stb_easy_font-devel onednn-devel pkgconfig(libavformat) pkgconfig(libavcodec) pkgconfig(libswscale) pkgconfig(libavutil) stb_image-devel libmicrohttpd-devel
cmake --preset release -DSG_CUDA=OFF
ninja
sparge-gen 
END
}
case_arch() {
    machine arch cachyos arch
    app_run
    commands <<END
pacman -S --needed --noconfirm gcc cmake ninja pkgconf jansson libutf8proc libpng libjpeg-turbo stb onednn ffmpeg libmicrohttpd
cmake --preset release -DSG_CUDA=OFF
ninja
sparge-gen 
END
    rm "$M/installed" # all is missing again, as after a change of the list
    on_terminal n
    commands "declined" <<END
cmake --preset release -DSG_CUDA=OFF
ninja
sparge-gen 
END
    on_terminal n
    commands "declined once, not asked again" <<END
ninja
sparge-gen 
END
    app_run --yes
    commands "but by --yes" <<END
pacman -S --needed --noconfirm gcc cmake ninja pkgconf jansson libutf8proc libpng libjpeg-turbo stb onednn ffmpeg libmicrohttpd
cmake --preset release -DSG_CUDA=OFF
ninja
sparge-gen 
END
}
case_purposes_of_tests() {
    for id in debian fedora arch; do
        machine "tests-$id" $id
        (cd "$M/tree" && : >"$M/log" && PATH=$M/bin bash -c '. app/packages && install_missing test all package' >"$M/said" 2>&1)
        grep -v update "$M/log"
    done >"$work/all"
    expect commands "$work/all" <<END
apt-get install -y --no-install-recommends clang libomp-dev libclang-rt-dev libcmocka-dev ffmpeg openmpi-bin python3-jsonschema curl python3-numpy python3-venv valgrind chromium python3 dpkg-dev file
dnf install -y clang libomp-devel compiler-rt libcmocka-devel /usr/bin/ffprobe openmpi python3-jsonschema curl python3-numpy valgrind chromium python3 dpkg-dev file
pacman -S --needed --noconfirm clang openmp compiler-rt cmocka ffmpeg openmpi python-jsonschema curl python-numpy valgrind chromium python dpkg file
END
}
case_unknown_distribution() {
    machine unknown slackware
    app_run
    commands <<END
cmake --preset release -DSG_CUDA=OFF
ninja
sparge-gen 
END
    said 'not known|gcc' <<END
The packages of this distribution are not known here. Needed are:
    a C compiler: gcc 12 or clang 15, CMake 3.25, Ninja, pkg-config, Jansson, utf8proc, libpng, libjpeg, stb_easy_font.h, oneDNN, FFmpeg, stb_image, libmicrohttpd
END
}
case_a_feature_is_not_packaged() {
    machine no-onednn debian
    NOT_PACKAGED=libdnnl-dev app_run
    commands <<END
apt-get update
apt-get install -y --no-install-recommends $debian_names
apt-get update
apt-get install -y --no-install-recommends ${debian_names% libdnnl*}
cmake --preset release -DSG_CUDA=OFF
ninja
sparge-gen 
END
    said '^sparge-gen: ' <<<"sparge-gen: built without something"
    app_run
    commands "not tried again" <<END
ninja
sparge-gen 
END
    echo libdnnl-dev >>"$M/installed"
    app_run
    commands "installed later" <<END
apt-get update
apt-get install -y --no-install-recommends libavformat-dev libavcodec-dev libswscale-dev libavutil-dev libmicrohttpd-dev
cmake --preset release -DSG_CUDA=OFF
ninja
sparge-gen 
END
}
case_without_root() {
    machine no-root debian
    rm "$M/bin/sudo"
    USER_ID=1000 app_run
    commands <<END
cmake --preset release -DSG_CUDA=OFF
ninja
sparge-gen 
END
    said 'root|apt' <<END
Packages are missing. As root, run:
    apt-get update; env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $debian_names 
END
}
case_terminal() {
    machine terminal debian
    USER_ID=1000 on_terminal ""
    commands <<END
sudo
apt-get update
sudo
apt-get install -y --no-install-recommends $debian_names
cmake --preset release -DSG_CUDA=OFF
ninja
sparge-gen 
END
    said 'sudo|Run' <<END
    sudo apt-get update; sudo env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $debian_names 
Run this? [Y/n] building (some minutes)
END
}

case_terminal_yes() {
    machine terminal-yes debian
    on_terminal "" --yes --version
    said 'Run this' <<<""
    commands <<END
apt-get update
apt-get install -y --no-install-recommends $debian_names
cmake --preset release -DSG_CUDA=OFF
ninja
sparge-gen --version
END
}
case_a_library_is_missing() {
    machine no-libpng slackware
    NO_LIBRARY=libpng app_run && echo "app/run goes on without CMake" >>"$M/log"
    commands <<<"cmake --preset release -DSG_CUDA=OFF"
    said 'libpng is' <<<"libpng is not found"
    app_run
    commands "and the next start" <<<"cmake --preset release -DSG_CUDA=OFF
ninja
sparge-gen "
}
# The real CMake, which does not find what it is told not to.
case_without_features() {
    name=without-features
    export M=$work/$name
    mkdir "$M"
    printf '#!/bin/sh\ncase "$*" in *libav* | *microhttpd*) exit 1 ;; esac\nexec pkg-config "$@"\n' >"$M/no-ffmpeg"
    chmod +x "$M/no-ffmpeg"
    configure() {
        PKG_CONFIG=$M/no-ffmpeg cmake -S "$source" -B "$M/build" -G Ninja -DSG_TESTS=OFF -DSG_CUDA=OFF -DDNNL_LIBRARY=OFF -DSTB_IMAGE_INCLUDE=OFF "$@" >"$M/said" 2>&1
        echo "$?" >"$M/log"
    }
    configure
    commands <<<0
    said '^sparge-gen: ' <<END
sparge-gen: built without oneDNN, so products and convolutions on the CPU are slower; it is in libdnnl-dev (Debian, Ubuntu), onednn-devel (Fedora) or onednn (Arch)
sparge-gen: built without FFmpeg, so clips are written as Y4M and pictures, not as MP4, and no videos and no WebP are read; it is in libavformat-dev libavcodec-dev libswscale-dev libavutil-dev (Debian, Ubuntu), pkgconfig(libavformat) pkgconfig(libavcodec) pkgconfig(libswscale) pkgconfig(libavutil) (Fedora) or ffmpeg (Arch)
sparge-gen: built without stb_image, so no BMP, GIF or TGA is read; it is in libstb-dev (Debian, Ubuntu), stb_image-devel (Fedora) or stb (Arch)
sparge-gen: built without libmicrohttpd, so there is no web server (serve); it is in libmicrohttpd-dev (Debian, Ubuntu), libmicrohttpd-devel (Fedora) or libmicrohttpd (Arch)
END
    configure -DSG_ONEDNN=OFF -DSG_FFMPEG=OFF -DSG_STB_IMAGE=OFF -DSG_SERVE=OFF
    commands "OFF" <<<0
    said '^sparge-gen: ' <<<""
    configure -DSG_ONEDNN=ON
    commands "ON" <<<1
    said 'is ON' <<<"  SG_ONEDNN is ON, but oneDNN is not found"
}

# ---- GPUs ----

complete() { tr ' ' '\n' <<<"$debian_names $*" >"$M/installed"; } # a machine of Debian that has all packages, and these
cpu="cmake --preset release -DSG_CUDA=OFF
ninja
sparge-gen "
by() { # NVCC
    echo "cmake --preset release -DSG_CUDA=ON -DCMAKE_CUDA_COMPILER=$1 -DSG_CUDA_LIBRARIES=M/tree/build/toolkit/nvidia/cudnn/lib
ninja
sparge-gen "
}
pip="python3 -m pip install --no-deps --only-binary :all: --require-hashes --target M/tree/build/toolkit.part -r M/tree/build/toolkit.part/requirements.txt"
compiler="nvidia-cuda-nvcc by hash
nvidia-nvvm by hash
nvidia-cuda-crt by hash
nvidia-cuda-runtime by hash
nvidia-cuda-cccl by hash
nvidia-cublas by hash"
cudnn="nvidia-cudnn-cu13 by hash
nvidia-cuda-nvrtc by hash"
wheels_nvcc=M/tree/build/toolkit/nvidia/cu13/bin/nvcc
machines_nvcc=M/root/usr/local/cuda/bin/nvcc

case_no_driver() {
    machine no-driver debian
    complete g++ python3-pip
    nvcc 13.0 yes
    app_run
    commands <<<"$cpu"
    said 'driver|CUDA|CPU|GPU' <<<""
}
case_old_drivers() {
    for version in 535.261.03 550.163.01; do
        machine "driver-$version" debian
        complete g++ python3-pip
        driver $version
        app_run
        commands <<<"$cpu"
        said 'driver' <<<"sparge-gen: built for the CPU: driver ${version%%.*} is too old for CUDA 13; it needs 580"
        nvcc 12.4 yes
        app_run
        commands "a toolkit appears" <<<"nvcc 12.4 tries
$(by $machines_nvcc)"
        app_run
        commands "nothing changes" <<<"ninja
sparge-gen "
        rm -r "$SG_ROOT/usr/local/cuda"
        app_run
        commands "it goes" <<<"$cpu"
        nvcc 13.0 yes
        app_run
        commands "one that the driver cannot serve" <<<"$cpu"
        said 'driver' <<<"sparge-gen: built for the CPU: driver ${version%%.*} is too old for CUDA 13; it needs 580; CUDA 13.0 of $machines_nvcc does not fit it"
        nvcc 12.4 no
        app_run
        commands "one that does not compile" <<<"nvcc 12.4 tries
$cpu"
        said 'driver' <<<"sparge-gen: built for the CPU: driver ${version%%.*} is too old for CUDA 13; it needs 580; CUDA 12.4 of $machines_nvcc does not compile with this system's compiler and C library"
    done
}
case_driver_580() {
    machine driver-580 debian
    complete
    driver 580.95.05
    app_run
    commands <<<"apt-get update
apt-get install -y --no-install-recommends g++ python3-pip
$pip
$compiler
$cudnn
nvcc 13.5 tries
$(by $wheels_nvcc)"
    said 'MB' <<<"From PyPI into build/toolkit: 998 MB, NVIDIA's compiler and cuBLAS, cuDNN"
    app_run
    commands "nothing changes" <<<"ninja
sparge-gen "
    driver 580.95.05 H100
    app_run
    commands "another card" <<<"nvcc 13.5 tries
$(by $wheels_nvcc)"
    nvcc 13.0 yes
    CUDNN=yes app_run
    commands "a toolkit of the machine" <<<"nvcc 13.0 tries
$(by $machines_nvcc)"
    driver 535.261.03
    rm -r "$SG_ROOT/usr/local/cuda"
    app_run
    commands "an older driver" <<<"$cpu"
}
case_driver_580_with_a_toolkit() {
    machine toolkit debian
    complete g++ python3-pip
    driver 580.95.05
    nvcc 13.0 yes
    app_run
    commands <<<"nvcc 13.0 tries
$pip
$cudnn
$(by $machines_nvcc)"
    machine toolkit-cudnn debian
    complete g++ python3-pip
    driver 580.95.05
    nvcc 13.0 yes
    CUDNN=yes app_run
    commands "with cuDNN" <<<"nvcc 13.0 tries
$(by $machines_nvcc)"
    machine toolkit-12 debian
    complete g++ python3-pip
    driver 580.95.05
    nvcc 12.4 no
    CUDNN=yes app_run
    commands "which does not compile" <<<"nvcc 12.4 tries
$pip
$compiler
nvcc 13.5 tries
$(by $wheels_nvcc)"
}
case_no_download() {
    machine no-fetch debian
    complete g++ python3-pip
    driver 580.95.05
    SG_FETCH=no app_run
    commands <<<"$cpu"
    said 'CUDA' <<<"sparge-gen: built for the CPU: there is no CUDA toolkit, and SG_FETCH=no forbids to download one"
    on_terminal n
    commands "declined" <<<"$cpu"
    said 'CUDA|Download' <<<"Download this? [Y/n] sparge-gen: built for the CPU: there is no CUDA toolkit, and app/run --yes downloads one"
    NO_NETWORK=yes app_run --yes
    commands "no network" <<<"$pip
$compiler
$cudnn
$cpu"
    said 'CUDA' <<<"sparge-gen: built for the CPU: there is no CUDA toolkit, and the download failed; app/run --yes tries again"
    app_run
    commands "not tried at each start" <<<"ninja
sparge-gen "
    WHEELS_COMPILE=no app_run --yes
    commands "which does not compile" <<<"$pip
$compiler
$cudnn
nvcc 13.5 tries
$cpu"
}
case_driver_of_windows() {
    machine wsl ubuntu debian
    complete g++ python3-pip
    driver 580.95.05
    rm -r "$SG_ROOT/proc"
    SMI_DRIVER=581.15 CUDNN=yes app_run
    commands <<<"$pip
$compiler
nvcc 13.5 tries
$(by $wheels_nvcc)"
}
case_old_card() {
    machine old-card debian
    complete g++ python3-pip
    driver 580.95.05
    CARDS=$'6.1\n7.5' app_run
    commands <<<"$cpu"
    said 'card' <<<"sparge-gen: built for the CPU: the card has compute capability 6.1, 7.5; it needs 8.0"
}

script -qec true /dev/null &>/dev/null && terminal=1 || terminal=
for case in $(compgen -A function case_); do
    # shellcheck disable=SC2053
    [[ ${case#case_} == $pattern ]] || continue
    if [[ ! $terminal && $(declare -f "$case") == *on_terminal* ]]; then
        echo "no pseudo-terminal: ${case#case_} is left out"
    else
        "$case"
    fi
done
echo "$passed passed, $failed failed"
((failed == 0 && passed > 0))

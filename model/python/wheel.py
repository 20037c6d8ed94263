"""Makes a wheel of a folder. usage: wheel.py FOLDER VERSION OUTPUT_FOLDER"""
import base64
import hashlib
import os
import pathlib
import platform
import re
import sys
import zipfile

root, version, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
libc, libc_version = os.confstr("CS_GNU_LIBC_VERSION").split()
tag = f"py3-none-manylinux_{libc_version.replace('.', '_')}_{platform.machine()}"
info = f"sparge_gen-{version}.dist-info"
here = pathlib.Path(__file__).parent
# As the notices say.
gpl = ", with the libraries in it GPL-3.0" if list(root.rglob("libavcodec.*")) else ""
made = {
    f"{info}/METADATA": f"""Metadata-Version: 2.1
Name: sparge-gen
Version: {version}
Summary: Text to video with sparse attention
License: Apache-2.0{gpl}: sparge_gen/share/doc/sparge-gen
Requires-Python: >=3.9
Requires-Dist: numpy
Description-Content-Type: text/markdown

{(here / "README.md").read_text()}""",
    f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: sparge-gen\nRoot-Is-Purelib: false\nTag: {tag}\n"}
# A zip has no links: a library has the name that the loader asks for, that of the link to it.
files = [path for path in sorted(root.rglob("*")) if path.is_file()]
linked = {path.resolve() for path in files if path.is_symlink()}
files = {str(path.relative_to(root)): path for path in files if path.is_symlink() or path not in linked}
# Python or another package may need another version of a library, and a process has but one of a name: ours get names of
# their own, which are as long. Of the C++ runtime a process must have but one, which is the system's.
bundle, notices = "sparge_gen/lib/sparge-gen/", "sparge_gen/share/doc/sparge-gen/libraries/README"
files = {name: path for name, path in files.items() if not re.search(r"/lib(stdc\+\+|gcc_s)\.", name)}
own = {name[len(bundle):].encode() for name in files if name.startswith(bundle + "lib")}


def renamed(data, end):
    return re.sub(rb"(?<=[\n\0])lib(?=([\w.+-]+\.so[.\d]*)" + end + b")",
                  lambda found: b"sg_" if b"lib" + found[1] in own else found[0], data)


record = []
with zipfile.ZipFile(out / f"sparge_gen-{version}-{tag}.whl", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as wheel:
    for name in [*files, *made]:
        data = files[name].read_bytes() if name in files else made[name].encode()
        if data.startswith(b"\x7fELF"):
            name, data = name.replace(bundle + "lib", bundle + "sg_"), renamed(data, b"\0")
        if name == notices:
            data = renamed(data, b": ").replace(b"unchanged", b"unchanged but for their names, which began with lib")
            data = re.sub(rb"(?m)^lib.*\n", b"", data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}\n")
        wheel.writestr(name, data)
    wheel.writestr(f"{info}/RECORD", "".join(record) + f"{info}/RECORD,,\n")

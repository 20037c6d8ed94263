"""Makes a wheel of a folder. usage: wheel.py FOLDER VERSION OUTPUT_FOLDER"""
import base64
import hashlib
import os
import pathlib
import platform
import sys
import zipfile

root, version, out = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
libc, libc_version = os.confstr("CS_GNU_LIBC_VERSION").split()
tag = f"py3-none-manylinux_{libc_version.replace('.', '_')}_{platform.machine()}"
info = f"sparge_gen-{version}.dist-info"
here = pathlib.Path(__file__).parent
made = {
    f"{info}/METADATA": f"""Metadata-Version: 2.1
Name: sparge-gen
Version: {version}
Summary: Text to video with sparse attention
License: Apache-2.0
Requires-Python: >=3.9
Requires-Dist: numpy
Description-Content-Type: text/markdown

{(here / "README.md").read_text()}""",
    f"{info}/WHEEL": f"Wheel-Version: 1.0\nGenerator: sparge-gen\nRoot-Is-Purelib: false\nTag: {tag}\n"}
# A zip has no links: a library has the name that the loader asks for, that of the link to it.
files = [path for path in sorted(root.rglob("*")) if path.is_file()]
linked = {path.resolve() for path in files if path.is_symlink()}
files = {str(path.relative_to(root)): path for path in files if path.is_symlink() or path not in linked}
record = []
with zipfile.ZipFile(out / f"sparge_gen-{version}-{tag}.whl", "w", zipfile.ZIP_DEFLATED, compresslevel=1) as wheel:
    for name in [*files, *made]:
        data = files[name].read_bytes() if name in files else made[name].encode()
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        record.append(f"{name},sha256={digest},{len(data)}\n")
        wheel.writestr(name, data)
    wheel.writestr(f"{info}/RECORD", "".join(record) + f"{info}/RECORD,,\n")

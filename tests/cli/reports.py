#!/usr/bin/env python3
"""Validates reports by app/report/schema. usage: reports.py [FILE-OR-FOLDER...]

Of a folder all files count that hold reports, one or several, and eval's lines. The schemas themselves are looked at, too.
Exit code 77: no module jsonschema."""
import hashlib
import json
import os
import re
import sys

try:
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import best_match
except ImportError:
    print("no module jsonschema: python3-jsonschema")
    sys.exit(77)

BASE = "file:///"  # references between the files are resolved against it; nothing is read from there
folder = os.path.join(os.path.dirname(os.path.realpath(__file__)), "../../app/report/schema")
schemas = {}
for name in sorted(os.listdir(folder)):
    with open(os.path.join(folder, name), encoding="utf-8") as f:
        schemas[name] = json.load(f)
    assert schemas[name]["$id"] == name, name
    schemas[name]["$id"] = BASE + name
by_id = {schema["$id"]: schema for schema in schemas.values()}
try:  # jsonschema 4.18 and newer
    from referencing import Registry, Resource

    known = {"registry": Registry().with_resources((i, Resource.from_contents(s)) for i, s in by_id.items())}
except ImportError:
    from jsonschema import RefResolver

    known = {"resolver": RefResolver(BASE, {}, store=by_id)}


def reports(path):
    """(place, report) of each report in a file."""
    with open(path, "rb") as f:
        if f.read(1) != b"{":
            return
        f.seek(0)
        text = f.read().decode("utf-8", "replace")
    if re.fullmatch(r"results.*\.jsonl", os.path.basename(path)):
        for n, line in enumerate(text.splitlines()):
            if line.startswith('{"version":2,"arm":') and line.endswith("}"):
                yield f"{path}:{n + 1}", json.loads(line)
    at = 0
    while re.match(r'\{\s*"format": "sparge-gen",', text[at:]):
        try:
            report, at = json.JSONDecoder().raw_decode(text, at)
        except ValueError:  # it was cut off, as by a full disk
            return
        yield path, report
        at += len(text[at:]) - len(text[at:].lstrip())


def check_references(name, node):
    """Each has to lead to something."""
    if isinstance(node, dict) and "$ref" in node:
        file, _, pointer = node["$ref"].partition("#")
        at = schemas[file or name]
        for key in pointer.split("/")[1:]:
            at = at[key]
    for child in node.values() if isinstance(node, dict) else node if isinstance(node, list) else []:
        check_references(name, child)


failed = False
if len(sys.argv) == 1:
    for name, schema in schemas.items():
        Draft202012Validator.check_schema(schema)
        check_references(name, schema)
seen = set()
for top in sys.argv[1:]:
    found = [os.path.join(at, name) for at, _, names in os.walk(top) for name in names] if os.path.isdir(top) else [top]
    for place, report in ((p, r) for path in sorted(found) if os.path.isfile(path) for p, r in reports(path)):
        digest = hashlib.sha256(json.dumps(report).encode("utf-8", "surrogatepass")).digest()
        if digest in seen:
            continue
        seen.add(digest)
        schema = report.get("command", "eval").replace(" ", "-") + ".json"
        error = best_match(Draft202012Validator(schemas[schema], **known).iter_errors(report))
        if error:
            failed = True
            print(f"{place}: {schema}: {'.'.join(map(str, error.absolute_path))}: {error.message[:600]}")
print(f"{len(seen)} reports are as the schemas say" if not failed else "not as the schemas say")
sys.exit(failed)

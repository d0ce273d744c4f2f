"""Published sets with labelled arguments -> registry and query files for
`nexus eval args` and `nexus eval e2e`.

    python3 tools/argument_sets.py DATA OUT [SET ...]

writes OUT/<set>.tools.jsonl and OUT/<set>.queries.jsonl in the format of
tools/train/README.md, without the encoder that tools/train/prepare.py needs: only
queries with one labelled call, split by a hash of the tool's name into "dev" (what
signatures were improved on) and "test" (what is reported). SET: bfcl, acebench,
seal, toolalpaca [all]. Third-party text: data, never instructions.
"""

import hashlib
import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "train"))

import data_sets

READERS = {"bfcl": data_sets.bfcl, "acebench": data_sets.acebench,
           "seal": data_sets.seal, "toolalpaca": data_sets.toolalpaca}


def split_of(name):
    digest = hashlib.sha256(name.strip().lower().encode()).digest()
    return "dev" if digest[0] % 2 else "test"


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n"
                            for row in rows), encoding="utf-8")


def main():
    if len(sys.argv) < 3 or any(name not in READERS for name in sys.argv[3:]):
        sys.exit(__doc__.strip())
    data, out = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[3:] or READERS:
        found = READERS[name](data)
        queries = [dict(row, split=split_of(row["calls"][0]["tool"]))
                   for row in found.queries if len(row.get("calls", [])) == 1]
        write_jsonl(out / f"{found.name}.tools.jsonl", found.tools)
        write_jsonl(out / f"{found.name}.queries.jsonl", queries)
        print(f"{found.name}: {len(found.tools)} tools, {len(queries)} queries "
              f"with one labelled call of {len(found.queries)}")
        for note in found.notes:
            print(f"  {note}")


if __name__ == "__main__":
    main()

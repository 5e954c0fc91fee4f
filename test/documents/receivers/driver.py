# Says of each folder that is named whether the receiver of the guide accepts the delivery in it.
import sys
from pathlib import Path
from verify import verify

for name in sys.argv[1:]:
    folder = Path(name)
    headers = dict(line.split(": ", 1) for line in (folder / "headers").read_text().splitlines())
    print(str(verify((folder / "body").read_bytes(), headers, (folder / "secret").read_text())).lower())

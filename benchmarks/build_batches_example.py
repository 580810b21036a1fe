"""Write the samples that runs took to a target by global batch, for the page on larger batches, from public results.

The results are not part of this repository; what is taken over are figures, the runs of one batch together::

    python benchmarks/build_batches_example.py --data ../shared/data
"""

from __future__ import annotations

import argparse
import csv
import io
import statistics
from collections import defaultdict
from pathlib import Path

TARGET = Path(__file__).resolve().parents[1] / "docs" / "examples" / "batches.csv"
#: Benchmarks whose runs log the samples, with their unit: epochs where they log shares of the data set.
UNITS = {"dlrm_dcnv2": "epochs", "gnn": "epochs", "llama2_70b_lora": "sequences"}
#: One trainer has a recipe of its own, with which the same batch takes more samples.
OTHER_RECIPE = "deepspeed"


def main() -> None:
    """Write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder of the public data")
    TARGET.write_text(write_table(parser.parse_args().data), encoding="utf-8")
    print(TARGET.name, TARGET.stat().st_size, "bytes")


def write_table(data: Path) -> str:
    """Return the median samples of each benchmark, recipe and batch, as CSV."""
    runs: dict[tuple[str, int], list[float]] = defaultdict(list)
    with (data / "llm" / "mlperf-training-v4.0.csv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            if row["samples_to_target"]:
                recipe = f" ({OTHER_RECIPE})" if OTHER_RECIPE in row["system"] else ""
                runs[row["benchmark"] + recipe, int(row["global_batch"])].append(float(row["samples_to_target"]))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["benchmark", "unit", "runs", "global_batch", "samples"])
    for (benchmark, batch), taken in sorted(runs.items()):
        writer.writerow([benchmark, UNITS[benchmark.split()[0]], len(taken), batch, f"{statistics.median(taken):.5g}"])
    return text.getvalue()


if __name__ == "__main__":
    main()

"""Changed inputs of the command line: whatever a file holds, the answer is an answer or an error in one line.

Every case has a number and is made from it alone. `make fuzz CASES=100000 SEED=1` tries as many as wanted; a failure
names its number, and `make fuzz CASES=1 SEED=<number>` tries it again.
"""

from __future__ import annotations

import contextlib
import copy
import json
import random
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from optplan.cli import main
from optplan.formulations import formulation_of
from optplan.instances.library import build_named
from optplan.solving import build_plan, solve

if TYPE_CHECKING:
    from tests.fuzz.conftest import FindFault, Run

#: Cases of `make test`, and the share of what `make fuzz` asks for.
CASES, SHARE = 400, 1.0

BASES = (
    "boa-one-table",
    "boa-two-classes",
    "boa-two-epochs",
    "rubberband-two-stages",
    "rubberband-bert-20min",
    "seer-paper-example",
    "seer-informed-example",
    "srift-case1",
    "srift-interruption",
)

EVIL = "\x1b[2J\x00\n\u202e\u2028"
#: What a value is replaced by.
VALUES: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 2, 3, 7, 1.5, -0.0, 1e-300, 1e-20, 1e-9, 1e20, 1e308, float("nan"), float("inf")),
    *(10**6, 10**9, 2**63, 10**19, 10**400, -(10**400)),
    *(
        "",
        "x",
        "0",
        "1e3gpu",
        "120gpu",
        "1usd",
        "3usd/hour",
        "20min",
        "1e400min",
        "-5s",
        "nan",
        EVIL,
        "\ud800",
        "ü" * 70_000,
    ),
    *(
        [],
        {},
        [[]],
        [None],
        [1],
        [1, 2, 3],
        [3, 2, 1],
        [[1, 2], [3]],
        [[1.0, 2.0]] * 3,
        ["a"],
        {"form": "table"},
        {"": 1},
    ),
    *({"form": "constant", "value_s": 1}, {"max": 10**9}, [0.5] * 2000),
)
#: Characters of a changed file of data, and of one that is written as YAML, which takes long.
LONGEST_FILE, LONGEST_YAML = 10_000_000, 500_000
TEXTS = (
    "",
    "0",
    "-1",
    "x",
    "nan",
    "inf",
    "1e308",
    "1e400",
    "9" * 400,
    "1.5",
    '"',
    "\0",
    "\ud7ff",
    EVIL,
    ",",
    "a,b",
    "ü" * 5000,
)

WORKLOAD = "name,time,application,num_replicas,batch_size\na,0,bert,1,12\nb,5.5,cifar10,2,256\nc,3000,bert,1,24\n"
SPOT = {"metadata": {"gap_seconds": 300}, "data": [4, 4, 3, 2, 4, 4, 1, 0, 4]}
REDUCES = (
    "vm_type,region,gpu,rated_gbit_per_s,ranks,size_bytes,transfers,bus_gbit_per_s\n"
    "p3,us,V100,10,8,1048576,1,5.9\np3,us,V100,10,8,536870912,1,11.1\np3,us,V100,10,2,1048576,1,7\n"
)
SACCT = (
    "JobID|JobName|State|Submit|Start|End|Elapsed|AllocTRES|ReqTRES|Partition\n"
    "1|bert-1|COMPLETED|2026-03-02T00:00:00|2026-03-02T01:00:00|2026-03-02T02:00:00|01:00:00|gres/gpu=1||a\n"
    "2_[1-3]|bert-2|PENDING|2026-03-02T05:00:00|Unknown|Unknown|00:00:00||gres/gpu:a100=2|a\n"
    "3+1|vit-1|FAILED|2026-03-02T06:00:00|2026-03-02T06:00:00|2026-03-02T09:00:00|03:00:00|gres/gpu=4||b\n"
)
RUNS = (
    "job,class,submitted,gpus,run_hours,state\n1,vision,2026-03-02T00:37,2,5.62,finished\n"
    "2,language,2026-03-02T00:52,8,4.88,crashed\n3,vision,2026-03-02T11:54,4,2.4,running\n"
)
#: Run tables of W&B and MLflow.
WANDB = '"Name","State","Created","Runtime","GPU Count"\n"a","finished","2026-03-02T00:00:00.000Z","3600","4"\n'
MLFLOW = (
    "Start Time,Duration,Run ID,Name,Status,params.num_gpus\n2026-03-02 00:00:00,1.5h,x1,a,FINISHED,4\n"
    "2026-03-02 03:00:00,2.0min,x2,b,FAILED,1\n"
)
KUBERNETES = {
    "kind": "List",
    "items": [
        {
            "kind": "Job",
            "metadata": {"name": f"bert-{at}", "uid": str(at), "creationTimestamp": f"2026-03-02T0{at}:00:00Z"},
            "spec": {
                "parallelism": at,
                "template": {"spec": {"containers": [{"resources": {"limits": {"nvidia.com/gpu": "2"}}}]}},
            },
            "status": {"startTime": f"2026-03-02T0{at}:10:00Z", "completionTime": f"2026-03-02T0{at}:50:00Z"},
        }
        for at in (1, 2, 4)
    ],
}
SPEEDS = "class,gpus,samples_per_s\nvision,1,10\nvision,4,31\nlanguage,1,5\nlanguage,8,30\n"
MEASURED = (
    "type,gpus,samples_per_s,configuration,price_usd_per_hour,gpus_per_vm\nlarge,8,250,dp8,12,8\nlarge,16,500,dp16,,\n"
)
NCCL = (
    "# nThread 1 nGpus 1 minBytes 8 maxBytes 33554432 step: 2(factor) warmup iters: 5 iters: 20\n"
    "#  Rank  0 Group  0 Pid   6899 on ip-10-0-0-1 device  0 [0000:00:1e] Tesla T4\n"
    "#  Rank  1 Group  0 Pid   6900 on ip-10-0-0-2 device  0 [0000:00:1e] Tesla T4\n"
    "#       size         count      type   redop    root time algbw busbw #wrong time algbw busbw #wrong\n"
    "    33554432       8388608     float     sum      -1 14059 2.39 2.39 0 14100 2.38 2.38 0\n"
)
SPACE = {"lr": {"loguniform": [1e-4, 0.1]}, "layers": {"integer": [1, 9]}, "opt": {"choice": ["sgd", None, 2.5]}}
PRICES = (
    "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,Region,GpuInfo,SpotPrice,AvailabilityZone\n"
    "g4dn.xlarge,T4,1.0,4.0,16.0,0.526,us-east-1,,0.21,us-east-1a\ng4dn.12xlarge,T4,4.0,48,192,3.912,us-east-1,,1.5,b\n"
)


def list_places(data: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 - plain data
    """Yield the paths of all values, those of a long list by its first ones."""
    yield place
    if isinstance(data, dict):
        for name, value in data.items():
            yield from list_places(value, (*place, name))
    elif isinstance(data, list):
        for index, value in enumerate(data[:4]):
            yield from list_places(value, (*place, index))


def change_value(value: Any, dice: random.Random) -> Any:  # noqa: ANN401 - plain data
    """Return another value: one of the list, or the same scaled, wrapped, nested, cut or repeated."""
    kind = dice.randrange(8)
    if kind == 0 and isinstance(value, float):
        return value * 10.0 ** dice.randint(-30, 30)
    if kind == 1:
        return [value] * min(dice.choice((1, 2, 50)), times_in_file(value))
    if kind == 2:
        for _ in range(dice.choice((3, 70, 150))):  # four changes stay below what Python recurses
            value = dice.choice(({"form": value}, [value]))
        return value
    if kind == 3 and isinstance(value, list):
        return value[: dice.randrange(len(value) + 1)]
    if kind == 4 and isinstance(value, list) and len(value) < 100:
        return value * min(dice.choice((2, 1000)), times_in_file(value))
    return copy.deepcopy(dice.choice(VALUES))


def times_in_file(value: Any) -> int:  # noqa: ANN401 - plain data
    """Return how often a value fits into a file: changes multiply, and the data is held in memory."""
    return max(1, LONGEST_FILE // len(json.dumps(value)))


def change_data(data: Any, dice: random.Random) -> Any:  # noqa: ANN401 - plain data
    """Change plain data in a few places: other values, names that are gone, added or spoilt, places exchanged."""
    data = json.loads(json.dumps(data))
    for _ in range(dice.choice((1, 1, 1, 2, 4))):
        places = [place for place in list_places(data) if place]
        if not places:
            break
        place, other = dice.choice(places), dice.choice(places)
        holder = at(data, place[:-1])
        kind = dice.randrange(8)
        if kind == 0 and isinstance(holder, dict):
            del holder[place[-1]]
        elif kind == 1 and isinstance(holder, dict):
            holder[dice.choice((EVIL, "x", "", "budget", "form"))] = copy.deepcopy(dice.choice(VALUES))
        elif kind == 2 and isinstance(holder, dict):
            holder[f"{place[-1]}{dice.choice((EVIL, 's', '.'))}"] = holder.pop(place[-1])
        elif kind == 3:
            holder[place[-1]] = json.loads(json.dumps(at(data, other)))
        else:
            holder[place[-1]] = change_value(holder[place[-1]], dice)
        data = json.loads(json.dumps(data))  # what is repeated is one object, and would grow in all its places at once
    return data


def at(data: Any, place: tuple[Any, ...]) -> Any:  # noqa: ANN401 - plain data
    """Return what stands at a path."""
    for part in place:
        data = data[part]
    return data


def change_text(text: str, dice: random.Random) -> bytes:
    """Change a text in a few places: cut, repeated, spoilt fields and bytes."""
    for _ in range(dice.choice((1, 1, 2, 5))):
        start = dice.randrange(len(text) + 1)
        end = min(len(text), start + dice.choice((1, 3, 20)))
        kind = dice.randrange(5)
        if kind == 0:
            text = text[:start]
        elif kind == 1:
            text = text[:end] + text[start:end] * dice.choice((1, 5, 3000)) + text[end:]
        elif kind == 2:
            words = text.replace("\t", ",").split(",")
            words[dice.randrange(len(words))] = dice.choice(TEXTS)
            text = ("\t" if "\t" in text else ",").join(words)
        else:
            text = text[:start] + dice.choice((*TEXTS, "{", "]", ":", "&a", "*a", "!!int ", "<<: ")) + text[end:]
    written = text.encode("utf-8", "surrogatepass")
    if dice.randrange(10) == 0:
        spot = dice.randrange(len(written) + 1)
        written = written[:spot] + dice.randbytes(3) + written[spot:]
    return written


def dump(data: Any, path: Path, dice: random.Random) -> Path:  # noqa: ANN401 - plain data
    """Write plain data as JSON or as YAML, sometimes with a changed text on top."""
    text = json.dumps(data)  # which is YAML, too
    if dice.randrange(4) == 0:
        path = path.with_suffix(".yaml")
        if len(text) <= LONGEST_YAML:
            with contextlib.suppress(RecursionError):  # nested deeply
                text = yaml.safe_dump(json.loads(text), allow_unicode=True)
    path.write_bytes(change_text(text, dice) if dice.randrange(4) == 0 else text.encode("utf-8", "surrogatepass"))
    return path


@pytest.fixture(scope="module")
def bases(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the plain data of the instances that are changed, of their results and plans, and the folder of a run."""
    found = {}
    for name in BASES:
        instance = build_named(name)
        found[name] = instance.to_json_data()
        result = solve(instance, time_limit_s=5.0)
        found[f"{name}/result"] = result.to_json_data()
        found[f"{name}/plan"] = build_plan(instance, result).to_json_data()
    folder = tmp_path_factory.mktemp("bases")
    (folder / "plan.json").write_text(json.dumps(found["rubberband-two-stages/plan"]), encoding="utf-8")
    assert main(["run", str(folder / "plan.json"), "--out", str(folder / "run")]) == 0
    return {**found, "run": folder / "run"}


def make_command(number: int, bases: dict[str, Any], folder: Path) -> list[str]:
    """Write the files of a case and return its command."""
    dice = random.Random(number)
    name = dice.choice(BASES)
    kind = dice.randrange(16)
    fast = ["--time-limit", "0.3s"]
    if kind <= 4:
        path = dump(change_data(bases[name], dice), folder / "i.json", dice)
        solved = ["solve", str(path), *fast]
        return dice.choice((["show", str(path)], ["show", str(path), "--json"], solved, [*solved, "--json"]))
    if kind <= 6:
        path = dump(change_data(bases[f"{name}/result"], dice), folder / "r.json", dice)
        page = ["report", name, str(path), "-o", str(folder / "page.html"), "--json"]
        orders = (["verify", name, str(path), *fast], ["explain", str(path), *fast], ["compare", name, str(path)], page)
        return dice.choice(orders)
    if kind == 7:
        change = change_text(dice.choice(("budget=120gpu", "classes.*.weight*=2", "deadline=20min", "name=x")), dice)
        return ["show", name, "--set", change.decode("utf-8", "replace").replace("\0", "")]
    if kind == 8:
        return run_command(dice, bases["run"], folder)
    return plan_command(name, dice, bases[f"{name}/plan"], folder) if kind >= 13 else import_command(dice, folder)


def run_command(dice: random.Random, run: Path, folder: Path) -> list[str]:
    """Copy the folder of a run, damage a file of it, and return a command that looks at it or goes on with it."""
    copied = folder / "run"
    shutil.copytree(run, copied)
    files = sorted(path for path in copied.rglob("*") if path.is_file())
    for path in dice.sample(files, min(len(files), dice.choice((1, 1, 2)))):
        content, spot = bytearray(path.read_bytes()), dice.randrange(max(1, path.stat().st_size))
        kind = dice.randrange(4)
        if kind == 0:
            path.unlink()
        elif kind == 1:
            path.write_bytes(content[:spot])
        else:
            content[spot : spot + dice.choice((1, 8, 200))] = dice.randbytes(dice.choice((0, 1, 8)))
            path.write_bytes(content)
    where = str(copied)
    shown = [
        ["status", where],
        ["status", where, "--json"],
        ["logs", where],
        ["calibrate", "rubberband-two-stages", where],
    ]
    followed = [["run", "--resume", where], ["run", str(run.parent / "plan.json"), "--out", where], ["stop", where]]
    return dice.choice((*shown, *followed))


def plan_command(name: str, dice: random.Random, plan: dict[str, Any], folder: Path) -> list[str]:
    """Write a forged plan, mostly with the id of what it says, and return a command that follows it."""
    forged = change_data({**plan, "plan_id": ""} if dice.randrange(8) else plan, dice)
    with contextlib.suppress(ValueError, OverflowError):  # what no file may hold
        forged = formulation_of(build_named(name)).plan_type.parse(forged).to_json_data()
    path = str(dump(forged, folder / "p.json", dice))
    targets = ("slurm", "script", "kubernetes", "trainjob", "skypilot", "ray")
    export = ["export", path, "--to", dice.choice(targets), "--command", "train {gpus}", "--out", str(folder / "out")]
    if dice.randrange(2):
        export += ["--space", str(dump(change_data(SPACE, dice), folder / "space.json", dice))]
    if name.startswith("boa"):
        jobs = [{"name": "j", "job_class": plan["units"][0]["id"]}]
        (folder / "jobs.json").write_text(json.dumps(jobs), encoding="utf-8")
        return dice.choice((export, ["run", path, str(folder / "jobs.json"), "--truth", name]))
    followed = ["run", path, *([] if name.startswith("srift") else dice.choice(([], ["--sample", "--slower", "3"])))]
    return dice.choice((export, followed))


def import_command(dice: random.Random, folder: Path) -> list[str]:
    """Write one of the tables that are imported, changed, and return the command that imports it."""

    def write(name: str, text: str) -> str:
        (folder / name).write_bytes(change_text(text, dice))
        return str(folder / name)

    spot = dump(change_data(SPOT, dice), folder / "spot.json", dice)
    sia = ["import", "trace", "--from", "sia", "--profiles", str(folder), "--gpu", "aws", "--json"]
    prices = ["import", "prices", "boa-one-table", "--vm-type", "v100=T4", "--json", "--catalog"]
    jobs = ["import", "log", "--rescale", "60s", "--price", "1usd/hour", "--gpu", "v100", "--yes"]
    jobs += dice.choice((["--json"], ["--assume", "linear", "--json"], ["--fit-runs", "all", "--json"]))
    kubernetes = str(dump(change_data(KUBERNETES, dice), folder / "k.json", dice).with_suffix(".json"))
    speeds = [write("s.csv", RUNS), "--from", "csv", "--class-column", "class", "--throughput"]
    nccl = ["import", "nccl-tests", "--vm-type", "p3", "--json"]
    return dice.choice(
        (
            [*jobs, write("sacct.txt", SACCT), "--from", "sacct"],
            [*jobs, write("runs.csv", RUNS), "--from", "csv", "--class-column", "class"],
            [*jobs, write("wandb.csv", WANDB), "--from", "csv"],
            [*jobs, write("mlflow.csv", MLFLOW), "--from", "csv"],
            [*jobs, kubernetes, "--from", "kubernetes"],
            [*jobs, *speeds, write("speeds.csv", SPEEDS)],
            ["import", "throughputs", write("m.csv", MEASURED), "--samples", "1e6", "--json"],
            [*nccl, write("nccl.txt", NCCL)],
            ["import", "spot-trace", str(spot), "--json"],
            [*sia, write("w.csv", WORKLOAD)],
            [*prices, write("aws-2026-05.csv", PRICES)],
            ["import", "bandwidth", write("r.csv", REDUCES), "--vm-type", "p3", "--json"],
        )
    )


def test_no_input_breaks_anything(
    cases: range, bases: dict[str, Any], run_bounded: Run, find_fault: FindFault, tmp_path: Path
) -> None:
    """Never an internal error, a traceback, an endless run or a page of error; every case that does is named."""
    broken = []
    for number in cases:
        folder = tmp_path / str(number)
        folder.mkdir()
        told = run_bounded(make_command(number, bases, folder))
        if fault := find_fault(told, frozenset(range(7)), is_spoilt=True):
            broken.append(f"case {number}: {fault}")
    assert not broken, "\n".join(broken)

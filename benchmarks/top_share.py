"""What the exact cut-off costs: against `torch.kthvalue` on the concatenation, which is what the published code does.

    python benchmarks/top_share.py [--quick]

860 million scores in many tensors, as many as the U-Net of Stable Diffusion v1.4 has weights. Each side runs in its own
process, so that the peak memory of one is not that of the other.
"""

import subprocess
import sys

import torch
from timing import quick, report, seconds

from scissorhands.cost import measured
from scissorhands.methods.saliency import top_share

SHARE = 0.005


def main() -> None:
    """Starts itself once for each side, and compares."""
    if len(sys.argv) > 2:
        side(sys.argv[1], int(sys.argv[2]))
        return
    count = 50_000_000 if quick(__doc__) else 860_000_000
    rows = {}
    for name in ("counting", "kthvalue"):
        done = subprocess.run([sys.executable, __file__, name, str(count)], capture_output=True, text=True, check=True)
        took, extra, lowest = map(float, done.stdout.split())
        rows[name] = {"seconds": took, "extra_share": extra, "cut_off": lowest}
        print(f"{name:10}{took:9.2f} s   extra memory {100 * extra:6.1f} % of the scores   cut-off {lowest}")
    if rows["counting"]["cut_off"] != rows["kthvalue"]["cut_off"]:
        raise SystemExit("the two disagree")
    ratio = rows["kthvalue"]["seconds"] / rows["counting"]["seconds"]
    report(ratio, "at least 4, with at most 5 % extra memory", scores=count, rows=rows)


def side(name: str, count: int) -> None:
    """Makes the scores, marks the top share in one way, and prints seconds, extra memory, and the lowest one marked."""
    draw = torch.Generator().manual_seed(0)
    sizes = [count // 300] * 300
    scores = {str(i): torch.rand(size, generator=draw).pow_(4) for i, size in enumerate(sizes)}
    held = 4 * sum(sizes)
    lowest = float("inf")

    def count_marked() -> None:
        nonlocal lowest
        for key, mask in top_share(scores, SHARE):
            lowest = min(lowest, float(torch.where(mask, scores[key], torch.inf).min()))

    def sort() -> None:
        nonlocal lowest
        everything = torch.cat(list(scores.values()))
        wanted = round(SHARE * len(everything))
        cut = everything.kthvalue(len(everything) - wanted + 1).values
        for x in scores.values():
            lowest = min(lowest, float(torch.where(x >= cut, x, torch.inf).min()))

    before = resident()
    with measured(torch.device("cpu")) as cost:
        took = seconds(count_marked if name == "counting" else sort)
    print(took, (cost.memory_mib * 2**20 - before) / held, lowest)


def resident() -> float:
    """The memory in use now, in bytes."""
    with open("/proc/self/statm", encoding="utf-8") as file:
        return 4096 * float(file.read().split()[1])


if __name__ == "__main__":
    main()

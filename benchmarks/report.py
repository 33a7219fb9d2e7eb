"""What a part measured, and how it is written down.

A report collects samples (every single one, with what it is a sample of), targets, tables and plots, beside
the machine and the versions they were taken on. It is written once, at the end: JSON for programs, Markdown
and plots for people. Nothing that names the machine or a path on it gets in.

- A figure counts only after its answer was compared: parts do so before they call `sample`.
- A target is a name with its unit, what was measured, and what was asked; it is met or not.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, TypeVar

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results"
TRIAL = ROOT / "build" / "benchmarks"
"""Where the small scale, which only shows that a part runs, leaves its files."""
SCALES = ("small", "ordinary", "full")
PACKAGES = ("headwater", "numpy", "pyarrow", "pandas", "pyspark", "duckdb", "sqlglot")
STYLE: dict[Any, Any] = {
    "figure.dpi": 110,
    "font.size": 10,
    "axes.grid": True,
    "grid.alpha": 0.3,
    "axes.spines.top": False,
    "axes.spines.right": False,
}

T = TypeVar("T")


@dataclass(frozen=True)
class Target:
    """A figure that an issue asks to reach."""

    name: str
    measured: float
    target: float
    most: bool = True

    @property
    def met(self) -> bool:
        return self.measured <= self.target if self.most else self.measured >= self.target

    def row(self) -> list[str]:
        sign = "≤" if self.most else "≥"
        return [self.name, number(self.measured), f"{sign} {number(self.target)}", self.verdict()]

    def verdict(self) -> str:
        return "met" if self.met else "**missed**"


class Report:
    """What one part measured at one scale."""

    def __init__(self, part: str, scale: str):
        self.part, self.scale = part, scale
        self.folder = TRIAL if scale == "small" else RESULTS
        self.started = time.monotonic()
        self.machine, self.versions = machine(), versions()
        self.samples: list[dict[str, Any]] = []
        self.targets: list[Target] = []
        self.text: list[str] = []
        self.plots: list[str] = []

    def sample(self, what: str, value: float, unit: str, **facts: Any) -> None:
        """One measurement, of an answer that was found right."""
        self.samples.append({"what": what, **facts, "value": value, "unit": unit})

    def values(self, what: str, **facts: Any) -> list[float]:
        """The samples with these facts."""
        wanted = {"what": what, **facts}
        return [s["value"] for s in self.samples if wanted.items() <= s.items()]

    def at_most(self, name: str, measured: float, target: float) -> None:
        self.targets.append(Target(name, measured, target))

    def at_least(self, name: str, measured: float, target: float) -> None:
        self.targets.append(Target(name, measured, target, most=False))

    def say(self, text: str) -> None:
        """A heading or a paragraph, in Markdown."""
        self.text.append(text)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        self.text.append(markdown(header, rows))

    @contextmanager
    def plot(self, name: str, columns: int = 1, rows: int = 1) -> Iterator[list[Axes]]:
        """A figure with its axes in reading order, saved as PART-name.png."""
        with plt.rc_context(STYLE):
            size = (5.4 * columns + 1, 3.4 * rows + 0.8)
            figure, axes = plt.subplots(rows, columns, figsize=size, squeeze=False)
            yield list(axes.flat)
            figure.tight_layout()
            self.folder.mkdir(parents=True, exist_ok=True)
            figure.savefig(self.folder / f"{self.part}-{name}.png")
            plt.close(figure)
        self.plots.append(f"{self.part}-{name}.png")

    def write(self) -> None:
        """The files of the part."""
        seconds = round(time.monotonic() - self.started, 1)
        targets = [
            {"name": t.name, "measured": t.measured, "target": t.target, "met": t.met}
            for t in self.targets
        ]
        data = {
            "part": self.part,
            "scale": self.scale,
            "seconds": seconds,
            "machine": self.machine,
            "versions": self.versions,
            "targets": targets,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        # One sample a line, so that a difference between two results can be read.
        lines = ",\n    ".join(json.dumps(s) for s in self.samples)
        body = json.dumps(data, indent=2).removesuffix("\n}")
        text = f'{body},\n  "samples": [\n    {lines}\n  ]\n}}\n'
        (self.folder / f"{self.part}.json").write_text(text)
        (self.folder / f"{self.part}.md").write_text(self.markdown(seconds))

    def markdown(self, seconds: float) -> str:
        m = self.machine
        about = (
            f"Scale `{self.scale}`, {seconds:.0f} s. {m['cpu']}, {m['cores']} cores, "
            f"{m['memory_gb']} GB, {m['system']}; load {m['load']} at the start. "
            + ", ".join(f"{k} {v}" for k, v in self.versions.items())
            + "."
        )
        header = ["target", "measured", "asked", ""]
        targets = markdown(header, [t.row() for t in self.targets]) if self.targets else ""
        plots = "\n".join(f"![{p}]({p})" for p in self.plots)
        blocks = [f"# Benchmark: {self.part}", about, targets, *self.text, plots]
        return "\n\n".join(b for b in blocks if b) + "\n"

    def summary(self) -> str:
        """The targets, for the terminal."""
        rows = [[*t.row()[:3], "met" if t.met else "MISSED"] for t in self.targets]
        width = max((len(r[0]) for r in rows), default=0)
        lines = [f"  {r[0]:{width}}  {r[1]:>9}  {r[2]:>9}  {r[3]}" for r in rows]
        met = sum(t.met for t in self.targets)
        where = self.folder.relative_to(ROOT) / f"{self.part}.md"
        head = f"{self.part}: {met} of {len(self.targets)} targets met; see {where}"
        return "\n".join([head, *lines])


class Progress:
    """A bar on the terminal that says what is being done; silent where there is no terminal."""

    def __init__(self, total: int):
        self.total, self.done, self.started = total, 0, time.monotonic()

    def step(self, doing: str, steps: int = 1) -> None:
        """So many steps more are done; `doing` is what comes next."""
        self.done += steps
        if sys.stderr.isatty():
            filled = "█" * (30 * self.done // self.total)
            seconds = time.monotonic() - self.started
            sys.stderr.write(f"\r\x1b[K{filled:·<30} {seconds:4.0f} s  {doing}")
            sys.stderr.flush()

    def end(self) -> None:
        if sys.stderr.isatty():
            sys.stderr.write("\r\x1b[K")


def timed(f: Callable[[], T]) -> tuple[float, T]:
    """Seconds that a call takes, and its answer."""
    start = time.perf_counter()
    answer = f()
    return time.perf_counter() - start, answer


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table; numbers, which are all but the first column, to the right."""
    ruler = ["---", *("---:" for _ in header[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, ruler, *rows])


def number(x: float) -> str:
    """Three digits that matter."""
    if x == 0 or abs(x) >= 100:
        return f"{x:,.0f}"
    return f"{x:.2f}" if abs(x) < 10 else f"{x:.1f}"


def plain(x: float, _: object) -> str:
    """The label of a tick on a logarithmic axis."""
    return f"{x:g}"


def short(n: int) -> str:
    """A count as people say it: 10 k, 50 M."""
    for size, unit in ((1_000_000, " M"), (1_000, " k")):
        if n >= size:
            return f"{n / size:g}{unit}"
    return str(n)


def machine() -> dict[str, Any]:
    """What it ran on, without the name of it."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "cpu": _cpu(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_gb": round(memory / 2**30, 1),
        "system": f"{platform.system()} {platform.release()}",
        "load": round(os.getloadavg()[0], 2),
    }


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def versions() -> dict[str, str]:
    """Python, the packages that matter, and the commit."""
    out = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            out[name] = version(name)
        except PackageNotFoundError:
            continue
    asked = ["git", "describe", "--always", "--dirty", "--abbrev=12"]
    found = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False)
    return out | ({"commit": found.stdout.strip()} if found.returncode == 0 else {})

"""Figures and pages of benchmarks, drawn with what `report` is drawn with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from jinja2 import ChoiceLoader, PackageLoader

from pv4fad.report.canvas import (
    LEFT,
    RIGHT,
    Dot,
    Figure,
    Label,
    Line,
    Scale,
    Shape,
    columns_of_grid,
    rows_of_grid,
    short,
    ticks,
)
from pv4fad.report.render import ENVIRONMENT, render_page
from pv4fad.report.texts import size_text
from pv4fad_bench.scaling import SCORE, TRAIN, ScalingReport
from pv4fad_bench.table import LABELS, RowResult
from pv4fad_bench.whole import WholeJob

_PAGES = ENVIRONMENT.overlay(
    loader=ChoiceLoader([PackageLoader("pv4fad_bench"), PackageLoader("pv4fad.report")])
)
_PITCH, _TOP, _BOTTOM = 150, 62.0, 150.0

HOW_IT_COMPARES = (
    "Same: accounts, red leaves, one bank, at most 15 transactions of an account, all HE phases of"
    " all parties. Different: a Tesla P100 there, a few cores here; approximate arithmetic there,"
    " exact here; equality tests for every leaf and label there, one join kept as shares here."
    " Votes end as in the paper: a vote total for every payment, which tells kinds of accounts"
    " apart. Decisions end with one bit about an account, where it decides about one of its"
    " payments, and with no totals; they are asked of the default model, whose noisy counts the"
    " payment network has, so their seconds are not compared with the paper's."
)


def words_of(name: str) -> str:
    """The name of a size as it is read."""
    return name.replace("pns_", "payment network ").replace("_", " ")


def scaling_figure(report: ScalingReport) -> Figure:
    """CPU seconds against every size, one panel below the other; linear axes."""
    shapes: list[Shape] = []
    for series, kind in enumerate((TRAIN, SCORE)):
        shapes += [
            Line(f"M{LEFT + 120 * series} 12h24", f"line s{series}"),
            Label(LEFT + 120 * series + 30, 16, kind),
        ]
    shapes.append(Label(4, 36, "CPU seconds of all parties, and fitted exponents", kind="tick"))
    panels = []
    for number, (varied, exponents) in enumerate(report.exponents.items()):
        points = [point for point in report.points if point.varied == varied]
        top, bottom = _TOP + _PITCH * number, _BOTTOM + _PITCH * number
        words = ", ".join(f"{kind} {value:.2f}" for kind, value in exponents.items())
        x_marks = ticks(max(point.size for point in points), most=5)
        y_marks = ticks(max(max(point.cpu_s.values()) for point in points), most=4)
        x, y = Scale(x_marks[-1], LEFT, RIGHT - 6), Scale(y_marks[-1], bottom, top)
        shapes += [
            Label(LEFT, top - 8, f"{words_of(varied)}: {words}"),
            *rows_of_grid(y, y_marks),
            *columns_of_grid(x, x_marks, top, bottom),
        ]
        for series, kind in enumerate((TRAIN, SCORE)):
            path = "L".join(f"{x(point.size)} {y(point.cpu_s[kind])}" for point in points)
            shapes.append(Line(f"M{path}", f"line s{series}"))
            for point in points:
                title = f"{point.size:,}: {point.cpu_s[kind]:.1f} s"
                place = (x(point.size), y(point.cpu_s[kind]))
                shapes.append(Dot(*place, 3, title, f"dot s{series}"))
        panels.append(f"{words_of(varied)}: {words}")
    description = "Fitted exponents of the cost. " + "; ".join(panels) + "."
    height = _BOTTOM + _PITCH * (len(report.exponents) - 1) + 30
    return Figure("scaling", "How the cost grows", description, height, tuple(shapes))


HEADINGS = (
    *("row", "PNS", "bank", "scored", "train s", "paper min", "×"),
    *("votes s", "paper min", "×", "default train s", "decisions s"),
)


def table_cells(result: RowResult) -> tuple[str, ...]:
    """A row as it is read; a smaller one is not compared with the paper's."""
    row, setting, job = result.row, result.setting, result.job
    workload, full = setting.workload(row), setting.scale == 1
    return (
        str(row.number),
        short(workload.pns_accounts),
        short(workload.bank_accounts),
        short(setting.transactions(row)),
        f"{job.train_s:.1f}",
        f"{row.training_min:g}",
        f"{result.training_ratio:.0f}" if full else "–",
        f"{job.score_s:.1f}",
        f"{row.inference_min:g}",
        f"{result.inference_ratio:.0f}" if full else "–",
        f"{result.decisions.train_s:.1f}",
        f"{result.decisions.score_s:.1f}",
    )


@dataclass(frozen=True)
class Detail:
    """A table with a line per row of the paper's."""

    title: str
    headings: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def details(results: Sequence[RowResult]) -> tuple[Detail, ...]:
    """Phases, parties, bytes, memory and the paper's way, row by row."""
    jobs = [one.job for one in results]
    parties = tuple(dict.fromkeys(name for job in jobs for name in job.party_cpu_s))
    directions = tuple(dict.fromkeys(n for job in jobs for n in job.bytes_by_direction()))
    processes = tuple(dict.fromkeys(name for job in jobs for name in job.peak_bytes))

    def lines(cells: Callable[[RowResult], Iterable[str]]) -> tuple[tuple[str, ...], ...]:
        return tuple((str(one.row.number), *cells(one)) for one in results)

    def phases(title: str, job_of: Callable[[RowResult], WholeJob]) -> Detail:
        names = tuple(dict.fromkeys(name for one in results for name in job_of(one).phases))
        return Detail(
            f"{title}: wall seconds by phase; match, count and score against their HE operations",
            ("row", *names, "overhead"),
            lines(
                lambda one: (
                    *(f"{job_of(one).phases[name].wall_s:.1f}" for name in names),
                    f"{job_of(one).overhead_ratio:.2f}",
                )
            ),
        )

    return (
        phases("Paper's model, votes", lambda one: one.job),
        phases("Default model, decisions", lambda one: one.decisions),
        Detail(
            "Paper's model: CPU seconds by party",
            ("row", *parties),
            lines(lambda one: (f"{one.job.party_cpu_s.get(name, 0):.1f}" for name in parties)),
        ),
        Detail(
            "Paper's model: bytes by direction",
            ("row", *directions),
            lines(
                lambda one: (
                    size_text(one.job.bytes_by_direction().get(name, 0)) for name in directions
                )
            ),
        ),
        Detail(
            "Paper's model: peak memory by process",
            ("row", *processes),
            lines(lambda one: (size_text(one.job.peak_bytes.get(name, 0)) for name in processes)),
        ),
        Detail(
            "The paper's way to train: equality tests for every leaf and label",
            ("row", "one leaf and label s", "leaves", "labels", "in all (scaled)"),
            lines(
                lambda one: (
                    f"{one.leaf_s:.1f}",
                    str(one.red_leaves),
                    str(LABELS),
                    f"{one.paper_style_s / 3600:.1f} h",
                )
            ),
        ),
    )


def table_page(results: Sequence[RowResult]) -> str:
    """The table as a file that can be read alone."""
    machine = ", ".join(f"{name} {value}" for name, value in results[0].machine.items())
    return render_page(
        "paper_table.html",
        environment=_PAGES,
        title="PV4FAD: the paper's table, side by side",
        how_it_compares=HOW_IT_COMPARES,
        machine=machine,
        scale=f"{results[0].setting.scale:g}",
        headings=HEADINGS,
        rows=[table_cells(result) for result in results],
        details=details(results),
    )

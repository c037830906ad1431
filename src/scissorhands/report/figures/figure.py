"""What a figure is, its colors, and how it becomes an SVG or a PNG."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

INK, SOFT, LINE, PAPER = "#1b2430", "#56616e", "#d5dbe1", "#ffffff"
FORGET, RETAIN, UNSEEN = "#c2410c", "#1d5fc4", "#5f6b7a"  # the three kinds of records
METHODS = ("#1d5fc4", "#c2410c", "#0f766e", "#7c3aed", "#a16207", "#be185d", "#0369a1", "#4d7c0f", "#6b21a8", "#9f1239")

# What a page calls each color, so that it can be another one in the dark.
NAMES = {
    INK: "ink",
    SOFT: "soft",
    LINE: "line",
    PAPER: "paper",
    FORGET: "forget",
    RETAIN: "retain",
    UNSEEN: "unseen",
    **{color: f"c{number}" for number, color in enumerate(METHODS) if color not in (FORGET, RETAIN)},
}
_FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif'
CONFIG: dict[str, Any] = {
    "aria": False,  # a figure has one text alternative for all of it
    "background": None,
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": SOFT,
        "titleColor": INK,
        "gridColor": LINE,
        "domainColor": LINE,
        "tickColor": LINE,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 170,
    },
    "axisQuantitative": {"tickCount": 6},
    "legend": {
        "labelColor": INK,
        "titleColor": SOFT,
        "labelFontSize": 12,
        "orient": "top",
        "direction": "horizontal",
        "labelLimit": 300,
        "title": None,
        "symbolStrokeWidth": 2,
        "symbolOpacity": 1,
    },
    "header": {"labelColor": INK, "titleColor": SOFT, "labelFontSize": 12, "titleFontWeight": "normal"},
    "title": {"color": INK, "fontSize": 13, "fontWeight": 600, "anchor": "start"},
    "text": {"color": INK, "font": _FONT},
    "range": {"category": list(METHODS)},
}
_WIDTH = 560  # of a figure that is exported, in pixels
_SCALE = 2  # pixels of a PNG for each of the figure


@dataclass(frozen=True)
class Chart:
    """One drawing: what it is of, and how Altair specifies it. A page shows the charts of one `group` at a time.

    `about` explains the caption.
    """

    caption: str
    drawing: Any
    group: str = ""
    about: str = ""

    def spec(self) -> dict[str, Any]:
        """Return the specification for Vega-Lite."""
        found: dict[str, Any] = self.drawing.to_dict(validate=False)
        return {name: value for name, value in found.items() if name not in ("$schema", "config")}


@dataclass(frozen=True)
class Figure:
    """A figure: its title, what it shows, what good looks like, the same in words, and the numbers behind it.

    `words` has a sentence for each run, or for each part of the figure.
    """

    name: str
    title: str
    shows: str
    good: str
    words: Sequence[str]
    charts: Sequence[Chart]
    rows: Sequence[Mapping[str, Any]]
    thresholds: Mapping[str, Any] = field(default_factory=dict)

    def groups(self) -> list[str]:
        """List the groups of charts, of which one is shown at a time."""
        return list(dict.fromkeys(chart.group for chart in self.charts))


def for_page(content: Any) -> str:
    """Return plain values as JSON that can stand in a page, with colors that follow the page's.

    >>> for_page({"fill": "#c2410c", "text": "</script>"})
    '{"fill":"var(--forget)","text":"\\\\u003c/script>"}'
    """
    text = json.dumps(packed(content), separators=(",", ":"))
    for color, name in NAMES.items():
        text = text.replace(f'"{color}"', f'"var(--{name})"')
    return text.replace("<", "\\u003c")


def packed(content: Any) -> Any:
    """Return plain values in which rows with the same names have them once; the script of the page unpacks them.

    >>> packed([{"x": 1, "y": 2}, {"x": 3, "y": 4}])
    {'$names': ['x', 'y'], '$rows': [[1, 2], [3, 4]]}
    """
    if isinstance(content, Mapping):
        return {name: packed(value) for name, value in content.items()}
    if not isinstance(content, list | tuple):
        return content
    if len(content) > 1 and all(isinstance(one, Mapping) and [*one] == [*content[0]] for one in content):
        return {"$names": [*content[0]], "$rows": [[packed(value) for value in one.values()] for one in content]}
    return [packed(one) for one in content]


def as_svg(chart: Chart) -> str:
    """Draw a chart as SVG, on white."""
    import vl_convert  # it takes a while to start, and few commands draw

    drawn: str = vl_convert.vegalite_to_svg(_exported(chart), vl_version=_version(), config=_on_white())
    return drawn


def as_png(chart: Chart) -> bytes:
    """Draw a chart as PNG, on white."""
    import vl_convert

    drawn: bytes = vl_convert.vegalite_to_png(_exported(chart), vl_version=_version(), config=_on_white(), scale=_SCALE)
    return drawn


@cache
def script() -> str:
    """Return the script that draws charts in a page: Vega, Vega-Lite and what embeds them."""
    import vl_convert

    bundled: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", vl_version=_version())
    return bundled.replace("</script", "<\\/script")


def _exported(chart: Chart) -> dict[str, Any]:
    spec = chart.spec()
    return {**spec, "width": _WIDTH} if spec.get("width") == "container" else spec


def _on_white() -> dict[str, Any]:
    return {**CONFIG, "background": PAPER, "font": "sans-serif", "text": {"color": INK}}


def _version() -> str:
    """Return the version of Vega-Lite that Altair writes."""
    import altair as alt

    return ".".join(alt.SCHEMA_VERSION.split(".")[:2])

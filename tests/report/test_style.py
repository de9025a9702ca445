"""Text can be read on its ground, in both colour schemes."""

import re

import pytest

from pv4fad.report.render import page_style

_SCHEMES = dict(
    zip(
        ("light", "dark"),
        re.findall(r":root \{(.*?)\}", page_style(), re.DOTALL),
        strict=True,
    )
)


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", _SCHEMES)
@pytest.mark.parametrize("ground", ["ground", "raised"])
@pytest.mark.parametrize("ink", ["ink", "soft", "s0", "s1", "s2", "alarm"])
def test_contrast_is_at_least_that_of_wcag_aa(scheme, ground, ink):
    colours = dict(re.findall(r"--(\w+): (#\w{6})", _SCHEMES[scheme]))
    light, dark = sorted((luminance(colours[ink]), luminance(colours[ground])), reverse=True)
    assert (light + 0.05) / (dark + 0.05) >= 4.5

"""Names that tasks are drawn with: made up, and of nobody."""

from __future__ import annotations


def _listed(names: str) -> tuple[str, ...]:
    return tuple(names.split())


FIRST = _listed(
    "Ann Ben Cleo Dan Eve Finn Gus Hana Ivo June Kai Lena Max Nora Otto Pia Quin Rosa Sam Tess Uma Vik Wes Xena Yuri "
    "Zoe Abel Bea Cid Dora"
)
LAST = _listed(
    "Alder Birch Cedar Dorn Elm Frost Grant Hale Ibsen Jones Kern Lund Moss North Olsen Park Quill Reed Stone Thorn "
    "Usher Vale West Young Zorn Adler Brandt Cole Drake Ernst"
)
WORDS = _listed(
    "amber basalt cobalt delta ember falcon garnet harbor indigo jasper kestrel lagoon marble nectar opal pewter "
    "quartz raven saffron tundra umber violet walnut xenon yarrow zephyr anchor beacon copper drift"
)
MONTHS = _listed("jan feb mar apr may jun jul aug sep oct nov dec")

"""Office administration: quotes, orders, rooms."""

from __future__ import annotations

from training.engine.environments.office.templates.drawing import (
    Draw,
    Job,
    Rows,
    Template,
    desk,
    recorded,
    saved,
    shared,
    told,
)


def quote(draw: Draw) -> Job:
    boss = draw.person("boss")
    prices = draw.numbers(5)
    rows: Rows = [[vendor, price] for vendor, price in zip(draw.random.sample(VENDORS, 5), prices, strict=True)]
    draw.sheet("file", ("vendor", "price"), rows)
    best = min(rows, key=lambda row: row[1])
    return Job(
        (
            "Tell {boss} the min price in {file}, with its vendor.",
            "Which vendor in {file} has the min price? Tell {boss}.",
        ),
        ("open {file}", "min price", "tell {boss}"),
        (
            desk("quotes", rows),
            desk("cheapest", [best]),
            told(boss, *best, lacks=[vendor for vendor, _ in rows]),
        ),
    )


def drinks(draw: Draw) -> Job:
    boss, out = draw.person("boss"), draw.output("out")
    kinds = draw.values(DRINKS, 8, draw.pick(DRINKS))
    rows: Rows = [[who, drink] for who, drink in zip(draw.crowd(8), kinds, strict=True)]
    draw.sheet("file", ("guest", "drink"), rows)
    ordered = [drink for _, drink in rows]
    counts = [[drink, ordered.count(drink)] for drink in dict.fromkeys(ordered)]
    return Job(
        (
            "Count {file} by drink, save that as {out} and share it with {boss}.",
            "Save the count of each drink in {file} as {out} and share it with {boss}.",
        ),
        ("open {file}", "count drink", "save {out}", "share {boss}"),
        (desk("orders", rows), desk("counts", counts), saved(out, counts), shared(out, boss)),
    )


def room(draw: Draw) -> Job:
    guest, host = draw.person("guest"), draw.person("host")
    states = draw.values(("free", "taken", "closed"), 6, "free")
    names = draw.random.sample(ROOMS, 6)
    rows: Rows = [list(row) for row in zip(names, states, draw.numbers(6, 10, 69), strict=True)]
    draw.random.choice([row for row in rows if row[1] != "free"])[2] = draw.random.randint(70, 99)
    columns = ("room", "status", "seats")
    draw.table("rooms", columns, rows)
    bookings = draw.table("bookings", columns, [])
    free = [row for row in rows if row[1] == "free"]
    best = max(free, key=lambda row: row[2])
    others = [name for name, *_ in rows]
    return Job(
        (
            "Which free room in {rooms} has max seats? Insert it into {bookings}, tell {guest} and {host}.",
            "Insert the free room of {rooms} with max seats into {bookings}, then tell {guest} and {host}.",
        ),
        ("query {rooms}", "keep free", "max seats", "insert {bookings}", "tell {guest}", "tell {host}"),
        (
            desk("rooms", rows),
            desk("free rooms", free),
            desk("largest", [best]),
            recorded(bookings, best),
            told(guest, best[0], lacks=others),
            told(host, best[0], lacks=others),
        ),
    )


VENDORS = ("Acme", "Bolt", "Corex", "Dunmor", "Eltek", "Fabrik", "Gantry", "Hexa")
DRINKS = ("tea", "coffee", "juice", "water")
ROOMS = ("Ash", "Beech", "Cypress", "Dogwood", "Elder", "Fir", "Gorse", "Hazel")

TEMPLATES = (
    Template("quote", "admin", 1, quote),
    Template("drinks", "admin", 2, drinks),
    Template("room", "admin", 3, room),
)

"""Starting: a folder with a script, and a directory in which a first file lies, so that `headwater run` has something to do."""

from __future__ import annotations

from pathlib import Path

from headwater.errors import StateError

SCRIPT = """-- What comes in: every CSV file that is put into `inbox`, taken once.
CREATE SOURCE orders (id BIGINT, customer STRING, price DECIMAL(10,2), day DATE)
  USING csv LOCATION 'inbox';

-- What is kept up to date: computed once, and from then on changed with every file.
CREATE OR REPLACE MATERIALIZED VIEW revenue AS
  SELECT upper(customer) AS customer, count(*) AS orders, sum(price) AS total
  FROM orders GROUP BY upper(customer);
"""
FIRST = (
    "id,customer,price,day\n1,ada,10.00,2026-03-02\n2,bob,4.50,2026-03-02\n3,ada,2.25,2026-03-03\n"
)


def start(folder: Path) -> list[str]:
    """Makes the folder, and gives what to do next; what is there already is not touched."""
    script, inbox = folder / "app.sql", folder / "inbox"
    if script.exists():
        raise StateError(
            f"{script} is there already", hint="name another folder, or run it: headwater run"
        )
    try:
        inbox.mkdir(parents=True, exist_ok=True)
        script.write_text(SCRIPT, encoding="utf-8")
        (inbox / "orders-1.csv").write_text(FIRST, encoding="utf-8")
    except OSError as e:
        raise StateError(
            f"{folder} cannot be written: {e.strerror or e}", hint="name another folder"
        ) from e
    return [
        f"{script} declares a source and a view; {inbox / 'orders-1.csv'} has the first rows.",
        f"  headwater run {script} --always            keeps the view up to date until ^C",
        f"  headwater changes {folder / 'warehouse'} revenue --follow   shows what changes, in another terminal",
    ]

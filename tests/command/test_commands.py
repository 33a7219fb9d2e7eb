"""The command from `init` on: scripts run, asked, followed, rehearsed and refused; none of it starts Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import headwater as hw
from headwater.command.cli import main

Shown = pytest.CaptureFixture[str]
MORE = "id,customer,price,day\n4,bob,1.00,2026-03-04\n"


@pytest.fixture
def shop(tmp_path: Path, capsys: Shown) -> Path:
    assert main(["init", str(tmp_path / "shop")]) == 0
    assert main(["run", str(tmp_path / "shop" / "app.sql")]) == 0
    capsys.readouterr()
    return tmp_path / "shop"


def lines(capsys: Shown) -> list[dict[str, object]]:
    return [json.loads(x) for x in capsys.readouterr().out.splitlines()]


def test_the_first_steps(shop: Path, capsys: Shown) -> None:
    folder = str(shop / "warehouse")
    assert main(["show", folder, "revenue"]) == 0
    assert (
        capsys.readouterr().out
        == "customer  orders  total\nADA            2  12.25\nBOB            1   4.50\n"
    )
    (shop / "inbox" / "orders-2.csv").write_text(MORE)
    assert main(["run", str(shop / "app.sql"), "--json"]) == 0
    (done,) = lines(capsys)
    assert done["epochs"] == ["orders"] and done["version"] == 4
    assert main(["changes", folder, "revenue", "--since", "3", "--json"]) == 0
    bob = {"customer": "BOB", "_version": 4}
    assert sorted(lines(capsys), key=lambda c: str(c["_w"])) == [
        {**bob, "orders": 1, "total": "4.50", "_w": -1},
        {**bob, "orders": 2, "total": "5.50", "_w": 1},
    ]
    assert main(["run", str(shop / "app.sql"), "--json"]) == 0
    assert lines(capsys)[0]["version"] == 4  # run again it changes nothing
    assert main(["init", str(shop)]) == 1
    assert "is there already" in capsys.readouterr().err


def test_query_status_drop_and_the_rest(shop: Path, capsys: Shown) -> None:
    folder = str(shop / "warehouse")
    assert (
        main(
            [
                "query",
                folder,
                "SELECT customer, total FROM revenue ORDER BY total; SHOW SOURCES",
                "--json",
            ]
        )
        == 0
    )
    found = lines(capsys)
    assert [r.get("customer", r.get("source")) for r in found] == ["BOB", "ADA", "orders"]
    assert main(["query", folder, "INSERT INTO orders VALUES (9, 'cy', 3, '2026-01-01')"]) == 0
    assert capsys.readouterr().out == "version 4\n"
    assert main(["query", folder, "DELETE FROM orders WHERE id = 77"]) == 0
    assert capsys.readouterr().out == "version 4, nothing changed\n"
    assert main(["query", folder, "SELECT * FROM revenue ORDER BY customer", "--limit", "1"]) == 0
    assert capsys.readouterr().out.splitlines()[1:] == ["ADA            2  12.25"]
    assert main(["show", folder, "revenue", "--json", "--version", "3"]) == 0
    assert len(lines(capsys)) == 2
    assert main(["status", folder, "--json"]) == 0
    (status,) = lines(capsys)
    assert status["version"] == 4 and status["sources"]["orders"]["key"] == []  # type: ignore[index]
    assert main(["check", folder, "--json"]) == 0
    assert lines(capsys)[0]["damaged"] == []
    assert main(["compact", folder]) == 0 and main(["upgrade", folder]) == 0
    assert "there is nothing to do" in capsys.readouterr().out
    assert main(["show", folder, "revenue", "--json"]) == 0 and len(lines(capsys)) == 3
    assert (
        main(["rename", folder, "revenue", "higher"]) == 0
        and "is `higher`" in capsys.readouterr().out
    )
    assert main(["rename", folder, "higher", "orders"]) == 1
    assert main(["rename", folder, "higher", "revenue"]) == 0
    capsys.readouterr()
    assert main(["drop", folder, "orders"]) == 1
    assert "`orders` is read by the view `revenue`" in capsys.readouterr().err
    assert (
        main(
            [
                "query",
                folder,
                "CREATE MATERIALIZED VIEW high AS SELECT * FROM revenue WHERE total > 4",
            ]
        )
        == 0
    )
    assert (
        main(["drop", folder, "high"]) == 0 and main(["drop", folder, "orders", "--cascade"]) == 0
    )
    assert "`revenue`, `orders` are gone" in capsys.readouterr().out


def test_changes_are_followed_while_another_handle_commits(shop: Path, capsys: Shown) -> None:
    def write() -> None:
        time.sleep(0.3)
        with hw.open(shop / "warehouse") as db:
            db.execute("INSERT INTO orders VALUES (8, 'eve', 1, '2026-01-01')")
            db.execute("INSERT INTO orders VALUES (9, 'eve', 1, '2026-01-01')")

    writer = threading.Thread(target=write)
    writer.start()
    assert (
        main(
            [
                "changes",
                str(shop / "warehouse"),
                "revenue",
                "--follow",
                "--json",
                "--seconds",
                "1.5",
            ]
        )
        == 0
    )
    writer.join()
    found = [(c["_version"], c["orders"], c["_w"]) for c in lines(capsys)]
    assert sorted(found) in ([(4, 1, 1), (5, 1, -1), (5, 2, 1)],)


def test_a_rehearsal_prints_and_changes_nothing(shop: Path, capsys: Shown) -> None:
    text = (shop / "app.sql").read_text().replace("count(*)", "max(id)")
    (shop / "app.sql").write_text(
        text + "CREATE MATERIALIZED VIEW high AS SELECT * FROM revenue WHERE total > 5;"
    )
    assert main(["run", str(shop / "app.sql"), "--dry-run"]) == 0
    out = capsys.readouterr().out
    assert "source orders is there" in out and "view revenue would get another query" in out
    assert "view high would be made" in out and "cost class change" in out and "FILL" in out
    assert main(["run", str(shop / "app.sql"), "--dry-run", "--json"]) == 0
    assert [p["becomes"] for p in lines(capsys)] == [
        "is there",
        "would get another query",
        "would be made",
    ]
    with hw.open(shop / "warehouse") as db:
        assert db.version == 3 and db.views == ["revenue"]
    assert main(["run", str(shop / "app.sql"), "--dir", str(shop / "none"), "--dry-run"]) == 0
    assert not (shop / "none").exists()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("SELECT 1 AS a;\nSELECT 2 AS b;\nSELECT c FROM orders", "line 3, column 8"),
        (
            "CREATE SOURCE a (x INT);\n\nCREATE SOURCE a2 (x INT) USING papyrus LOCATION 'x'",
            "papyrus",
        ),
        ("CREATE SOURCE a (x INT) USING csv LOCATION 'x' OPTIONS (colour = 'red')", "`colour`"),
        ("CREATE SOURCE a (x INT) USING csv LOCATION 'nowhere'", "nowhere"),
        ("SELEC 1", "is no statement of Headwater"),
    ],
)
def test_bad_scripts_are_told_in_one_message(
    shop: Path, capsys: Shown, text: str, told: str
) -> None:
    bad = shop / "bad.sql"
    bad.write_text(text)
    assert main(["run", str(bad)]) == 1
    err = capsys.readouterr().err
    assert told in err and "Traceback" not in err and len(err.splitlines()) <= 6
    with hw.open(shop / "warehouse") as db:
        assert db.table("revenue").num_rows == 2


def test_what_is_not_there_is_told(shop: Path, capsys: Shown) -> None:
    assert main(["run", str(shop / "nowhere.sql")]) == 1
    assert "cannot be read: No such file" in capsys.readouterr().err
    assert main(["run", str(shop)]) == 1
    assert "is no program" in capsys.readouterr().err
    assert main(["query", str(shop), "SELECT 1"]) == 1
    assert "there is no database in" in capsys.readouterr().err


def test_codes_version_and_completion(capsys: Shown) -> None:
    for arguments, code in (
        (["--version"], 0),
        ([], 2),
        (["show"], 2),
        (["run", "x", "--every", "-1"], 2),
    ):
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == code
    capsys.readouterr()
    assert main(["completion", "bash"]) == 0
    text = capsys.readouterr().out
    asked = 'COMP_WORDS=(headwater ch); COMP_CWORD=1; _headwater; echo "${COMPREPLY[@]}"'
    asked += (
        '; COMP_WORDS=(headwater changes --fo); COMP_CWORD=2; _headwater; echo "${COMPREPLY[@]}"'
    )
    found = subprocess.run(
        ["bash", "-c", f"{text}\n{asked}"], capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines() == ["changes check", "--format --follow"]
    assert main(["completion", "zsh"]) == 0 and "bashcompinit" in capsys.readouterr().out


@pytest.mark.slow
def test_without_java_a_closed_file_is_followed(shop: Path) -> None:
    """`run`, `changes`, `show` and `status` in processes that could not start Java, and a run that SIGTERM ends."""
    nothing = {"PATH": "", "HOME": str(shop)}
    command = [sys.executable, "-m", "headwater"]
    keep = subprocess.Popen([*command, "run", str(shop / "app.sql"), "--always"], env=nothing)
    follow = subprocess.Popen(
        [
            *command,
            "changes",
            str(shop / "warehouse"),
            "revenue",
            "--follow",
            "--json",
            "--since",
            "3",
        ],
        env=nothing,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        (shop / "inbox" / "a.csv").write_text(MORE)
        assert follow.stdout is not None
        assert json.loads(follow.stdout.readline())["customer"] == "BOB"
        for asked in (["show", "revenue"], ["status"]):
            args = [asked[0], str(shop / "warehouse"), *asked[1:]]
            subprocess.run([*command, *args], env=nothing, check=True, capture_output=True)
        second = subprocess.run(
            [*command, "run", str(shop / "app.sql")], env=nothing, capture_output=True, text=True
        )
        assert second.returncode == 1 and "is writing to this database" in second.stderr
        assert "Traceback" not in second.stderr
    finally:
        keep.terminate()
        follow.kill()
    assert keep.wait(20) == 0

"""From a long script that shows a difference to a short one: statements are left out in ever smaller groups for as long as a
difference of the same kind remains. Used by fuzz.py.
"""
import re
import time


def kind_of(difference):
    """The first words, without numbers and names: what a smaller script must still show."""
    return re.sub(r"[0-9].*", "", difference.split(";")[0])[:40] if difference else None


def reduced(script, shows, seconds):
    """`shows(script)` gives the text of the difference that a script has, or None."""
    deadline = time.monotonic() + seconds
    wanted = kind_of(shows(script))
    if wanted is None:
        return script
    size = max(1, len(script) // 2)
    while time.monotonic() < deadline:
        at, shorter = 0, False
        while at < len(script) and time.monotonic() < deadline:
            candidate = script[:at] + script[at + size:]
            if candidate and kind_of(shows(candidate)) == wanted:
                script, shorter = candidate, True
            else:
                at += size
        if size == 1 and not shorter:
            break
        size = max(1, size // 2)
    return fewer_rows(script, shows, wanted, deadline)


def fewer_rows(script, shows, wanted, deadline):
    """INSERTs of several rows: rows that do not matter are left out."""
    for i, statement in enumerate(script):
        head, found, tail = statement.partition(" VALUES (")
        rows = tail.split("), (")
        if not found or len(rows) < 2 or " ON DUPLICATE" in tail:
            continue
        rows[-1] = rows[-1].removesuffix(")")
        at = 0
        while at < len(rows) > 1 and time.monotonic() < deadline:
            fewer = rows[:at] + rows[at + 1:]
            candidate = script[:i] + [f"{head} VALUES ({'), ('.join(fewer)})"] + script[i + 1:]
            if kind_of(shows(candidate)) == wanted:
                script, rows = candidate, fewer
            else:
                at += 1
    return script

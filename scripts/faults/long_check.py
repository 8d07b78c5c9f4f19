"""A CHECK TABLE that takes long: SHOW PROCESSLIST tells how far it is, and KILL ends it."""
import threading

import connection
from trial import Broken, wait_until

ROWS = 200000


def progress_and_kill(trial, _how):
    trial.fresh()
    trial.sql(f"CREATE TABLE big (id INT PRIMARY KEY, a INT, KEY (a)) ENGINE=Sluice; INSERT INTO big SELECT seq, seq * 7919 % 1000003 FROM seq_1_to_{ROWS}")
    seen, answer = set(), []

    def check():
        with connection.connect(trial.server, "f", autocommit=True) as client, client.cursor() as cursor:
            cursor.execute("CHECK TABLE big EXTENDED")
            answer.extend(cursor.fetchall())

    def look():
        rows = trial.sql("SELECT id, stage, max_stage, progress FROM information_schema.processlist WHERE info LIKE 'CHECK TABLE%'")
        for number, stage, stages, progress in rows:
            if float(progress) > 0:
                seen.add((int(stage), int(stages), round(float(progress))))
            return number
        return None

    for kill in (False, True):
        answer.clear()
        thread = threading.Thread(target=check)
        thread.start()
        while thread.is_alive():
            number = look()
            if kill and number and seen:
                trial.sql(f"KILL QUERY {number}")
        thread.join()
        outcome = " ".join(str(cell) for row in answer for cell in row)
        if kill != ("interrupted" in outcome) or kill == (" OK" in outcome):
            raise Broken(f"CHECK TABLE{' killed' if kill else ''}: {outcome}")
    if len({(stage, progress) for stage, _, progress in seen}) < 3:
        raise Broken(f"progress seen: {sorted(seen)}")
    if not wait_until(5, lambda: look() is None):
        raise Broken("the check goes on")
    trial.expect_alive()
    return "nothing", f"{len(seen)} states of progress seen; KILL QUERY ended it"


def trials():
    yield "CHECK TABLE EXTENDED", "progress, KILL", progress_and_kill

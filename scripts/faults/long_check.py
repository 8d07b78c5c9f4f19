"""A CHECK TABLE that takes long: SHOW PROCESSLIST tells how far it is, and KILL ends it."""
import threading

import connection
from trial import Broken, wait_until

ROWS = 200000
KILLS_MAX = 5  # of which one must come before the check is done


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

    def run(kill):
        answer.clear()
        thread = threading.Thread(target=check)
        thread.start()
        while thread.is_alive():
            number = look()
            if kill and number and seen:
                trial.refused(f"KILL QUERY {number}")  # it may have ended just now
        thread.join()
        return " ".join(str(cell) for row in answer for cell in row)

    outcome = run(kill=False)
    if " OK" not in outcome:
        raise Broken(f"CHECK TABLE: {outcome}")
    outcomes = []
    while len(outcomes) < KILLS_MAX and not any("interrupted" in text for text in outcomes):
        outcomes.append(run(kill=True))
    if "interrupted" not in outcomes[-1] or any(" OK" not in text for text in outcomes[:-1]):
        raise Broken(f"CHECK TABLE killed: {outcomes}")
    if len({(stage, progress) for stage, _, progress in seen}) < 3:
        raise Broken(f"progress seen: {sorted(seen)}")
    if not wait_until(5, lambda: look() is None):
        raise Broken("the check goes on")
    trial.expect_alive()
    return "nothing", f"{len(seen)} states of progress seen; KILL QUERY ended it"


def trials():
    yield "CHECK TABLE EXTENDED", "progress, KILL", progress_and_kill

#!/usr/bin/env python3
"""`make tables`: thousands of tables, engine by engine: making them, starting with them, using each, dropping their database.

Each engine has a server of its own with the same pool, redo log and durability. Start is the time from the process's start to its
greeting, after a shutdown and after kill -9. Open files are counted in /proc while every table has just been used.
"""
import argparse
import os
import pathlib
import shutil
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent)]
import connection  # noqa: E402
import display  # noqa: E402
import engines  # noqa: E402
from cells import memory_mb  # noqa: E402
from server import BUILD, Server, ServerError, free_port  # noqa: E402

COLUMNS = ["engine", "created/s", "start s", "after kill s", "used/s", "open files", "MB resident", "dropped/s"]


def arguments_of_command_line():
    parser = argparse.ArgumentParser(description="Thousands of tables.", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    parser.add_argument("--count", type=int, default=5000)
    parser.add_argument("--engines", default="Sluice,InnoDB", help=f"comma separated, of {', '.join(engines.NAMES)}")
    parser.add_argument("--pool", default="128M")
    parser.add_argument("--redo", default="96M")
    parser.add_argument("--option", action="append", default=[], metavar="--NAME=VALUE", help="a server option; repeatable")
    parser.add_argument("--folder", type=pathlib.Path, default=BUILD / "run/tables", help="where the servers live; made anew")
    return parser.parse_args()


def timed(action):
    started = time.monotonic()
    action()
    return time.monotonic() - started


def statements(server, texts):
    """Runs them on one connection, one after the other."""
    with connection.connect(server, autocommit=True) as link, link.cursor() as cursor:
        for text in texts:
            cursor.execute(text)


def measure(engine, arguments):
    server = Server(arguments.folder / engine, free_port(),
                    [*engines.options(engine, arguments.pool, arguments.redo), "--table-open-cache=2000", *arguments.option],
                    plugins=engines.plugins([engine]), engine=engine)
    names = [f"many.t{number}" for number in range(arguments.count)]
    try:
        server.start()
        server.sql("CREATE DATABASE many")
        create = timed(lambda: statements(server, (f"CREATE TABLE {name} (id INT PRIMARY KEY, a INT, KEY (a))" for name in names)))
        statements(server, (f"INSERT INTO {name} VALUES (1, 1)" for name in names))
        server.stop(timeout=600)
        start = timed(lambda: server.start(timeout=600))
        statements(server, (f"UPDATE {name} SET a = a + 1" for name in names[::10]))
        server.kill9()
        after_kill = timed(lambda: server.start(timeout=600))
        use = timed(lambda: statements(server, (f"UPDATE {name} SET a = a + 1" for name in names)))
        open_files = len(os.listdir(f"/proc/{server.pid()}/fd"))
        memory = memory_mb(server.pid())
        drop = timed(lambda: server.sql("DROP DATABASE many"))
        server.stop(timeout=600)
    except BaseException:
        server.kill9()
        raise
    count = arguments.count
    return [engine, f"{count / create:.0f}", f"{start:.1f}", f"{after_kill:.1f}", f"{count / use:.0f}", open_files, f"{memory:.0f}", f"{count / drop:.0f}"]


def main():
    arguments = arguments_of_command_line()
    shutil.rmtree(arguments.folder, ignore_errors=True)
    rows = []
    try:
        for engine in arguments.engines.split(","):
            rows.append(measure(engine, arguments))
            display.say(f"[tables] {dict(zip(COLUMNS, rows[-1]))}")
    except (ServerError, connection.pymysql.err.Error) as error:
        sys.exit(f"error: {error} (server's log: {arguments.folder}/*/log)")
    display.table(COLUMNS, rows, f"{arguments.count} tables")


if __name__ == "__main__":
    main()

"""Connections to a Server of server.py with PyMySQL, for the programs in scripts/ that act as clients themselves."""
import display  # noqa: F401  (it knows where the libraries are)
import pymysql
import pymysql.cursors
import pymysql.err

# What a client meets when the server is killed under it.
CONNECTION_LOST = (2003, 2006, 2013, 2055, 1053, 1927)


def connect(server, database=None, autocommit=False):
    return pymysql.connect(unix_socket=str(server.socket), user="root", database=database, autocommit=autocommit,
                           charset="utf8mb4", local_infile=False, read_timeout=600, write_timeout=600)


def is_lost(error):
    """Whether this exception means that the connection is gone, not that a statement failed."""
    if isinstance(error, pymysql.err.InternalError) and "Packet sequence" in str(error):
        return True
    if isinstance(error, pymysql.err.Error):
        return bool(error.args) and error.args[0] in CONNECTION_LOST + (0,)
    return isinstance(error, (OSError, EOFError))

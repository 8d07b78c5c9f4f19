/* The C ABI between the MariaDB shim (plugin/) and the engine (ffi/).

   Words here are the engine's: keys and rows are byte strings, made by the codec in plugin/;
   nothing below this line knows a collation or a column. Every function may be called from any
   thread; an object (transaction, cursor, build) is used by one thread at a time unless said
   otherwise. Every function that can fail returns a `slc_err`; the text of the last error of this
   thread is had from slc_error_text(). A panic inside the engine is caught at this border: it
   poisons the engine (SLC_POISONED from then on), never the server.

   Pointers handed out by the engine (rows, keys) stay valid until the next call on the same object.
   Keys compare as bytes (invariant I8). Lengths are bytes. */
#ifndef SLUICE_ABI_H
#define SLUICE_ABI_H
#include "abi/base.h"
#include "abi/engine.h"
#include "abi/observer.h"
#include "abi/backup.h"
#include "abi/report.h"
#include "abi/dictionary.h"
#include "abi/pool.h"
#include "abi/change_buffer.h"
#include "abi/locks.h"
#include "abi/transactions.h"
#include "abi/rows.h"
#include "abi/foreign_keys.h"
#include "abi/tables.h"
#include "abi/autoinc.h"
#include "abi/statistics.h"
#include "abi/check.h"
#include "abi/alter.h"
#include "abi/loads.h"
#include "abi/cursors.h"
#endif

/* The C ABI between the MariaDB shim (plugin/) and the engine (ffi/).

   Keys and rows are byte strings here. The codec in plugin/ makes them, and the engine knows no
   collations and no columns. Keys compare as bytes (invariant I8). Lengths are in bytes.

   Every function may be called from any thread. An object (transaction, cursor, build) is used by
   one thread at a time, unless its comment says otherwise. A pointer that the engine gives (rows,
   keys) is valid until the next call with the same object.

   A function that can fail returns a slc_err. slc_error_text() gives the text of this thread's last
   error. A panic inside the engine is caught here. It poisons the engine, which answers
   SLC_POISONED from then on. The server goes on. */
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

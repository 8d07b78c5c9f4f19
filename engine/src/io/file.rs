//! The real disk: files in one directory, O_DIRECT, batched I/O by io_uring or threads.

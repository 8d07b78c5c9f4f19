//! Tests of page allocation against a model, and of the life of data files.

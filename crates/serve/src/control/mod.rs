//! The control socket of a running array: one line of JSON in, one line of JSON out.

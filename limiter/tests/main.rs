//! The contracts of the limiters, on a virtual clock: property tests against naive models.

mod clock_steps;
mod long_run;
mod models;
mod multi;
mod properties;
mod quota;

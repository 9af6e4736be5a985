//! The contracts of the limiters, in virtual time: by property, against models that are too simple to be wrong.

mod clock_steps;
mod long_run;
mod models;
mod multi;
mod properties;
mod quota;

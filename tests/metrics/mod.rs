//! The exporter for Prometheus, what it shows, and what a dashboard makes of that.

pub mod dashboard;
pub mod exporter;
pub mod promql;
pub mod samples;

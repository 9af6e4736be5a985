//! The dashboard for Grafana.

use std::fs;

use serde_json::Value;

/// The dashboard in its file.
pub struct Dashboard(Value);

/// A query of a panel.
pub struct Shown {
    pub panel: String,
    pub expression: String,
    pub legend: String,
}

impl Dashboard {
    pub fn read() -> Self {
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/monitoring/grafana.json");
        Self(serde_json::from_str(&fs::read_to_string(file).expect("a file")).expect("JSON"))
    }

    pub fn panels(&self) -> &[Value] {
        list(&self.0["panels"])
    }

    pub fn variable(&self, name: &str) -> &Value {
        let mut variables = list(&self.0["templating"]["list"]).iter();
        variables.find(|variable| variable["name"] == name).unwrap_or_else(|| panic!("no variable {name}"))
    }

    /// The queries of all panels, with all instances chosen.
    pub fn shown(&self) -> Vec<Shown> {
        let all = text(&self.variable("instance")["allValue"]);
        let of = |panel: &Value, target: &Value| Shown {
            panel: text(&panel["title"]).to_owned(),
            expression: text(&target["expr"]).replace("$instance", all),
            legend: text(&target["legendFormat"]).to_owned(),
        };
        let panels = self.panels().iter().filter(|panel| panel["type"] != "row");
        panels.flat_map(|panel| list(&panel["targets"]).iter().map(move |target| of(panel, target))).collect()
    }
}

pub fn list(value: &Value) -> &[Value] {
    value.as_array().unwrap_or_else(|| panic!("a list, not {value}"))
}

pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("a text, not {value}"))
}

pub fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number, not {value}"))
}

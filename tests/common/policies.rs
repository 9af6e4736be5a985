//! The policies of a server.

use super::Client;

/// All policies, as lines of a policy file.
pub fn policies(client: &mut Client) -> Vec<String> {
    let names: Vec<String> = client.get("RL.POLICY LIST");
    let line = |name: &String| {
        let words: Vec<String> = client.get(&format!("RL.POLICY GET {name}"));
        format!("{name} {}", words.join(" "))
    };
    names.iter().map(line).collect()
}

/// Sets policies from lines of a policy file.
pub fn set_policies(client: &mut Client, lines: &[&str]) {
    for line in lines {
        assert_eq!(client.get::<String>(&format!("RL.POLICY SET {line}")), "OK");
    }
}

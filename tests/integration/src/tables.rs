//! What the switches hold, as their agents say.

use fabricast_proto::v1;

use crate::client::{Client, named};

impl Client {
    /// The tables of all live switches, read back through the switch agents.
    ///
    /// # Errors
    ///
    /// If an agent does not answer.
    pub async fn read_tables(&self) -> Result<Vec<v1::SwitchTable>, String> {
        let mut tables = Vec::new();
        for mut agent in self.switch_agents() {
            let answer = agent.read_tables(v1::ReadTablesRequest::default()).await;
            let mut stream = answer.map_err(|status| named(&status))?.into_inner();
            while let Some(part) = stream.message().await.map_err(|status| named(&status))? {
                tables.extend(part.table);
            }
        }
        tables.sort_by(|one, other| one.switch_name.cmp(&other.switch_name));
        Ok(tables)
    }

    /// The tables of all live switches.
    ///
    /// # Panics
    ///
    /// If an agent does not answer.
    pub async fn tables(&self) -> Vec<v1::SwitchTable> {
        self.read_tables().await.expect("the switch agents answer")
    }
}

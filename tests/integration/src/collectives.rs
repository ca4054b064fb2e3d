//! Collectives of a cluster: created, watched and run.

use fabricast_proto::v1;
use fabricast_proto::v1::collective_agent_service_client::CollectiveAgentServiceClient;
use fabricast_proto::v1::collective_service_client::CollectiveServiceClient;
use fabricast_proto::v1::collective_values::Kind;
use fabricast_rpc::LeaderChannel;
use tokio::task::JoinHandle;
use tonic::{Response, Status};

use crate::client::{Client, named};
use crate::wait::eventually;

/// A contribution of one process to an operation, until its result is there.
pub type Contribution = JoinHandle<Result<Response<v1::RunCollectiveResponse>, Status>>;

/// A contribution of one number.
#[must_use]
pub fn number(value: i64) -> v1::CollectiveValues {
    let kind = Kind::SignedValues(v1::SignedValues { values: vec![value] });
    v1::CollectiveValues { kind: Some(kind) }
}

/// One operation of a collective.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// Number of the operation; all processes count the same.
    pub sequence: u64,
    /// The work to be done.
    pub work: v1::CollectiveWork,
}

impl Client {
    /// Client of the collectives, which the TIC keeps.
    #[must_use]
    pub fn collectives(&self) -> CollectiveServiceClient<LeaderChannel> {
        CollectiveServiceClient::new(self.tic.channel())
    }

    /// Creates a collective with all operations.
    ///
    /// # Errors
    ///
    /// The TIC's refusal.
    pub async fn create_collective(
        &self,
        name: &str,
        group: &str,
        tenant: &str,
    ) -> Result<v1::Collective, Status> {
        let all = [
            v1::CollectiveOperation::Barrier,
            v1::CollectiveOperation::Broadcast,
            v1::CollectiveOperation::Reduce,
            v1::CollectiveOperation::AllReduce,
        ];
        let request = v1::CreateCollectiveRequest {
            name: name.to_owned(),
            group: group.to_owned(),
            tenant: tenant.to_owned(),
            operations: all.map(i32::from).to_vec(),
            max_bytes: 8,
            ..Default::default()
        };
        let answer = self.collectives().create_collective(request).await?.into_inner();
        Ok(answer.collective.expect("it was created"))
    }

    /// Waits until a collective is as wanted, with its trees held everywhere.
    ///
    /// # Panics
    ///
    /// If it does not come about.
    pub async fn collective(
        &self,
        name: &str,
        wanted: impl Fn(&v1::Collective) -> bool,
    ) -> v1::Collective {
        eventually(&format!("collective {name} is as wanted"), async || {
            let request = v1::GetCollectiveRequest { name: name.to_owned() };
            let answer = self.collectives().get_collective(request).await;
            let answer = answer.map_err(|status| named(&status))?.into_inner();
            let found = answer.collective.expect("an answer has one");
            if found.programmed && wanted(&found) { Ok(found) } else { Err(format!("{found:?}")) }
        })
        .await
    }

    /// Sends the contribution of one process to an operation.
    ///
    /// # Panics
    ///
    /// If there is no such process.
    #[must_use]
    pub fn contribute(
        &self,
        collective: &v1::Collective,
        process: usize,
        operation: Operation,
        values: Option<v1::CollectiveValues>,
    ) -> Contribution {
        let v1::CollectiveProcess { node, process, .. } = collective.processes[process].clone();
        let host = self.hosts[self.homes[&node]].channel();
        let collective = collective.name.clone();
        let Operation { sequence, work } = operation;
        let work = Some(work);
        let request = v1::RunCollectiveRequest {
            collective,
            node,
            process,
            sequence,
            work,
            values,
            timeout: None,
        };
        tokio::spawn(async move {
            CollectiveAgentServiceClient::new(host).run_collective(request).await
        })
    }

    /// Adds up the numbers of all processes, from 1, at all of them.
    ///
    /// # Panics
    ///
    /// If a process gets another value than the sum.
    pub async fn adds_up(&self, collective: &v1::Collective, sequence: u64) {
        let work = v1::CollectiveWork {
            operation: v1::CollectiveOperation::AllReduce.into(),
            reduction: v1::Reduction::Sum.into(),
            root_process: 0,
        };
        let brings = |process: usize| i64::try_from(process).expect("few") + 1;
        let count = collective.processes.len();
        let parts: Vec<Contribution> = (0..count)
            .map(|process| {
                let value = Some(number(brings(process)));
                self.contribute(collective, process, Operation { sequence, work }, value)
            })
            .collect();
        let sum = (0..count).map(brings).sum();
        for part in parts {
            let answer = part.await.expect("no panic").expect("the run ends well").into_inner();
            assert_eq!(answer.values, Some(number(sum)));
        }
    }
}

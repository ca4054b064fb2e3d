//! Changes of the directory, each with the type of its answer.

use std::sync::Arc;

use fabricast_groups::command::{
    Answer, Command, DeleteGroup, DeleteJob, DeleteJobGroups, Expelled, FormGroups, Formed,
    GroupMove, JobEnd, Join, Joined, Leave, Refusal, RegisterNode,
};
use fabricast_groups::directory::{ChooseMgid, Directory};
use fabricast_groups::ids::{Gn, Incarnation, Moment, Pn, Revision};
use fabricast_groups::job::{CreateJob, JobRecord, ReserveJob};
use fabricast_groups::names::NodeName;
use fabricast_groups::record::{Change, NodeRecord, Route};

/// A [`Command`] of the directory with the type of its [`Answer`].
pub(crate) trait DirectoryRequest: Send + 'static {
    type Answer: Send + 'static;

    fn command(self) -> Command;

    /// Takes the answer to such a command; `None` for one to another command.
    fn read(answer: Answer) -> Option<Self::Answer>;
}

/// A decision that is durable.
#[derive(Debug)]
pub(crate) struct Decided<A> {
    pub(crate) answer: A,
    /// The revision of the records after it.
    pub(crate) revision: Revision,
}

/// A decision that is not written yet.
#[derive(Debug)]
pub(crate) struct Decision<A> {
    pub(crate) answer: A,
    pub(crate) revision: Revision,
    pub(crate) changes: Vec<Change>,
}

/// Decides a request; changes nothing.
///
/// - `choose_trees`: gives groups without a shape of their tree one.
pub(crate) fn decide<R: DirectoryRequest>(
    directory: &Directory,
    now: Moment,
    request: R,
    choose_trees: impl FnOnce(&mut Command),
    choose: &mut ChooseMgid<'_>,
) -> Result<Decision<R::Answer>, Refusal> {
    let mut command = request.command();
    choose_trees(&mut command);
    let decided = directory.decide(now, &command, choose)?;
    let answer = R::read(decided.answer).expect("each command has one kind of answer");
    Ok(Decision { answer, revision: decided.revision, changes: decided.changes })
}

/// Takes a failed node out of its groups, a bounded number at a time. Only then it is recorded as
/// failed: a TIC that goes on after a crash suspects it as before.
#[derive(Clone, Debug)]
pub(crate) struct NodeFailed {
    pub(crate) node: NodeName,
    /// The incarnation that failed; `None` stands for the present one.
    pub(crate) incarnation: Option<Incarnation>,
}

/// Ends the suppression of a node.
#[derive(Debug)]
pub(crate) struct ForgetFlaps {
    pub(crate) node: NodeName,
}

/// Removes the record of a node that takes no part.
#[derive(Debug)]
pub(crate) struct RemoveNode {
    pub(crate) node: NodeName,
}

/// Empties a node, or lets jobs have it again.
#[derive(Debug)]
pub(crate) struct DrainNode {
    pub(crate) node: NodeName,
    pub(crate) drained: bool,
}

/// Records the routes that the switches hold.
#[derive(Debug)]
pub(crate) struct RecordRoutes {
    pub(crate) routes: Vec<(Gn, Route)>,
    /// No table holds anything of groups that ended at or before this revision.
    pub(crate) clean: Option<Revision>,
}

/// Moves groups to the spanning trees of other MGIDs; replies with the moves that were made.
#[derive(Debug)]
pub(crate) struct MoveGroups(pub(crate) Vec<GroupMove>);

/// Answer to [`RegisterNode`].
#[derive(Debug)]
pub(crate) enum Registered {
    /// The node as recorded.
    Recorded(NodeRecord),
    /// The node has flapped too often and is not readmitted before this time.
    Suppressed(NodeRecord, Moment),
    /// Memberships of the start before are left; the request is to be repeated.
    Unfinished,
}

/// Answer to [`Leave`].
#[derive(Debug)]
pub(crate) struct Left {
    pub(crate) gn: Gn,
    pub(crate) pn: Pn,
    pub(crate) revision: Revision,
}

/// Answer to [`DeleteJobGroups`] and [`DeleteJob`].
#[derive(Debug)]
pub(crate) struct JobGroupsDeleted {
    /// Everything that has ended by this request so far.
    pub(crate) ended: JobEnd,
    /// Revision of the last end; `None` if groups of the job are left.
    pub(crate) done: Option<Revision>,
}

/// Pairs each request with its command and with the answer to that.
macro_rules! directory_requests {
    ($($request:ty => $answer:ty: $this:ident => $command:expr, { $($found:pat => $read:expr),+ };)*) => {$(
        impl DirectoryRequest for $request {
            type Answer = $answer;

            fn command(self) -> Command {
                let $this = self;
                $command
            }

            fn read(answer: Answer) -> Option<$answer> {
                match answer {
                    $($found => Some($read),)+
                    _ => None,
                }
            }
        }
    )*};
}

directory_requests! {
    RegisterNode => Registered: node => Command::RegisterNode(node), {
        Answer::Node(node) => Registered::Recorded(node),
        Answer::Suppressed(node, until) => Registered::Suppressed(node, until),
        Answer::Expelled(_) => Registered::Unfinished
    };
    ForgetFlaps => NodeRecord: this => Command::ForgetFlaps { node: this.node }, {
        Answer::FlapsForgotten(node) => node
    };
    DrainNode => NodeRecord: this => {
        Command::DrainNode { node: this.node, drained: this.drained }
    }, { Answer::NodeDrain(node) => node };
    RemoveNode => (): this => Command::RemoveNode { node: this.node }, {
        Answer::NodeRemoved => ()
    };
    NodeFailed => Expelled: this => {
        Command::NodeFailed { node: this.node, incarnation: this.incarnation }
    }, { Answer::Expelled(expelled) => expelled };
    Join => Joined: join => Command::Join(join), { Answer::Joined(joined) => joined };
    Leave => Left: leave => Command::Leave(leave), {
        Answer::Left { gn, pn, revision } => Left { gn, pn, revision }
    };
    Arc<FormGroups> => Vec<Result<Formed, Refusal>>: groups => Command::FormGroups(groups), {
        Answer::Formed(formed) => formed
    };
    DeleteGroup => (Gn, Option<Revision>): this => Command::DeleteGroup(this), {
        Answer::Deleted { gn, done } => (gn, done)
    };
    DeleteJobGroups => JobGroupsDeleted: this => Command::DeleteJobGroups(this), {
        Answer::JobGroupsDeleted { ended, done } => JobGroupsDeleted { ended, done }
    };
    CreateJob => JobRecord: job => Command::CreateJob(job), { Answer::JobCreated(job) => job };
    ReserveJob => JobRecord: job => Command::ReserveJob(job), { Answer::JobReserved(job) => job };
    DeleteJob => JobGroupsDeleted: this => Command::DeleteJob(this), {
        Answer::JobDeleted { ended, done } => JobGroupsDeleted { ended, done }
    };
    MoveGroups => Vec<GroupMove>: this => Command::MoveGroups(this.0), {
        Answer::Moved(moved) => moved
    };
    RecordRoutes => Vec<Gn>: this => {
        Command::Routed { routes: this.routes, clean: this.clean }
    }, { Answer::Routed { ignored } => ignored };
}

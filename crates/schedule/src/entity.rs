//! What is scheduled: the queries of one target, their operators, the tasks that run them, and the threads of
//! these tasks (section 2 of the paper).

/// Place of a query in [`Graph::queries`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryIndex(pub usize);

/// Place of an operator in [`Graph::operators`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperatorIndex(pub usize);

/// Place of a task in [`Graph::tasks`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskIndex(pub usize);

/// The queries that an engine runs at one moment. Places are valid in this value only; names identify across
/// looks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Graph {
    /// Jobs of Flink and Anabranch, topologies of Storm.
    pub queries: Vec<Query>,
    /// Logical operators: what the query's text says.
    pub operators: Vec<Operator>,
    /// From which operator rows flow to which. Without cycles.
    pub edges: Vec<Edge>,
    /// Physical operators: what threads run.
    pub tasks: Vec<Task>,
    /// All threads that the driver knows.
    pub threads: Vec<Thread>,
    /// Sets of tasks of one query whose threads cannot be distinguished: each task has one of these threads,
    /// and which one is not known. The tasks share the greatest of their priorities, and the mean of their
    /// processor times.
    pub alike: Vec<Vec<TaskIndex>>,
}

/// A running query.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Unique within its target.
    pub name: String,
}

/// A logical operator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operator {
    /// The query that it belongs to.
    pub query: QueryIndex,
    /// Unique within its query.
    pub name: String,
    /// Its place in the query.
    pub role: Role,
}

/// Where an operator stands in its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Reads from outside.
    Source,
    /// Has operators before and after it.
    Inner,
    /// Writes to the outside.
    Sink,
}

/// Rows flow from one operator to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Edge {
    /// The operator that emits.
    pub from: OperatorIndex,
    /// The operator that receives.
    pub to: OperatorIndex,
}

/// A physical operator: a subtask of Flink, an executor of Storm, a task of Anabranch. It runs several
/// operators where the engine has fused them (a chain), and several tasks run one operator where it is
/// parallel (fission).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    /// The query that it belongs to.
    pub query: QueryIndex,
    /// Unique within its query, and the same at each look.
    pub name: String,
    /// The operators that it runs, in the order in which rows pass them. At least one.
    pub runs: Vec<OperatorIndex>,
}

/// A thread of an engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// Which thread of the machine.
    pub id: ThreadId,
    /// As the engine calls it.
    pub name: String,
    /// What it does.
    pub kind: ThreadKind,
}

/// What a thread does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ThreadKind {
    /// Runs a task.
    Task(TaskIndex),
    /// Works for a task: flushes its output, fetches its input, takes its snapshots. It is scheduled with the
    /// task (note 3 of the paper).
    Helper(TaskIndex),
    /// Works for the engine: collects garbage, compiles, serves metrics. It is never put behind tasks.
    Engine,
}

/// A thread of this machine. The kernel uses numbers again, so the times at which process and thread started
/// belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ThreadId {
    /// The process.
    pub pid: u32,
    /// When the process started, in clock ticks after the machine's boot.
    pub process_start: u64,
    /// The thread.
    pub tid: u32,
    /// When the thread started, in the same unit.
    pub start: u64,
}

impl Graph {
    /// The threads of each task, its helpers included, by the task's place.
    pub fn threads_of_tasks(&self) -> Vec<Vec<ThreadId>> {
        let mut of_tasks = vec![Vec::new(); self.tasks.len()];
        for thread in &self.threads {
            if let ThreadKind::Task(TaskIndex(task)) | ThreadKind::Helper(TaskIndex(task)) = thread.kind {
                of_tasks[task].push(thread.id);
            }
        }
        of_tasks
    }

    /// The name of a task with that of its query: unique within a target.
    pub fn full_name(&self, task: TaskIndex) -> String {
        let task = &self.tasks[task.0];
        format!("{}/{}", self.queries[task.query.0].name, task.name)
    }
}

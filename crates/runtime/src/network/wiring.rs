//! The channels of the tasks of one incarnation at one worker: inboxes of the tasks that are here, and
//! senders to tasks here and at other workers.
//!
//! All workers number the channels between two of them alike, because they derive the numbers from the same
//! plan and placement.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use anabranch_dataflow::{Exchange, ExchangeKind, Plan, Port};
use anabranch_model::{Clock, Envelope, Error, Incarnation, Result, StageId, TaskId};

use crate::network::{
    Deliver, Endpoint, Expected, Hello, IncomingChannel, Links, OutgoingChannel, Peer, Permit, Question, Registration,
    Registry, WorkerId,
};
use crate::task::exchange::{ChannelSender, LocalChannel};
use crate::task::inbox::Inbox;
use crate::task::stages::tasks_of;
use crate::task::threads::no_thread;

/// This number of channels of a task hold `channel-bytes` each. If a task has more, they share that total.
const FULL_CHANNELS: usize = 4;

/// The channels of one incarnation at one worker. Dropping it ends its connections.
pub struct Wiring {
    /// By receiving stage and port.
    entries: BTreeMap<(StageId, Option<usize>), PortInboxes>,
    /// Channels to tasks of other workers: the worker, and the channel's number on the connection.
    remote: BTreeMap<Between, (WorkerId, u32)>,
    /// `None`: all tasks are here.
    links: Option<(Arc<Links>, Registration)>,
}

/// The inboxes of a stage's tasks for one port.
struct PortInboxes {
    /// `None`: the task is at another worker.
    inboxes: Vec<Option<Arc<Inbox>>>,
    /// Channels of each task.
    channels: usize,
    /// For each channel, the number of the input that its rows belong to.
    inputs: Vec<usize>,
    /// Limit of the bytes of each channel.
    capacity: usize,
    /// The first channel of each sending stage.
    first_channel: BTreeMap<StageId, usize>,
}

/// A channel: the port of the receiving stage, the sending task and the receiving task.
type Between = (Option<usize>, TaskId, TaskId);

/// The receiving task of each channel of a connection, and the index of the channel in its inbox.
struct Receivers {
    from: WorkerId,
    channels: Vec<(Arc<Inbox>, usize)>,
    clock: Arc<dyn Clock>,
}

/// The tasks of one incarnation, and where they are.
pub struct Placed {
    /// The job, and its incarnation.
    pub life: (u64, Incarnation),
    /// The plan.
    pub plan: Arc<Plan>,
    /// Where each task is.
    pub placement: BTreeMap<TaskId, WorkerId>,
    /// Where each worker listens.
    pub peers: BTreeMap<WorkerId, Peer>,
}

/// Gets the channels once they are connected, or the error.
pub type Connected = Box<dyn FnOnce(Result<Wiring>) + Send>;

/// How a worker reaches the others: by sockets, or through a simulator.
pub trait Network: Send + Sync {
    /// The worker.
    fn worker(&self) -> WorkerId;

    /// Where others reach it.
    fn peer(&self) -> Peer;

    /// Begins to connect the tasks of an incarnation with those at other workers, and calls `connected` when
    /// they are connected or have failed.
    fn connect(self: Arc<Self>, placed: Placed, connected: Connected);

    /// Ends the present and future connections of an incarnation.
    fn cancel(&self, job: u64, incarnation: Incarnation);
}

impl Network for Endpoint {
    fn worker(&self) -> WorkerId {
        Endpoint::worker(self)
    }

    fn peer(&self) -> Peer {
        Endpoint::peer(self)
    }

    fn connect(self: Arc<Self>, placed: Placed, connected: Connected) {
        // The callback stays available if no thread can be started.
        let waiting = Arc::new(Mutex::new(Some(connected)));
        let connected = Arc::clone(&waiting);
        let end = |waiting: &Mutex<Option<Connected>>, wiring: Result<Wiring>| {
            let connected = waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(connected) = connected {
                connected(wiring);
            }
        };
        let connect = move || {
            let Placed { life, plan, placement, peers } = placed;
            end(&connected, Wiring::connect(&plan, life, &placement, &peers, &self));
        };
        if let Err(error) = std::thread::Builder::new().name("connect".into()).spawn(connect) {
            end(&waiting, Err(no_thread(&error)));
        }
    }

    fn cancel(&self, job: u64, incarnation: Incarnation) {
        Endpoint::cancel(self, job, incarnation);
    }
}

impl Wiring {
    /// For a process with all tasks of a plan.
    pub fn local(plan: &Plan) -> Result<Wiring> {
        Ok(Wiring { entries: entries(plan, |_| true)?, remote: BTreeMap::new(), links: None })
    }

    /// Connects the tasks of this worker with those of others, which do the same: in any order, within a time
    /// limit. `placement` has the worker of each task, `peers` the address of each worker. A newer
    /// incarnation of the job at this worker ends the connections of the older one.
    pub fn connect(
        plan: &Plan,
        (job, incarnation): (u64, Incarnation),
        placement: &BTreeMap<TaskId, WorkerId>,
        peers: &BTreeMap<WorkerId, Peer>,
        endpoint: &Endpoint,
    ) -> Result<Wiring> {
        let registry = endpoint.registry();
        let (wiring, hellos) = Wiring::begin(plan, (job, incarnation), placement, registry)?;
        let Some((links, _)) = &wiring.links else { return Ok(wiring) };
        let deadline = registry.clock.now().plus(registry.patience.connect_max);
        for hello in &hellos {
            let peer = peer_of(peers, hello.to)?;
            endpoint.check(peer).map_err(|error| error.at(hello.to.to_string()))?;
            links.connect(hello, peer, &registry.token, deadline)?;
        }
        links.wait(deadline)?;
        Ok(wiring)
    }

    /// Begins to connect: other workers may connect from now on, and this one must connect to the peers of
    /// the returned messages.
    pub(crate) fn begin(
        plan: &Plan,
        (job, incarnation): (u64, Incarnation),
        placement: &BTreeMap<TaskId, WorkerId>,
        registry: &Arc<Registry>,
    ) -> Result<(Wiring, Vec<Hello>)> {
        let me = registry.me;
        let unplaced = plan.stages.iter().flat_map(tasks_of).find(|task| !placement.contains_key(task));
        if let Some(task) = unplaced {
            return Err(Error::internal(format!("{} task {} is at no worker", task.stage, task.index)));
        }
        let entries = entries(plan, |task| placement.get(&task) == Some(&me))?;
        let connections = connections(plan, placement);
        let (mut expected, mut remote, mut hellos) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for ((from, to), channels) in connections {
            if to == me {
                expected.insert(from, receivers(plan, &entries, from, &channels, &registry.clock)?);
            } else if from == me {
                hellos.push(Hello { job, incarnation, from, to, channels: channels.len() as u32 });
                remote.extend((0..).zip(channels).map(|(number, channel)| (channel, (to, number))));
            }
        }
        let (links, registration) = registry.register((job, incarnation), expected)?;
        Ok((Wiring { entries, remote, links: Some((links, registration)) }, hellos))
    }

    /// The connections that this worker has with others.
    pub(crate) fn links(&self) -> Option<&Arc<Links>> {
        self.links.as_ref().map(|(links, _)| links)
    }

    /// The inboxes of the tasks that are here.
    pub(crate) fn inboxes(&self) -> impl Iterator<Item = &Arc<Inbox>> {
        self.entries.values().flat_map(|entry| &entry.inboxes).flatten()
    }

    /// The inbox of a task for a port, and its number of channels. `None`: no channel leads there, or the
    /// task is not here.
    pub(crate) fn inbox(&self, task: TaskId, port: Port) -> Option<(Arc<Inbox>, usize)> {
        self.entries.get(&(task.stage, port_key(port)))?.inbox(task)
    }

    /// For each channel of a stage's inbox, the number of the input that its rows belong to.
    pub(crate) fn inputs(&self, stage: StageId) -> Vec<usize> {
        self.entries.get(&(stage, None)).map_or_else(Vec::new, |entry| entry.inputs.clone())
    }

    /// The inboxes of a task's static sides, each with the index of its operator and its number of channels.
    pub(crate) fn sides(&self, task: TaskId) -> impl Iterator<Item = (usize, Arc<Inbox>, usize)> {
        let of_stage = self.entries.range((task.stage, Some(0))..).take_while(move |((to, _), _)| *to == task.stage);
        of_stage.filter_map(move |((_, port), entry)| {
            let (inbox, channels) = entry.inbox(task)?;
            Some(((*port)?, inbox, channels))
        })
    }

    /// The sending ends of a task's channels to all of its receivers, in their order.
    pub(crate) fn senders(&self, exchange: &Exchange, from: TaskId) -> Result<Vec<Box<dyn ChannelSender>>> {
        let port = port_key(exchange.port);
        let entry = self.entries.get(&(exchange.to, port));
        let entry = entry.ok_or_else(|| Error::internal("an exchange without receiver"))?;
        let sender = |to: TaskId| -> Result<Box<dyn ChannelSender>> {
            if let Some((inbox, _)) = entry.inbox(to) {
                return Ok(Box::new(LocalChannel { inbox, channel: entry.channel(exchange, from)? }));
            }
            Ok(Box::new(self.outgoing((port, from, to), entry.capacity)?))
        };
        receivers_of(exchange, from, entry.inboxes.len()).map(sender).collect()
    }

    fn outgoing(&self, channel: Between, capacity: usize) -> Result<OutgoingChannel> {
        let place = self.remote.get(&channel);
        let channel =
            place.zip(self.links.as_ref()).map(|((to, number), (links, _))| links.channel(*to, *number, capacity));
        channel.ok_or_else(|| Error::internal("no connection leads to a task that is not here"))?
    }

    /// Ends the connections now. Tasks that wait for their peers end with an error.
    pub fn close(&self) {
        if let Some((links, _)) = &self.links {
            links.close();
        }
    }

    /// Called when all tasks here have ended: waits until the other workers have received everything.
    pub fn finish(&self) -> Result<()> {
        self.links.as_ref().map_or(Ok(()), |(links, _)| links.finish())
    }
}

impl Drop for Wiring {
    fn drop(&mut self) {
        self.close();
    }
}

impl PortInboxes {
    fn inbox(&self, task: TaskId) -> Option<(Arc<Inbox>, usize)> {
        let inbox = self.inboxes.get(task.index as usize)?.as_ref()?;
        Some((Arc::clone(inbox), self.channels))
    }

    /// The index of the channel from a task in the inbox of each receiver.
    fn channel(&self, exchange: &Exchange, from: TaskId) -> Result<usize> {
        let first = self.first_channel.get(&exchange.from);
        let first = first.ok_or_else(|| Error::internal("an exchange without channels"))?;
        Ok(match exchange.kind {
            ExchangeKind::Forward => *first,
            _ => first + from.index as usize,
        })
    }
}

impl Deliver for Receivers {
    fn envelope(&self, channel: usize, envelope: Envelope, permit: Permit) {
        let (inbox, channel) = &self.channels[channel];
        inbox.deliver(*channel, envelope, permit, self.clock.as_ref());
    }

    fn question(&self, channel: usize, question: Question) {
        let (inbox, channel) = &self.channels[channel];
        inbox.ask(*channel, question);
    }

    fn ended(&self, outcome: &dyn Fn() -> Result<()>) {
        let early =
            || Error::outside("it has ended the connection before its tasks have ended").at(self.from.to_string());
        for (inbox, channel) in &self.channels {
            inbox.fail(*channel, outcome().err().unwrap_or_else(early));
        }
    }
}

/// Where a worker listens.
pub(crate) fn peer_of(peers: &BTreeMap<WorkerId, Peer>, worker: WorkerId) -> Result<&Peer> {
    peers.get(&worker).ok_or_else(|| Error::internal(format!("the address of {worker} is unknown")))
}

fn port_key(port: Port) -> Option<usize> {
    match port {
        Port::Main | Port::Second | Port::Further(_) => None,
        Port::Side(operator) => Some(operator),
    }
}

/// The tasks that a task sends to, in a stage of `tasks` tasks.
fn receivers_of(exchange: &Exchange, from: TaskId, tasks: usize) -> impl Iterator<Item = TaskId> + use<> {
    let (stage, only) = (exchange.to, (exchange.kind == ExchangeKind::Forward).then_some(from.index));
    let tasks = (0..tasks as u32).map(move |index| TaskId { stage, index });
    tasks.filter(move |to| only.is_none_or(|only| to.index == only))
}

/// Number of channels from an exchange to one receiving task.
fn channels_of(plan: &Plan, exchange: &Exchange) -> Result<usize> {
    let (from, to) = (plan.stage(exchange.from).parallelism, plan.stage(exchange.to).parallelism);
    match exchange.kind {
        ExchangeKind::Forward if from != to => {
            Err(Error::internal("a forward exchange between stages of different parallelism"))
        }
        ExchangeKind::Forward => Ok(1),
        _ => Ok(from as usize),
    }
}

/// The limit of each of a task's channels. With a constant limit, the channels between two stages would take
/// memory quadratic in their parallelism.
fn channel_capacity(channel_bytes: usize, channels: usize) -> usize {
    channel_bytes / channels.div_ceil(FULL_CHANNELS).max(1)
}

fn entries(plan: &Plan, is_here: impl Fn(TaskId) -> bool) -> Result<BTreeMap<(StageId, Option<usize>), PortInboxes>> {
    let mut entries: BTreeMap<(StageId, Option<usize>), PortInboxes> = BTreeMap::new();
    for exchange in &plan.exchanges {
        let key = (exchange.to, port_key(exchange.port));
        let none = PortInboxes {
            inboxes: Vec::new(),
            channels: 0,
            inputs: Vec::new(),
            capacity: 0,
            first_channel: BTreeMap::new(),
        };
        let entry = entries.entry(key).or_insert(none);
        entry.first_channel.insert(exchange.from, entry.channels);
        entry.channels += channels_of(plan, exchange)?;
        entry.inputs.resize(entry.channels, exchange.port.input().unwrap_or_default());
    }
    for ((to, _), entry) in &mut entries {
        entry.capacity = channel_capacity(plan.options.channel_bytes, entry.channels);
        let inbox = |task| is_here(task).then(|| Arc::new(Inbox::new(entry.channels, entry.capacity)));
        entry.inboxes = tasks_of(plan.stage(*to)).map(inbox).collect();
    }
    Ok(entries)
}

/// The channels between workers, by sending and receiving worker, in the order of their numbers.
fn connections(plan: &Plan, placement: &BTreeMap<TaskId, WorkerId>) -> BTreeMap<(WorkerId, WorkerId), Vec<Between>> {
    let mut connections: BTreeMap<(WorkerId, WorkerId), Vec<Between>> = BTreeMap::new();
    for exchange in &plan.exchanges {
        let receivers = plan.stage(exchange.to).parallelism as usize;
        for from in tasks_of(plan.stage(exchange.from)) {
            for to in receivers_of(exchange, from, receivers) {
                match (placement.get(&from), placement.get(&to)) {
                    (Some(sender), Some(receiver)) if sender != receiver => {
                        let channel = (port_key(exchange.port), from, to);
                        connections.entry((*sender, *receiver)).or_default().push(channel);
                    }
                    _ => {}
                }
            }
        }
    }
    connections
}

/// The inboxes for the channels from another worker.
fn receivers(
    plan: &Plan,
    entries: &BTreeMap<(StageId, Option<usize>), PortInboxes>,
    from: WorkerId,
    channels: &[Between],
    clock: &Arc<dyn Clock>,
) -> Result<Expected> {
    let mut receivers = Receivers { from, channels: Vec::new(), clock: Arc::clone(clock) };
    let mut incoming = Vec::new();
    for (port, sender, receiver) in channels {
        let exchange = plan.outputs(sender.stage).find(|e| e.to == receiver.stage && port_key(e.port) == *port);
        let found = exchange.zip(entries.get(&(receiver.stage, *port)));
        let found = found.and_then(|(exchange, entry)| Some((exchange, entry, entry.inbox(*receiver)?.0)));
        let (exchange, entry, inbox) = found.ok_or_else(|| Error::internal("a channel without receiver"))?;
        receivers.channels.push((inbox, entry.channel(exchange, *sender)?));
        let schema = Arc::clone(&plan.stage(sender.stage).schema);
        incoming.push(IncomingChannel { schema, limit: entry.capacity as u64 });
    }
    Ok(Expected { channels: incoming, deliver: Arc::new(receivers) })
}

#[cfg(test)]
mod tests;

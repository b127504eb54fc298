//! Errors of positions whose records are gone: the topic was deleted, was created anew, or has lost records.
//! Each remedy tells the user how to read all existing records.

use anabranch_model::Error;

use super::places::Bound;
use super::table::Table;

impl Table {
    /// Whether a topic that was created anew is read from its beginning, in addition to the rows of the
    /// former one. Versions and changes of rows are not: the state has the rows of the former topic.
    pub(super) fn reads_renewed(&self) -> bool {
        self.subscription.pattern().is_some() && !self.updates
    }

    /// The error if a topic has another identity than the one that the job has read.
    pub(super) fn renewed(&self, topic: &str) -> Error {
        let what = format!("topic '{topic}' at {} was deleted and created again", self.servers);
        if self.reads_renewed() {
            return Error::outside(what).remedy("restart the job: it reads the new topic from its beginning");
        }
        Error::user(format!("{what}, so the job's positions are not those of its records")).remedy(self.anew())
    }

    /// The error if a topic that the job reads does not exist any more.
    pub(super) fn gone(&self, topic: &str) -> Error {
        let error = Error::outside(format!("topic '{topic}' does not exist any more at {}", self.servers));
        error.remedy(self.remedy_of_gone())
    }

    /// The remedy for a deleted topic.
    pub(super) fn remedy_of_gone(&self) -> String {
        match self.subscription.pattern() {
            Some(_) => "restart the job: it continues with the existing topics".to_owned(),
            None => format!("create it again. Then {}", self.anew()),
        }
    }

    /// The error if a position is outside of a partition's log, which is given by its first offset and the
    /// one after its last.
    pub(super) fn out_of_range(&self, next: i64, log: Option<(i64, i64)>) -> Error {
        match log {
            Some((first, _)) if next >= 0 && next < first => Error::user(format!(
                "cannot be read any further: the records before offset {first} were deleted, and the job is at {next}"
            ))
            .remedy(
                "if that was the topic's retention, set 'properties.auto.offset.reset' = 'earliest' to continue at the first available record",
            ),
            Some((_, end)) if next > end => Error::user(format!(
                "cannot be read any further: the job is at offset {next}, but the log ends at {end}: it has lost records"
            ))
            .remedy(self.without_checkpoints()),
            _ => Error::outside(format!("cannot be read any further: offset {next} does not exist")),
        }
    }

    /// How to read a topic that was created anew.
    fn anew(&self) -> String {
        let is_specific = |bound: Option<&Bound>| matches!(bound, Some(Bound::Specific(_)));
        let names_topics = self.subscription.pattern().is_none();
        if !names_topics || self.updates || is_specific(Some(&self.startup)) || is_specific(self.end.as_ref()) {
            return self.without_checkpoints();
        }
        format!(
            "to read the new topic from its beginning and keep the job's state, write 'topic-pattern' = '{}' in place of 'topic'; or {}",
            self.subscription.as_pattern(),
            self.without_checkpoints()
        )
    }

    fn without_checkpoints(&self) -> String {
        let mode = match self.startup {
            Bound::Earliest => "",
            _ => " and with 'scan.startup.mode' = 'earliest-offset'",
        };
        format!("start the job without its checkpoints{mode}: it reads all existing records")
    }
}

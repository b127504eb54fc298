//! `anabranch state`: the contents of checkpoints and savepoints, without running the job.

mod overview;
mod rows;

use anabranch_model::{Clock, Error, OperatorKind, Result, SystemClock};
use anabranch_server::{StateRows, read_state};
use anabranch_state::{Access, Contents, Manifest, Store};

use crate::arguments::{self, Format};
use crate::console::Console;
use crate::failure::Failure;

/// Number of attempts when the running job has removed the checkpoint that is being read.
const LOOKS: usize = 5;

/// State in numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Size {
    pub(crate) files: usize,
    pub(crate) rows: u64,
    pub(crate) bytes: u64,
}

/// The state of all operators.
pub(crate) fn size(manifest: &Manifest) -> Size {
    size_of(manifest, |_| true)
}

/// The state of these operators.
fn size_of(manifest: &Manifest, wanted: impl Fn(u32) -> bool) -> Size {
    manifest.state_files(wanted).fold(Size::default(), |size, file| Size {
        files: size.files + 1,
        rows: size.rows + file.rows,
        bytes: size.bytes + file.blob.bytes,
    })
}

pub(crate) fn state(arguments: &arguments::State) -> Result<(), Failure> {
    let store = Store::open_existing(&arguments.place, &Access::from_environment()).map_err(Failure::request)?;
    let contents = Contents::read(&store).map_err(Failure::request)?;
    let mut output = Console::output();
    let Some(operator) = arguments.operator else {
        let now_ms = SystemClock::new().wall_ms();
        let text = match arguments.format {
            Format::Table => overview::text(store.place(), &contents, now_ms)?,
            Format::Json => overview::json(store.place(), &contents)?,
            Format::Csv => {
                let error = Error::user("without an operator there is no table that could be shown as CSV");
                return Err(Failure::request(error.remedy("name one with --operator, or use --format json")));
            }
        };
        return Ok(output.line(text.trim_end())?);
    };
    let manifest = &contents.newest()?.manifest;
    check_operator(manifest, operator).map_err(Failure::request)?;
    let wanted = StateRows { operator, keys: &arguments.keys, limit: arguments.limit };
    let mut found = read_state(&store, manifest, &wanted);
    for _ in 1..LOOKS {
        if found.is_ok() {
            break;
        }
        let newer = Contents::read(&store)?;
        if newer.newest()?.manifest == *manifest {
            break;
        }
        found = read_state(&store, &newer.newest()?.manifest, &wanted);
    }
    let found = found.map_err(Failure::request)?;
    rows::write(&found, arguments.format, &mut output)?;
    let mut notes = Console::error();
    found.notes().iter().try_for_each(|note| notes.line(&format!("note: {note}")))?;
    Ok(())
}

fn check_operator(manifest: &Manifest, number: u32) -> Result<()> {
    let states = || manifest.parts.iter().filter(|part| part.id.kind == OperatorKind::State);
    if states().any(|part| part.id.number == number) {
        return Ok(());
    }
    let states: Vec<String> = states().map(|part| format!("{}: {}", part.id.number, part.key)).collect();
    let remedy = match states.as_slice() {
        [] => "its query keeps no state".to_owned(),
        states => format!("those with state are: {}", states.join("; ")),
    };
    Err(Error::user(format!("the job has no operator {number} with state")).remedy(remedy))
}

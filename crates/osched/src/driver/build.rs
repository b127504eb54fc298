//! The driver of a configured target, and which engine answers at an address.

use std::sync::Arc;
use std::time::Duration;

use anabranch_model::{Error, Result, SystemClock};
use serde_json::Value;

use super::Driver;
use super::anabranch::Anabranch;
use super::flink::{Flink, FlinkOptions, is_flink};
use super::local::ThisMachine;
use super::process::{OtherProcess, ProcessOptions};
use super::storm::{Storm, StormOptions};
use crate::config::{Engine, Target};
use crate::http::{Http, HttpOptions};
use crate::kernel::Proc;

/// Time for an answer of this engine: what is later is about queues that are no longer there.
const DEADLINE: Duration = Duration::from_secs(2);

/// The driver of a target. Errors: a file cannot be read, a pattern is wrong, a port is taken.
pub fn of(target: &Target) -> Result<Box<dyn Driver>> {
    let place = |error: Error| error.at(format!("target '{}'", target.name));
    build(target).map_err(place)
}

fn build(target: &Target) -> Result<Box<dyn Driver>> {
    let url = || target.url.clone().unwrap_or_default().trim_end_matches('/').to_owned();
    let http = || HttpOptions { authority: target.tls_ca.clone(), ..HttpOptions::default() };
    let clock = || Arc::new(SystemClock::new());
    let machine = || Ok::<_, Error>(Box::new(ThisMachine::new(Proc::new()?, clock())));
    Ok(match target.engine {
        Engine::Anabranch => {
            let http = Http::new(HttpOptions { token: token(target)?, deadline: DEADLINE, ..http() })?;
            let (url, kernel) = (url(), Proc::new()?);
            let get = move |path: &str| http.get_json::<Value>(&format!("{url}{path}"));
            // A process that has ended has no threads.
            let threads_of = move |pid| kernel.threads(pid).unwrap_or_default().into_iter();
            let threads_of = move |pid| threads_of(pid).map(|thread| (thread.id, thread.name)).collect();
            Box::new(Anabranch::new(Box::new(get), Box::new(threads_of)))
        }
        Engine::Flink => {
            let options = FlinkOptions { url: url(), metrics: target.metrics.clone(), http: http() };
            Box::new(Flink::new(options, machine()?)?)
        }
        Engine::Storm => {
            let graphite = target.graphite.ok_or_else(|| Error::internal("a target of Storm without a port"))?;
            let process = target.process.clone().unwrap_or_default();
            let inputs = target.inputs.clone();
            Box::new(Storm::new(StormOptions { graphite, process, inputs }, machine()?)?)
        }
        Engine::Process => {
            let (process, threads) = (target.process.clone().unwrap_or_default(), target.threads.clone());
            let options = ProcessOptions { process, threads, inputs: target.inputs.clone() };
            Box::new(OtherProcess::new(options, machine()?)?)
        }
    })
}

/// The secret of an interface, if its file is given.
fn token(target: &Target) -> Result<Option<String>> {
    let Some(path) = &target.token_file else { return Ok(None) };
    let text = std::fs::read_to_string(path).map_err(|error| {
        let error = Error::user(format!("cannot read the token: {error}")).at(path.display().to_string());
        error.remedy("give a file that this user may read")
    })?;
    Ok(Some(text.trim().to_owned()))
}

/// Which engine serves its interface at an address.
pub fn recognize(url: &str) -> Result<Engine> {
    let http = Http::new(HttpOptions::default())?;
    let address = url.trim_end_matches('/');
    let anabranch = http.get_json::<Value>(&format!("{address}/api/v1/jobs"));
    if anabranch.as_ref().is_ok_and(|jobs| jobs["jobs"].is_array()) {
        return Ok(Engine::Anabranch);
    }
    if is_flink(&http, address).is_ok() {
        return Ok(Engine::Flink);
    }
    match anabranch {
        Err(error) => Err(error),
        Ok(_) => Err(Error::user("neither Anabranch nor Flink answers there").at(url).remedy(
            "give the address of the engine's REST interface; for Storm and others write an osched.toml (docs/osched.md)",
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    fn target(lines: &str) -> Target {
        let text = format!("[[target]]\nname = \"t\"\n{lines}\n[[policy]]\npriority = \"drain\"\n");
        Config::parse(&text).expect("a configuration").targets.remove(0)
    }

    #[test]
    fn the_file_of_an_authority_is_read() {
        for engine in ["anabranch", "flink"] {
            let lines = format!("engine = \"{engine}\"\nurl = \"https://h:1\"\ntls-ca = \"/does/not/exist.pem\"");
            let error = of(&target(&lines)).err().expect("refused").to_string();
            assert!(error.contains("/does/not/exist.pem") && error.contains("target 't'"), "{error}");
        }
    }

    #[test]
    fn inputs_reach_the_driver() {
        let mut child = std::process::Command::new("sleep").arg("600.25").spawn().expect("sleep");
        let lines = format!("engine = \"process\"\nprocess = \"{}\"\ninputs.second = [\"first\"]", child.id());
        let mut driver = of(&target(&lines)).expect("a driver");
        let looked = driver.look();
        child.kill().and_then(|()| child.wait()).expect("ended");
        looked.expect("a process");
        let advice = driver.advice().join("\n");
        assert!(advice.contains("'first' of 'inputs'") && advice.contains("'second' of 'inputs'"), "{advice}");
    }
}

//! Metrics and spans as the JSON documents of OTLP.

use anabranch_model::Nanos;
use serde_json::{Map, Value, json};

use super::{Destination, Span};
use crate::http::{Family, Kind, Sample};

/// Counters are since the start of what counts.
const CUMULATIVE: u64 = 2;
/// A span within a process.
const INTERNAL: u64 = 1;
/// The status of a span that failed.
const ERROR: u64 = 2;

/// What all documents say of this process.
pub(super) struct Resource(Value);

impl Resource {
    pub(super) fn new(destination: &Destination) -> Resource {
        let Destination { role, instance, .. } = destination;
        let attributes = [
            ("service.name", "anabranch".into()),
            ("service.version", env!("CARGO_PKG_VERSION").into()),
            ("service.instance.id", Value::from(instance.as_str())),
            ("process.pid", std::process::id().into()),
            ("anabranch.role", Value::from(*role)),
        ];
        let attributes = attributes.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
        Resource(json!({ "attributes": pairs(&attributes) }))
    }

    /// The request of `/v1/metrics`.
    pub(super) fn metrics(&self, families: &[Family], now_ms: i64) -> Value {
        let time = nanos(now_ms);
        let metrics: Vec<Value> = families.iter().flat_map(|family| metrics_of(family, &time)).collect();
        json!({ "resourceMetrics": [{ "resource": self.0, "scopeMetrics": [{ "scope": scope(), "metrics": metrics }] }] })
    }

    /// The request of `/v1/traces`. `ids` gives the numbers of a trace and of its only span.
    pub(super) fn spans(&self, spans: &[Span], ids: impl Fn() -> (u128, u64)) -> Value {
        let spans: Vec<Value> = spans.iter().map(|span| span_of(span, ids())).collect();
        json!({ "resourceSpans": [{ "resource": self.0, "scopeSpans": [{ "scope": scope(), "spans": spans }] }] })
    }
}

fn scope() -> Value {
    json!({ "name": "anabranch", "version": env!("CARGO_PKG_VERSION") })
}

/// A summary becomes a gauge of its quantiles and a counter of its values.
fn metrics_of(Family { name, kind, help, samples }: &Family, time: &str) -> Vec<Value> {
    let points = |is_count: bool| -> Vec<Value> {
        let of = samples.iter().filter(|sample| sample.is_count == is_count);
        of.map(|sample| point(sample, time)).collect()
    };
    let sum = |name: &str, points: Vec<Value>| {
        let sum = json!({ "aggregationTemporality": CUMULATIVE, "isMonotonic": true, "dataPoints": points });
        json!({ "name": name, "description": help, "sum": sum })
    };
    let gauge = |points: Vec<Value>| json!({ "name": name, "description": help, "gauge": { "dataPoints": points } });
    match kind {
        Kind::Counter => vec![sum(name, points(false))],
        Kind::Gauge => vec![gauge(points(false))],
        Kind::Summary => {
            let (quantiles, counts) = (points(false), points(true));
            let quantiles = (!quantiles.is_empty()).then(|| gauge(quantiles));
            quantiles.into_iter().chain([sum(&format!("{name}_count"), counts)]).collect()
        }
    }
}

fn point(Sample { labels, value, .. }: &Sample, time: &str) -> Value {
    let labels = labels.iter().map(|(name, value)| ((*name).to_owned(), Value::from(value.as_str()))).collect();
    json!({ "attributes": pairs(&labels), "timeUnixNano": time, "asDouble": value })
}

fn span_of(span: &Span, (trace, id): (u128, u64)) -> Value {
    let Span { name, ended_ms, took, failed, attributes } = span;
    let end = Nanos(u64::try_from(*ended_ms).unwrap_or(0).saturating_mul(1_000_000));
    let took_ns = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
    // Numbers of zeros only are not valid.
    let (trace, id) = (format!("{:032x}", trace.max(1)), format!("{:016x}", id.max(1)));
    json!({
        "traceId": trace,
        "spanId": id,
        "name": name,
        "kind": INTERNAL,
        "startTimeUnixNano": end.0.saturating_sub(took_ns).to_string(),
        "endTimeUnixNano": end.0.to_string(),
        "attributes": pairs(attributes),
        "status": if *failed { json!({ "code": ERROR }) } else { json!({}) },
    })
}

fn nanos(ms: i64) -> String {
    format!("{}000000", ms.max(0))
}

/// Names and values. Numbers of 64 bits are texts in JSON.
fn pairs(attributes: &Map<String, Value>) -> Vec<Value> {
    let typed = |value: &Value| match value {
        Value::Bool(value) => json!({ "boolValue": value }),
        Value::Number(number) if number.is_f64() => json!({ "doubleValue": number }),
        Value::Number(number) => json!({ "intValue": number.to_string() }),
        Value::String(text) => json!({ "stringValue": text }),
        other => json!({ "stringValue": other.to_string() }),
    };
    attributes.iter().map(|(key, value)| json!({ "key": key, "value": typed(value) })).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn resource() -> Resource {
        let (url, interval) = (String::new(), Duration::ZERO);
        Resource::new(&Destination { url, interval, role: "run", instance: "here".into() })
    }

    fn sample(is_count: bool, label: &str, value: f64) -> Sample {
        Sample { is_count, labels: vec![("job", label.to_owned())], value }
    }

    #[test]
    fn a_summary_is_a_gauge_and_a_counter() {
        let samples = vec![sample(false, "a", 0.5), sample(true, "a", 7.0)];
        let families = [
            Family { name: "n_total", kind: Kind::Counter, help: "rows", samples: vec![sample(false, "a", 3.0)] },
            Family { name: "l_seconds", kind: Kind::Summary, help: "time", samples },
        ];
        let document = resource().metrics(&families, 1_700_000_000_123);
        let metrics = &document["resourceMetrics"][0]["scopeMetrics"][0]["metrics"];
        let attributes = json!([{ "key": "job", "value": { "stringValue": "a" } }]);
        let point =
            |value: f64| json!({ "attributes": attributes, "timeUnixNano": "1700000000123000000", "asDouble": value });
        let sum = |value| json!({ "aggregationTemporality": 2, "isMonotonic": true, "dataPoints": [point(value)] });
        let expected = json!([
            { "name": "n_total", "description": "rows", "sum": sum(3.0) },
            { "name": "l_seconds", "description": "time", "gauge": { "dataPoints": [point(0.5)] } },
            { "name": "l_seconds_count", "description": "time", "sum": sum(7.0) },
        ]);
        assert_eq!(*metrics, expected);
    }

    #[test]
    fn a_span_has_its_times_and_typed_attributes() {
        let attributes = json!({ "job": "ads", "epoch": 7, "took_ms": 1.5, "last": true });
        let attributes = attributes.as_object().expect("an object").clone();
        let (ended_ms, took) = (1_000, Duration::from_micros(1_500));
        let span = Span { name: "checkpoint", ended_ms, took, failed: true, attributes };
        let document = resource().spans(&[span], || (0, 0xab));
        let expected = json!({
            "traceId": "00000000000000000000000000000001",
            "spanId": "00000000000000ab",
            "name": "checkpoint",
            "kind": 1,
            "startTimeUnixNano": "998500000",
            "endTimeUnixNano": "1000000000",
            "attributes": [
                { "key": "epoch", "value": { "intValue": "7" } },
                { "key": "job", "value": { "stringValue": "ads" } },
                { "key": "last", "value": { "boolValue": true } },
                { "key": "took_ms", "value": { "doubleValue": 1.5 } },
            ],
            "status": { "code": 2 },
        });
        assert_eq!(document["resourceSpans"][0]["scopeSpans"][0]["spans"][0], expected);
        let of = document["resourceSpans"][0]["resource"]["attributes"].as_array().expect("attributes");
        assert!(of.contains(&json!({ "key": "service.name", "value": { "stringValue": "anabranch" } })), "{of:?}");
    }
}

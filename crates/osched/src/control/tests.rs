use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::mpsc::Receiver;

use super::*;

fn start() -> (Control, Receiver<Asked>) {
    let status = Status { writes: 7, ..Status::default() };
    let (orders, asked) = channel();
    let address = "127.0.0.1:0".parse().expect("an address");
    (Control::start(address, Arc::new(Mutex::new(status)), orders).expect("a server"), asked)
}

fn ask(control: &Control, request: &str) -> String {
    let mut stream = TcpStream::connect(control.address()).expect("connected");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a limit");
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn get(control: &Control, path: &str, host: &str) -> String {
    ask(control, &format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"))
}

fn post(control: &Control, path: &str, kind: &str, body: &str) -> String {
    let length = body.len();
    ask(
        control,
        &format!(
            "POST {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\r\n{body}"
        ),
    )
}

#[test]
fn the_status_is_served_as_json_and_for_prometheus() {
    let (control, _asked) = start();
    assert!(get(&control, "/api/v1/osched", "127.0.0.1:1").contains("\"writes\":7"));
    assert!(get(&control, "/metrics", "localhost").contains("anabranch_osched_writes_total 7"));
    let missing = get(&control, "/other", "localhost");
    assert!(missing.starts_with("HTTP/1.1 404") && missing.contains("GET /api/v1/osched"), "{missing}");
}

#[test]
fn orders_go_to_the_loop_and_its_answer_comes_back() {
    let (control, asked) = start();
    let carry_out = std::thread::Builder::new().name("loop".into()).spawn(move || {
        let Asked { order, answer } = asked.recv().expect("an order");
        assert!(matches!(order, Order::Switch { policy, priority } if (policy.as_str(), priority.as_str()) == ("p", "drain")));
        answer.send(Ok(())).expect("taken");
        let Asked { order, answer } = asked.recv().expect("an order");
        assert!(matches!(order, Order::Pause(true)));
        answer.send(Err(Error::user("not now").remedy("later"))).expect("taken");
    });
    let json = "application/json";
    let body = "{\"policy\": \"p\", \"priority\": \"drain\"}";
    assert!(post(&control, "/api/v1/osched/switch", json, body).starts_with("HTTP/1.1 200"));
    let refused = post(&control, "/api/v1/osched/pause", json, "{\"paused\": true}");
    assert!(refused.starts_with("HTTP/1.1 400") && refused.contains("not now"), "{refused}");
    carry_out.expect("a thread").join().expect("no panic");
    let gone = post(&control, "/api/v1/osched/pause", json, "{\"paused\": true}");
    assert!(gone.starts_with("HTTP/1.1 503"), "{gone}");
}

#[test]
fn pages_of_browsers_and_other_machines_are_refused() {
    let (control, _asked) = start();
    assert!(get(&control, "/api/v1/osched", "evil.example").starts_with("HTTP/1.1 403"));
    let form = post(&control, "/api/v1/osched/pause", "text/plain", "{\"paused\": true}");
    assert!(form.starts_with("HTTP/1.1 400") && form.contains("Content-Type"), "{form}");
    let wrong = post(&control, "/api/v1/osched/pause", "application/json", "{\"pause\": 1}");
    assert!(wrong.contains("unknown field"), "{wrong}");
    let (orders, _asked) = channel();
    let open = Control::start("0.0.0.0:0".parse().expect("an address"), Arc::default(), orders).err().expect("refused");
    assert!(open.to_string().contains("127.0.0.1:7070"), "{open}");
}

//! Encryption, and the rule for addresses that other machines reach.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::Duration;

use anabranch_model::ErrorKind;
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use super::super::hello::VERSION;
use super::super::{Connection, Event, Listener, Security, connect};
use super::{LIMIT, Note, TOKEN, hello_bytes, listen, loopback, note, open, pair, plain, raw, rest, start};

/// An authority and its certificate as PEM.
struct Authority(Issuer<'static, KeyPair>, Vec<u8>);

impl Authority {
    fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        Authority(Issuer::new(params, key), certificate.pem().into_bytes())
    }

    /// A listener whose certificate is for this address.
    fn server(&self, address: &str) -> Security {
        self.valid(address, (2001, 4000))
    }

    /// The same, with a certificate that is valid from the beginning of one year to that of another.
    fn valid(&self, address: &str, (from, to): (i32, i32)) -> Security {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![address.to_owned()]).unwrap();
        let [from, to] = [from, to].map(|year| rcgen::date_time_ymd(year, 1, 1));
        (params.not_before, params.not_after) = (from, to);
        let certificate = params.signed_by(&key, &self.0).unwrap();
        let (certificate, key) = (certificate.pem().into_bytes(), key.serialize_pem().into_bytes());
        Security::TlsServer { token: TOKEN.to_vec(), certificate, key }
    }

    fn client(&self) -> Security {
        Security::TlsClient { token: TOKEN.to_vec(), authority: self.1.clone(), name: None }
    }
}

#[test]
fn messages_arrive_both_ways_over_tls_and_the_end_is_known() {
    let authority = Authority::new();
    let (client, server) = pair(authority.server("127.0.0.1"), &authority.client());
    let large = Note { number: 10_000, text: "x".repeat(2 << 20) };
    thread::scope(|scope| {
        for end in [&client, &server] {
            let (connection, large) = (end.connection.clone(), &large);
            scope.spawn(move || {
                (0..10_000).for_each(|number| connection.send(&note(number)));
                connection.send(large);
            });
        }
        for end in [&client, &server] {
            (0..10_000).for_each(|number| assert_eq!(end.message(), note(number)));
            assert!(end.message() == large);
        }
    });
    client.connection.send(&note(1));
    client.connection.close();
    assert_eq!(server.message(), note(1));
    assert!(server.outcome().is_none() && client.outcome().is_none());
}

#[test]
fn a_connection_over_tls_that_is_not_read_can_be_closed() {
    let authority = Authority::new();
    let (listener, incoming) = listen(authority.server("127.0.0.1"), LIMIT);
    let (release, wait) = std::sync::mpsc::channel::<()>();
    let handler = move |_: Event<Note>| {
        let _ = wait.recv_timeout(LIMIT * 10);
    };
    let client: Connection<Note> = connect(listener.address(), &authority.client(), LIMIT, handler).unwrap();
    let server = start(&incoming);
    let large = Note { number: 1, text: "x".repeat(1 << 20) };
    (0..16).for_each(|_| server.connection.send(&large));
    server.connection.close();
    assert!(server.outcome().is_none());
    drop(release);
    drop(client);
}

#[test]
fn a_certificate_of_another_authority_or_for_another_address_is_refused() {
    let (authority, other) = (Authority::new(), Authority::new());
    let cases = [
        (
            authority.server("127.0.0.1"),
            other.client(),
            "invalid peer certificate",
            "give --tls-ca the certificate of the authority",
        ),
        (
            authority.server("127.0.0.2"),
            authority.client(),
            "not valid for name",
            "a name or an address that the listener's",
        ),
        (
            authority.server("other.test"),
            authority.client(),
            "not valid for name",
            "a name or an address that the listener's",
        ),
        (authority.valid("127.0.0.1", (2001, 2002)), authority.client(), "expired", "with a new certificate"),
        (authority.valid("127.0.0.1", (3999, 4000)), authority.client(), "not valid yet", "compare the clocks"),
    ];
    for (server, client, expected, remedy) in cases {
        let (listener, incoming) = listen(server, LIMIT);
        let error = open(listener.address(), &client).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Outside);
        let (text, place) = (error.to_string(), listener.address().to_string());
        assert!(text.starts_with(&place) && text.contains(expected) && text.contains(remedy), "{text}");
        assert!(incoming.try_recv().is_err());
        // The listener learns it as well.
        let seen = loop {
            if let Some(notice) = listener.notices().after(0).pop() {
                break notice.text;
            }
            thread::yield_now();
        };
        assert!(seen.starts_with("127.0.0.1: ") && seen.contains("received fatal alert"), "{seen}");
    }
}

#[test]
fn a_listener_may_be_known_by_its_name() {
    let authority = Authority::new();
    let named = |name: &str| match authority.client() {
        Security::TlsClient { token, authority, .. } => {
            Security::TlsClient { token, authority, name: Some(name.to_owned()) }
        }
        other => other,
    };
    let (listener, incoming) = listen(authority.server("coordinator.test"), LIMIT);
    let client = open(listener.address(), &named("coordinator.test")).unwrap();
    let server = start(&incoming);
    client.connection.send(&note(1));
    assert_eq!(server.message(), note(1));
    assert_eq!(client.connection.local_address().unwrap(), server.connection.peer());
    for (name, expected) in [("127.0.0.1", "not valid for name"), ("a b", "'a b' cannot be the name in a certificate")]
    {
        let error = open(listener.address(), &named(name)).err().unwrap().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_self_signed_certificate_is_its_own_authority() {
    let own = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let (certificate, key) = (own.cert.pem().into_bytes(), own.signing_key.serialize_pem().into_bytes());
    let client = Security::TlsClient { token: TOKEN.to_vec(), authority: certificate.clone(), name: None };
    let (client, server) = pair(Security::TlsServer { token: TOKEN.to_vec(), certificate, key }, &client);
    client.connection.send(&note(1));
    assert_eq!(server.message(), note(1));
}

#[test]
fn ends_that_do_not_agree_about_tls_say_so() {
    let authority = Authority::new();
    let (listener, _incoming) = listen(authority.server("127.0.0.1"), LIMIT);
    let error = open(listener.address(), &plain()).err().unwrap().to_string();
    assert!(error.contains("it does not begin with TLS, and this address needs it"), "{error}");

    let (listener, _incoming) = listen(plain(), LIMIT);
    let error = open(listener.address(), &authority.client()).err().unwrap().to_string();
    assert!(error.contains("TLS has failed") && error.contains("--tls-cert"), "{error}");
}

#[test]
fn the_token_counts_with_tls_too() {
    let authority = Authority::new();
    let (listener, _incoming) = listen(authority.server("127.0.0.1"), LIMIT);
    let client =
        Security::TlsClient { token: b"another token, long enough".to_vec(), authority: authority.1, name: None };
    let error = open(listener.address(), &client).err().unwrap().to_string();
    assert!(error.contains("its token is not that of this process"), "{error}");
}

#[test]
fn a_stranger_at_a_listener_with_tls_delays_nobody() {
    let authority = Authority::new();
    let (listener, incoming) = listen(authority.server("127.0.0.1"), LIMIT);
    let _silent = raw(listener.address());
    for (bytes, expected) in [
        (hello_bytes(VERSION, TOKEN), "it does not begin with TLS, and this address needs it"),
        (b"GET / HTTP/1.1\r\n\r\n".to_vec(), "HTTP/1.0 400 Bad Request"),
        (b"x".to_vec(), "before the end of its hello"),
        (Vec::new(), "before the end of its hello"),
    ] {
        let mut stranger = raw(listener.address());
        stranger.write_all(&bytes).unwrap();
        stranger.shutdown(Shutdown::Write).unwrap();
        let answer = rest(&mut stranger);
        assert!(answer.contains(expected), "{answer:?}");
    }
    let client = open(listener.address(), &authority.client()).unwrap();
    let server = start(&incoming);
    client.connection.send(&note(1));
    assert_eq!(server.message(), note(1));
    assert!(incoming.try_recv().is_err());

    let (listener, _incoming) = listen(authority.server("127.0.0.1"), Duration::from_millis(200));
    let mut silent = raw(listener.address());
    assert_eq!(silent.read(&mut [0]).unwrap(), 0);
}

fn refused(address: &str, security: &Security) -> [Option<String>; 2] {
    let address: SocketAddr = address.parse().unwrap();
    let listening = Listener::bind(address, security.clone(), drop).err();
    let connecting: Result<Connection<Note>, _> =
        connect(address, security, Duration::from_millis(1), |_: Event<Note>| {});
    [listening, connecting.err()].map(|error| {
        let error = error.filter(|error| error.kind() == ErrorKind::User)?;
        Some(error.to_string())
    })
}

#[test]
fn an_address_that_is_not_loopback_needs_tls_and_a_token() {
    let authority = Authority::new();
    // Documentation addresses, which no machine has.
    for address in ["192.0.2.1:9", "0.0.0.0:0", "[2001:db8::1]:9", "[::]:0", "[::ffff:192.0.2.1]:9"] {
        let [listening, connecting] = refused(address, &plain()).map(Option::unwrap);
        for (error, options) in
            [(&listening, "--tls-cert, --tls-key and --token-file"), (&connecting, "--tls-ca and --token-file")]
        {
            assert!(error.contains(&format!("{address}: without TLS")) && error.contains(options), "{error}");
        }
        let short = |security: &Security| match security.clone() {
            Security::TlsServer { certificate, key, .. } => {
                Security::TlsServer { token: TOKEN[..15].to_vec(), certificate, key }
            }
            Security::TlsClient { authority, .. } => Security::TlsClient { token: Vec::new(), authority, name: None },
            plain @ Security::Plain { .. } => plain,
        };
        let listening = refused(address, &short(&authority.server("192.0.2.1")))[0].clone().unwrap();
        assert!(listening.contains("the token has 15 bytes") && listening.contains("--token-file"), "{listening}");
        let connecting = refused(address, &short(&authority.client()))[1].clone().unwrap();
        assert!(connecting.contains("the token has 0 bytes") && connecting.contains("--token-file"), "{connecting}");
        assert_eq!(refused(address, &authority.client())[1], None);
    }
    let empty = Security::Plain { token: Vec::new() };
    for address in ["127.0.0.1:0", "127.8.9.1:0", "[::ffff:127.0.0.1]:0"] {
        assert_eq!(refused(address, &empty), [None, None], "{address}");
    }
    assert!(Listener::bind("0.0.0.0:0".parse().unwrap(), authority.server("127.0.0.1"), drop).is_ok());
}

#[test]
fn what_is_given_to_the_wrong_end_or_is_no_certificate_is_refused() {
    let authority = Authority::new();
    let address = loopback().to_string();
    let [listening, connecting] = refused(&address, &authority.client());
    assert!(listening.unwrap().contains("--tls-cert and --tls-key") && connecting.is_none());
    assert!(refused(&address, &authority.server("127.0.0.1"))[1].clone().unwrap().contains("--tls-ca"));

    let server = |certificate: &[u8], key: &[u8]| {
        let (token, certificate, key) = (TOKEN.to_vec(), certificate.to_vec(), key.to_vec());
        refused(&address, &Security::TlsServer { token, certificate, key })[0].clone().unwrap()
    };
    let other_key = KeyPair::generate().unwrap().serialize_pem();
    assert!(server(b"", b"").contains("--tls-cert has no certificate"));
    assert!(server(&authority.1, b"key").contains("--tls-key is not a private key"));
    assert!(server(&authority.1, other_key.as_bytes()).contains("--tls-cert and --tls-key do not go together"));
    let client = Security::TlsClient { token: TOKEN.to_vec(), authority: other_key.into_bytes(), name: None };
    assert!(refused(&address, &client)[1].clone().unwrap().contains("--tls-ca has no certificate"));
    let long = Security::Plain { token: vec![0; 4097] };
    assert!(refused(&address, &long)[0].clone().unwrap().contains("the token has 4097 bytes"));
    assert_eq!(format!("{:?}", authority.client()), "TlsClient");
}

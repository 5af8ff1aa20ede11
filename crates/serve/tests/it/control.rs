//! The control socket from both sides.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use serde_json::{Value, json};
use uraid_serve::ServeError;
use uraid_serve::control::{Client, MAX_CALL_BYTES, Server, list_in};

use crate::support::{PATIENCE, eventually};

fn echo() -> Arc<dyn Fn(Value) -> Value + Send + Sync> {
    Arc::new(|call| json!({ "echo": call }))
}

fn connect(path: &std::path::Path) -> UnixStream {
    let stream = UnixStream::connect(path).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn the_socket_and_its_directory_are_private() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("run/uraid/md0.sock");
    let server = Server::start(&path, echo()).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(path.parent().unwrap()).unwrap().mode() & 0o777, 0o700);
    assert!(matches!(Server::start(&path, echo()), Err(ServeError::SocketInUse { .. })));
    drop(server);
    assert!(!path.exists());
    let open = dir.path().join("open");
    std::fs::create_dir(&open).unwrap();
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o777)).unwrap();
    assert!(matches!(Server::start(&open.join("md0.sock"), echo()), Err(ServeError::File { .. })));
}

#[test]
fn calls_are_answered_one_after_another_and_nonsense_gets_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("md0.sock");
    let _server = Server::start(&path, echo()).unwrap();
    let mut stream = connect(&path);
    stream.write_all(b"{\"a\":1}\nnonsense\n\"b\"\n").unwrap();
    let lines: Vec<Value> =
        BufReader::new(&stream).lines().take(3).map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect();
    assert_eq!(lines[0], json!({ "echo": { "a": 1 } }));
    assert!(lines[1]["error"].as_str().unwrap().starts_with("not JSON"));
    assert_eq!(lines[2], json!({ "echo": "b" }));
}

#[test]
fn an_endless_line_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("md0.sock");
    let _server = Server::start(&path, echo()).unwrap();
    let mut stream = connect(&path);
    stream.write_all(&vec![b'x'; MAX_CALL_BYTES]).unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.contains("at most 1048576 bytes"), "{said}");
    let long = json!("x".repeat(MAX_CALL_BYTES - 100));
    assert_eq!(Client::call(&path, &long, PATIENCE).unwrap()["echo"], long);
}

#[test]
fn too_many_clients_are_told_so() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("md0.sock");
    let _server = Server::start(&path, echo()).unwrap();
    let connected: Vec<UnixStream> = (0..16).map(|_| connect(&path)).collect();
    let answer = Client::call(&path, &json!(1), PATIENCE).unwrap();
    assert_eq!(answer, json!({ "error": "16 clients are connected already" }));
    drop(connected);
    eventually("there is room again", || Client::call(&path, &json!(1), PATIENCE).unwrap() == json!({ "echo": 1 }));
}

#[test]
fn a_long_call_keeps_nobody_else_waiting_and_a_caller_may_give_up() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("md0.sock");
    let barrier = Arc::new(Barrier::new(2));
    let handler = {
        let barrier = Arc::clone(&barrier);
        Arc::new(move |call: Value| {
            if call == "long" {
                barrier.wait();
            }
            json!({ "done": call })
        })
    };
    let mut server = Server::start(&path, handler).unwrap();
    let late = Client::call(&path, &json!("long"), Duration::from_millis(50));
    assert!(matches!(late, Err(ServeError::Timeout { .. })), "{late:?}");
    assert_eq!(Client::call(&path, &json!("short"), PATIENCE).unwrap(), json!({ "done": "short" }));
    barrier.wait();
    let mut stream = connect(&path);
    stream.write_all(b"\"long\"\n").unwrap();
    stream.write_all(b"\"short\"\n").unwrap();
    // The server stops while the call runs; its answer still comes.
    let answer = std::thread::spawn(move || BufReader::new(stream).lines().next().unwrap().unwrap());
    barrier.wait();
    assert!(server.finish(PATIENCE));
    assert_eq!(serde_json::from_str::<Value>(&answer.join().unwrap()).unwrap(), json!({ "done": "long" }));
}

#[test]
fn a_panic_in_the_handler_is_an_answer() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("md0.sock");
    let _server = Server::start(&path, Arc::new(|call| if call == 1 { panic!("on purpose") } else { call })).unwrap();
    assert!(Client::call(&path, &json!(1), PATIENCE).unwrap()["error"].is_string());
    assert_eq!(Client::call(&path, &json!(2), PATIENCE).unwrap(), 2);
}

#[test]
fn only_the_living_are_listed_and_the_dead_are_cleared_away() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    assert_eq!(list_in(&at("missing")).unwrap(), [""; 0]);
    let _b = Server::start(&at("b.sock"), echo()).unwrap();
    let _a = Server::start(&at("a.sock"), echo()).unwrap();
    drop(UnixListener::bind(at("dead.sock")).unwrap());
    std::fs::write(at("file.sock"), "").unwrap();
    std::fs::write(at("other"), "").unwrap();
    assert_eq!(list_in(dir.path()).unwrap(), ["a", "b"]);
    assert!(!at("dead.sock").exists() && at("file.sock").exists() && at("other").exists());
    let gone = Client::call(&at("dead.sock"), &json!(1), PATIENCE);
    assert!(matches!(gone, Err(ServeError::NotRunning { .. })), "{gone:?}");
}

#[test]
fn an_answer_that_is_no_json_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.sock");
    let listener = UnixListener::bind(&path).unwrap();
    let server = std::thread::spawn(move || {
        for answer in [&b"nonsense\n"[..], b"", b"{\"cut\":"] {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(&stream).read_line(&mut line).unwrap();
            stream.write_all(answer).unwrap();
        }
    });
    for _ in 0..3 {
        let answer = Client::call(&path, &json!(1), PATIENCE);
        assert!(matches!(answer, Err(ServeError::BadAnswer { .. })), "{answer:?}");
    }
    server.join().unwrap();
}

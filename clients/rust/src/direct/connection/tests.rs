//! Tests of connections: greetings, frames and keys.

use tokio::net::TcpListener;

use super::*;

const NUMBER: u64 = 9;

fn greeting() -> Greeting {
    Greeting { gn: Gn(7), from: Pn(1), to: Pn(3), number: 4, nonce: Token([5; 16]) }
}

fn key(lower: u8, higher: u8) -> EdgeKey {
    EdgeKey::new(&Token([lower; 16]), &Token([higher; 16]))
}

/// Greets a process that knows one key with another; returns what both get.
async fn greet(theirs: EdgeKey, own: EdgeKey) -> (io::Result<u64>, io::Result<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = async {
        let (mut stream, _) = listener.accept().await?;
        let greeted = Greeting::receive(&mut stream).await?.unwrap();
        assert_eq!(greeted.greeting, greeting());
        greeted.answer(&theirs, NUMBER, stream).await.map(|_| ())
    };
    let greets = greeting();
    let (sent, answered) = tokio::join!(greets.send(&own, &address), answer);
    (sent.map(|(_, number)| number), answered)
}

#[tokio::test]
async fn both_ends_must_know_both_secrets() {
    let (number, answered) = greet(key(1, 2), key(1, 2)).await;
    assert_eq!(number.unwrap(), NUMBER);
    answered.unwrap();
    for (theirs, own) in [((1, 2), (1, 3)), ((1, 2), (3, 2)), ((1, 2), (2, 1))] {
        let (number, answered) = greet(key(theirs.0, theirs.1), key(own.0, own.1)).await;
        assert_eq!(answered.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        assert!(number.is_err());
    }
}

#[tokio::test]
async fn a_listener_without_the_secrets_is_not_believed() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let repeats = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut bytes = [0; Greeting::BYTES + PROOF];
        stream.read_exact(&mut bytes).await.unwrap();
        stream.write_all(&bytes[bytes.len() - Greeting::ANSWER..]).await.unwrap();
        let confirmation = stream.read_u8().await;
        assert!(confirmation.is_err(), "it got a proof");
    };
    let (greets, key) = (greeting(), key(1, 2));
    let greeted = async { greets.send(&key, &address).await.map(|(_, number)| number) };
    let (sent, ()) = tokio::join!(greeted, repeats);
    assert_eq!(sent.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
}

#[tokio::test]
async fn a_greeting_that_was_overheard_is_of_no_use() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (key, said) = (key(1, 2), greeting().encode());
    let overheard = [said.as_slice(), key.prove(Step::Greets, &said).as_ref()].concat();
    let repeats = async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&overheard).await.unwrap();
        let mut answer = [0; Greeting::ANSWER];
        stream.read_exact(&mut answer).await.unwrap();
        stream.write_all(&answer[Greeting::ANSWER - PROOF..]).await.unwrap();
    };
    let answers = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let greeted = Greeting::receive(&mut stream).await.unwrap().unwrap();
        greeted.answer(&key, NUMBER, stream).await
    };
    let ((), answered) = tokio::join!(repeats, answers);
    assert_eq!(answered.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
}

/// Takes what comes without a key.
fn frames(bytes: &mut Vec<u8>) -> io::Result<Vec<Body>> {
    let received = take_received(bytes, |_| None)?;
    let body = |one| match one {
        Received::Frame(body) => body,
        Received::Key(_) => panic!("a key"),
    };
    Ok(received.into_iter().map(body).collect())
}

#[test]
fn frames_are_taken_whole_and_in_order() {
    let queries: Vec<Body> = (0..3).map(|number| Body::Query { number }).collect();
    let mut bytes = Vec::new();
    queries.iter().for_each(|body| append_frame(&mut bytes, body));
    let rest = bytes.split_off(bytes.len() - 1);
    assert_eq!(frames(&mut bytes).unwrap(), queries[..2]);
    bytes.extend(rest);
    assert_eq!(frames(&mut bytes).unwrap(), queries[2..]);
    assert!(bytes.is_empty());
}

#[test]
fn garbage_and_frames_that_are_too_long_break_the_connection() {
    let mut unknown = vec![1, 0, 0, 0, 200];
    assert!(frames(&mut unknown).is_err());
    let mut long = u32::MAX.to_le_bytes().to_vec();
    assert!(frames(&mut long).is_err());
}

#[tokio::test]
async fn keys_come_encrypted_between_frames_and_no_others_are_taken() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let answer = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let greeted = Greeting::receive(&mut stream).await.unwrap().unwrap();
        greeted.answer(&key(1, 2), NUMBER, stream).await.unwrap()
    };
    let (greets, own) = (greeting(), key(1, 2));
    let (lower, higher) = tokio::join!(greets.send(&own, &address), answer);
    let (lower, _) = lower.unwrap();
    let keys: [GroupKey; 2] = std::array::from_fn(|_| GroupKey::random().unwrap());
    let mut bytes = Vec::new();
    lower.append_key(&mut bytes, keys[0]);
    append_frame(&mut bytes, &Body::Query { number: 1 });
    lower.append_key(&mut bytes, keys[1]);
    let secret = &keys[0].to_bytes()[8..];
    assert!(!bytes.windows(secret.len()).any(|window| window == secret));
    let mut numbers = 0..;
    let mut decrypt = |sealed: &[u8]| higher.seal.decrypt(Direction::Up, numbers.next()?, sealed);
    let mut copy = bytes.clone();
    let last = bytes.pop().unwrap();
    let mut received = take_received(&mut bytes, &mut decrypt).unwrap();
    bytes.push(last);
    received.extend(take_received(&mut bytes, &mut decrypt).unwrap());
    let query = Received::Frame(Body::Query { number: 1 });
    assert_eq!(received, [Received::Key(keys[0]), query, Received::Key(keys[1])]);
    // Again, changed, and back to the sender.
    assert!(take_received(&mut copy.clone(), &mut decrypt).is_err());
    let mut numbers = 0..;
    let mut back = |sealed: &[u8]| lower.seal.decrypt(Direction::Down, numbers.next()?, sealed);
    assert!(take_received(&mut copy, &mut back).is_err());
    let mut long = (KEY_FOLLOWS | 7).to_le_bytes().to_vec();
    long.extend([0; 7]);
    assert!(take_received(&mut long, &mut decrypt).is_err());
}

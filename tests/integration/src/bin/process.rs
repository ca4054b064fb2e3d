//! A process as users write them, for tests that kill it: attaches as its environment says, joins
//! the groups that it is given, takes part in them, prints its rank in each, and goes on until its
//! standard input ends.
#![expect(clippy::print_stdout, reason = "its output is what tests read")]

use std::io::Read;

use fabricast_client::Error;
use fabricast_client::blocking::Client;

fn main() -> Result<(), Error> {
    let client = Client::from_environment()?;
    let mut groups = Vec::new();
    for name in std::env::args().skip(1) {
        let group = client.join(&name)?;
        group.take_part()?;
        println!("{}", group.rank());
        groups.push(group);
    }
    let mut rest = Vec::new();
    // However it ends, it is the end.
    let _ = std::io::stdin().read_to_end(&mut rest);
    Ok(())
}

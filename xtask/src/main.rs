//! Checks of this repository that the compiler and clippy do not make. Run them with `cargo xtask tidy`.
//!
//! A rule that nothing checks decays. Each check reads the repository as it is, names the place of a problem
//! and says what to do about it.

mod tidy;

use std::path::PathBuf;
use std::process::ExitCode;

const HELP: &str = "\
cargo xtask tidy           check direction of dependencies, wings, lengths, names in documents, leftovers, code map
cargo xtask tidy --bless   the same, after lowering the entries of xtask/ratchet.txt to today's lengths
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let bless = match words.as_slice() {
        ["tidy"] => false,
        ["tidy", "--bless"] => true,
        [] | ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        _ => {
            eprint!("unknown arguments '{}'; use:\n{HELP}", words.join(" "));
            return ExitCode::from(2);
        }
    };
    let Some(root) = root() else {
        eprintln!("xtask does not find its repository; run it with cargo xtask");
        return ExitCode::FAILURE;
    };
    match tidy::run(&root, bless) {
        Ok(problems) if problems.is_empty() => {
            println!("tidy: all is well");
            ExitCode::SUCCESS
        }
        Ok(problems) => {
            for problem in &problems {
                eprintln!("{problem}");
            }
            eprintln!("tidy: {} problem(s)", problems.len());
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("tidy could not run: {error}");
            ExitCode::FAILURE
        }
    }
}

/// The repository, as cargo names it when it runs this program. The program itself may be that of another
/// working copy: several of them can share a target folder.
fn root() -> Option<PathBuf> {
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR")?);
    package.parent().map(PathBuf::from)
}

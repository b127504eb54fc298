//! The program is its own worker, so what runs over worker processes cannot be tested within a test's
//! program.

use std::process::Command;

#[test]
fn worker_processes_give_the_answers_of_one_process() {
    let program = env!("CARGO_BIN_EXE_anabranch-bench");
    let output = Command::new(program).args(["workers", "--quick", "--repetitions", "1"]).output().expect("runs");
    let (text, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{errors}");
    assert_eq!(text.matches("| 2 worker processes").count(), 2, "{text}");
    assert_eq!(text.matches(", bound 1.35: ").count(), 2, "{text}");
}
